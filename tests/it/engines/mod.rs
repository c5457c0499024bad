//! One table for all engines of Linux: what a run shows, and what an engine that cannot do it says instead.
//!
//! A row is a behaviour, a column an engine. `holds` is the behaviour itself; a cell with words is a refusal before anything runs, which
//! names the key (R14). Where a report is all that is missing, the enforced line of `-v` names it. Nothing is skipped.

mod cases;
mod classic;
mod kills;
mod listed;
mod network;
mod places;
mod rows;
mod terminal;

use crate::cases::{Case, cases};

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Engine {
    Bwrap,
    Builtin,
    /// The same on a kernel without the mount calls of Linux 5.2 to 5.12, told so by a filter around it.
    Classic,
    Landlock,
}

impl Engine {
    fn name(self) -> &'static str {
        match self {
            Self::Bwrap => "bwrap",
            Self::Builtin | Self::Classic => "builtin",
            Self::Landlock => "landlock",
        }
    }

    /// Before the steps of a row.
    fn around(self) -> &'static str {
        match self {
            Self::Classic => "R=\"$L mounts $R\"",
            Self::Bwrap | Self::Builtin | Self::Landlock => "",
        }
    }
}

/// A row: the spec, the steps, and what they print where the engine holds it.
struct Row {
    /// Top-level lines.
    top: &'static str,
    /// Lines of `[filesystem]`.
    files: &'static str,
    /// What follows the binds.
    more: &'static str,
    /// Prepared outside.
    before: &'static str,
    /// `$R` is the run in `ws`.
    steps: &'static str,
    prints: &'static str,
}

/// What a cell is.
enum Cell {
    Holds,
    Refuses(&'static [&'static str]),
    Names(&'static str),
}

fn check(engine: Engine, row: &Row, cell: &Cell) {
    for case in cases() {
        let top = format!("engine = \"{}\"\n{}", engine.name(), row.top);
        case.spec(&top, row.files, row.more);
        match cell {
            Cell::Holds => {
                let script = format!("{}\n{}\n{}", engine.around(), row.before, row.steps);
                case.steps(&script).prints(row.prints);
            }
            Cell::Names(gap) => {
                let script = format!(
                    "{}\n{}\n$R true; env -C ws ccbox run -v --spec ../spec.toml -- true",
                    engine.around(),
                    row.before
                );
                case.steps(&script).says(&["enforced: ", gap]);
            }
            Cell::Refuses(words) => {
                let script = format!(
                    "{}\n{}\n$R sh -c 'echo STARTED; echo x > started'; echo rc=$?; ls ws/started 2>/dev/null",
                    engine.around(),
                    row.before
                );
                case.steps(&script).prints("rc=125\n").refuses(words);
            }
        }
        nothing_is_left(&case);
    }
}

/// The run's directory for temporary files goes with it, on every engine.
fn nothing_is_left(case: &Case) {
    use std::os::unix::fs::MetadataExt;
    let uid = case.ids().0;
    let left: Vec<_> = std::fs::read_dir("/tmp")
        .unwrap()
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.strip_prefix("ccbox-")
                .is_some_and(|rest| rest.len() == 16 && rest.bytes().all(|b| b.is_ascii_hexdigit()))
                && entry.metadata().is_ok_and(|meta| meta.uid() == uid)
        })
        .map(|entry| entry.path())
        .filter(|path| is_nobodys(path))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Other tests run at the same time: a directory that some process names as its `$TMPDIR` is in use.
fn is_nobodys(path: &std::path::Path) -> bool {
    let named = format!("TMPDIR={}", path.display());
    for _ in 0..50 {
        if !path.exists() {
            return false;
        }
        let used = std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .any(|process| {
                let environ = std::fs::read(process.path().join("environ")).unwrap_or_default();
                environ.split(|b| *b == 0).any(|v| v == named.as_bytes())
            });
        if used {
            return false;
        }
        // It may be that of a run which begins or ends.
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    true
}
