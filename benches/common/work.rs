//! Work on many small files: what two benchmarks do inside a sandbox, and the figure they take from there.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

pub(crate) const FILES: usize = 20_000;
pub(crate) const DIRS: usize = 200;
/// Opens of one sample of `open`.
const OPENS: u32 = 100_000;

pub(crate) fn file(n: usize) -> String {
    format!("files/d{}/f{n}.txt", n % DIRS)
}

/// Makes the files.
pub(crate) fn plant(ws: &Path) {
    for d in 0..DIRS {
        fs::create_dir_all(ws.join(format!("files/d{d}"))).unwrap();
    }
    for n in 0..FILES {
        fs::write(ws.join(file(n)), format!("{n}\n").repeat(40)).unwrap();
    }
    fs::copy(std::env::current_exe().unwrap(), ws.join("bench")).unwrap();
}

/// With `--inner WORK WS` among the arguments this is the inside: does the work, prints nanoseconds, and says that it did. `more` does what
/// is not `read` or `open`.
pub(crate) fn inside(args: &[String], more: impl FnOnce(&str, &Path)) -> bool {
    let Some(at) = args.iter().position(|a| a == "--inner") else {
        return false;
    };
    let ws = Path::new(&args[at + 2]);
    let start = Instant::now();
    match args[at + 1].as_str() {
        "read" => {
            for n in 0..FILES {
                assert!(!fs::read(ws.join(file(n))).unwrap().is_empty());
            }
        }
        "open" => {
            let path = ws.join(file(0));
            for _ in 0..OPENS {
                drop(fs::File::open(&path).unwrap());
            }
        }
        work => more(work, ws),
    }
    println!("{}", start.elapsed().as_nanos());
    true
}

/// The start of a bare `bwrap` with the mounts that a run has, and `ws` writable.
pub(crate) fn bare(command: &mut Command, ws: &Path) {
    let fixed =
        "--unshare-all --die-with-parent --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --bind";
    command.args(fixed.split(' ')).arg(ws).arg(ws);
}

/// Milliseconds of the work inside. `command` is the start of a sandbox.
pub(crate) fn time(command: Command, work: &str, ws: &Path) -> f64 {
    time_with(command, &[], work, ws)
}

/// As [`time`], with these arguments in front.
pub(crate) fn time_with(mut command: Command, first: &[&str], work: &str, ws: &Path) -> f64 {
    let output = command
        .arg(ws.join("bench"))
        .args(first)
        .args(["--inner", work])
        .arg(ws)
        .output()
        .expect("the program starts");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{work}: {}: {words}",
        output.status
    );
    let said = String::from_utf8_lossy(&output.stdout);
    let last = said.lines().last().expect("a figure");
    last.parse::<f64>().expect("nanoseconds") / 1e6
}
