//! What the benchmarks share: order statistics and the verdict.

use std::process::ExitCode;

/// The smallest and the middle value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) p50: f64,
}

impl Spread {
    pub(crate) fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Self {
            min: sorted[0],
            p50: sorted[sorted.len() / 2],
        }
    }
}

/// Closes what this process inherited, so that it starts its commands as a shell does. A descriptor of a high number would give all of
/// them a large table of descriptors from the start, and hide what a growing one costs.
pub(crate) fn without_inherited_descriptors() {
    let open: Vec<i32> = std::fs::read_dir("/proc/self/fd")
        .expect("/proc is mounted")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    for number in open {
        // The one that read the directory is closed already.
        let _ = nix::unistd::close(number);
    }
}

/// `--guard`: fail only at twice the budget. For machines that do other things meanwhile.
pub(crate) fn guarded() -> bool {
    std::env::args().any(|a| a == "--guard")
}

/// Prints the verdict; `cost` is what must not exceed `budget`.
pub(crate) fn verdict(what: &str, cost: f64, budget: f64, unit: &str) -> ExitCode {
    let limit = if guarded() { budget * 2.0 } else { budget };
    let guard = if guarded() {
        " (guard: twice the budget)"
    } else {
        ""
    };
    let ok = cost <= limit;
    println!(
        "{what}: {cost:.2} {unit}, limit {limit:.2} {unit}{guard}: {}",
        if ok { "within" } else { "OVER" }
    );
    if ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
