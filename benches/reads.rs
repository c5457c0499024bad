//! What hiding costs: covers and read floor at the start, opens and reads under each, against a bare `bwrap` or a run without them.
//!
//! Pairs take turns. The time of opens and reads is taken inside, around the work alone; that of starts outside, around the call.
//! As root the commands run as the first ordinary user, who can open `/dev/fuse` as on most systems: for uid 0 some system files are
//! always covered.
//!
//! `cargo bench --bench reads [-- --guard] [-- ROUNDS]`
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark ends by panicking"
)]
#![allow(missing_docs, reason = "a program")]

#[allow(dead_code, reason = "the verdict here is a table")]
mod common;
#[path = "common/work.rs"]
mod work;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// uid and gid of the first ordinary user, where this runs as root.
fn ordinary() -> Option<(u32, u32)> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let uid = status.lines().find_map(|l| l.strip_prefix("Uid:"))?;
    if uid.split_whitespace().next() != Some("0") {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap();
    users.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let (uid, gid) = (fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?);
        (1000..60_000).contains(&uid).then_some((uid, gid))
    })
}

struct Place {
    top: PathBuf,
    binary: PathBuf,
    user: Option<(u32, u32)>,
}

impl Place {
    fn new(top: &Path) -> Self {
        let place = Self {
            top: top.to_owned(),
            binary: top.join("ccbox"),
            user: ordinary(),
        };
        fs::set_permissions(top, fs::Permissions::from_mode(0o755)).unwrap();
        for dir in ["home", "ws", "hidden/a", "hidden/b", "hidden/c", "hidden/d"] {
            fs::create_dir_all(top.join(dir)).unwrap();
        }
        fs::write(top.join("hidden/key"), "SECRET").unwrap();
        work::plant(&top.join("ws"));
        let binary = std::env::var("CCBOX_TEST_BIN")
            .unwrap_or_else(|_| env!("CARGO_BIN_EXE_ccbox").to_owned());
        fs::copy(binary, &place.binary).unwrap();
        if let Some((uid, gid)) = place.user {
            for dir in ["", "home", "ws", "hidden"] {
                chown(top.join(dir), Some(uid), Some(gid)).unwrap();
            }
        }
        for (name, hidden) in SPECS {
            place.spec(name, hidden);
        }
        place
    }

    /// A spec that shows the place read-only and `ws` writable, and hides these names below `hidden`, or patterns.
    fn spec(&self, name: &str, hidden: &[&str]) {
        let t = self.top.display();
        let list: Vec<String> = hidden
            .iter()
            .map(|h| match h.strip_prefix('/') {
                Some(below) => format!("\"{t}/hidden/{below}\""),
                None => format!("\"{h}\""),
            })
            .collect();
        let text = format!(
            "network_enabled = false\nguest_workdir = \"{t}/ws\"\n[[bind_mounts]]\nhost_path = \"{t}\"\nread_only = true\n\
             [[bind_mounts]]\nhost_path = \"{t}/ws\"\n[filesystem]\nview = \"bound\"\ndeny_read = [{}]\n",
            list.join(", ")
        );
        fs::write(self.top.join(name), text).unwrap();
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.top.join("home"))
            .current_dir(self.top.join("ws"))
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        command
    }

    fn boxed(&self, spec: &str) -> Command {
        let mut command = self.command(&self.binary);
        command.args(["run", "-q", "--spec"]);
        command.arg(self.top.join(spec)).arg("--");
        command
    }

    fn bare(&self) -> Command {
        let mut command = self.command(Path::new("bwrap"));
        work::bare(&mut command, &self.top.join("ws"));
        command
    }

    /// A start, with or without `/dev/fuse`: the same way for both, where both can be had. Something (`/proc/keys`) is always hidden, so
    /// that without the device there are placeholders.
    fn start(&self, spec: &str, device: bool) -> f64 {
        let mut command = self.boxed(spec);
        if let (Some((uid, gid)), true) = (self.user, std::env::var_os(MARK).is_some()) {
            let parent = std::os::unix::process::parent_id();
            let whose = if device {
                "self".to_owned()
            } else {
                parent.to_string()
            };
            let argv: Vec<_> = std::iter::once(command.get_program())
                .chain(command.get_args())
                .collect();
            let mut entering = self.command(Path::new("nsenter"));
            entering
                .uid(0)
                .gid(0)
                .arg(format!("--mount=/proc/{whose}/ns/mnt"))
                .args(["-S", &uid.to_string(), "-G", &gid.to_string()])
                .arg(format!("--wd={}", self.top.join("ws").display()))
                .args(argv);
            command = entering;
        }
        start(command)
    }

    /// Milliseconds of the work inside.
    fn work(&self, command: Command, work: &str) -> f64 {
        work::time(command, work, &self.top.join("ws"))
    }
}

/// Name of a spec and what it hides. `dirs` and `floor` have the same number of covers.
const SPECS: [(&str, &[&str]); 5] = [
    ("nothing", &[]),
    ("covers", &["/a", "/b", "/c"]),
    ("dirs", &["/a", "/b", "/c", "/d"]),
    ("floor", &["/a", "/b", "/c", "/key"]),
    ("pattern", &["*.secret"]),
];

/// Milliseconds of a whole call.
fn start(mut command: Command) -> f64 {
    command.arg("true");
    let start = Instant::now();
    let status = command.status().expect("the program starts");
    let elapsed = start.elapsed();
    assert!(status.success(), "{command:?}: {status}");
    elapsed.as_secs_f64() * 1e3
}

/// Samples of two, in pairs that take turns in going first.
fn pairs(
    rounds: usize,
    mut one: impl FnMut() -> f64,
    mut other: impl FnMut() -> f64,
) -> [Vec<f64>; 2] {
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    for n in 0..rounds {
        if n % 2 == 0 {
            ones.push(one());
            others.push(other());
        } else {
            others.push(other());
            ones.push(one());
        }
    }
    [ones, others]
}

/// Set where this runs again.
const MARK: &str = "CCBOX_BENCH_DEVICE";

/// Runs itself again where an ordinary user has `/dev/fuse`, if this is root and one has not.
fn with_device() -> Option<ExitCode> {
    const DEVICE: &str = "/dev/fuse";
    let mode = fs::metadata(DEVICE).ok()?.permissions().mode();
    if ordinary().is_none() || mode & 0o006 == 0o006 || std::env::var_os(MARK).is_some() {
        return None;
    }
    let script = "mount -t tmpfs none /mnt && mknod -m 666 /mnt/fuse c 10 229 && mount --bind /mnt/fuse /dev/fuse && exec \"$@\"";
    let status = Command::new("unshare")
        .args(["-m", "sh", "-c", script, "sh"])
        .args(std::env::args_os())
        .env(MARK, "1")
        .status()
        .expect("unshare starts");
    Some(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn main() -> ExitCode {
    common::without_inherited_descriptors();
    let args: Vec<String> = std::env::args().collect();
    if work::inside(&args, |work, _| panic!("{work}")) {
        return ExitCode::SUCCESS;
    }
    if let Some(code) = with_device() {
        return code;
    }
    let rounds: usize = args.iter().find_map(|a| a.parse().ok()).unwrap_or(9);
    // Where the sandbox shows the host's own directories all the way down: in a private one there is no read floor.
    let base = std::env::var_os("HOME").filter(|_| ordinary().is_none());
    let top = tempfile::tempdir_in(base.unwrap_or_else(|| "/srv".into())).unwrap();
    let place = Place::new(top.path());
    let factor = if common::guarded() { 2.0 } else { 1.0 };
    let mut over = false;

    println!("{rounds} pairs, minima in ms");
    println!("work            bwrap     ccbox   ratio  (limit)");
    // What a pattern costs is said, not limited: whoever writes one is told.
    for (spec, work, limit) in [
        ("covers", "open", Some(1.2)),
        ("covers", "read", Some(1.10)),
        ("floor", "open", Some(1.4)),
        ("floor", "read", Some(1.15)),
        ("pattern", "open", None),
        ("pattern", "read", None),
    ] {
        let [ours, theirs] = pairs(
            rounds,
            || place.work(place.boxed(spec), work),
            || place.work(place.bare(), work),
        );
        let (a, b) = (common::Spread::of(&ours), common::Spread::of(&theirs));
        // Load moves both: one of the two ratios within is within.
        let ratios: Vec<f64> = ours.iter().zip(&theirs).map(|(a, b)| a / b).collect();
        let ratio = (a.min / b.min).min(common::Spread::of(&ratios).p50);
        let said = limit.map_or_else(|| "-".to_owned(), |l| format!("{l:.2}"));
        println!(
            "{work:4} {spec:8} {:7.1}   {:7.1}  {ratio:6.2}  ({said})",
            b.min, a.min
        );
        over |= limit.is_some_and(|limit| ratio > 1.0 + (limit - 1.0) * factor);
    }

    let rounds = rounds * 20;
    println!(
        "{rounds} pairs of starts: minima, their difference, median of the differences, in ms"
    );
    for (spec, base, device, budget) in [
        ("covers", "nothing", false, 0.4),
        ("floor", "dirs", true, 0.2),
    ] {
        let [ours, theirs] = pairs(
            rounds,
            || place.start(spec, true),
            || place.start(base, device),
        );
        let differences: Vec<f64> = ours.iter().zip(&theirs).map(|(a, b)| a - b).collect();
        let (a, b, d) = (
            common::Spread::of(&ours),
            common::Spread::of(&theirs),
            common::Spread::of(&differences),
        );
        let least = a.min - b.min;
        println!(
            "{spec:8} over {base:8} {:6.2} {:6.2}  {least:6.3}  {:6.3}  ({budget})",
            a.min, b.min, d.p50
        );
        // Load on the machine moves the median, and the minima are the quiet moments: one of them within is within.
        over |= least.min(d.p50) > budget * factor;
    }
    if over {
        println!("OVER a limit");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
