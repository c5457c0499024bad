//! Starting runs and looking at what is left of them.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The engines and network set-ups a run can have; most checks hold for all.
pub(crate) const WAYS: [&[&str]; 8] = [
    &[],
    &["--builtin"],
    &["--builtin", "--early"],
    &["--early"],
    &["--inner"],
    &["--host"],
    &["--none"],
    &["--broker"],
];
/// And those whose sandbox another program makes.
pub(crate) const EVERY: [&[&str]; 9] = [
    &[],
    &["--builtin"],
    &["--builtin", "--early"],
    &["--early"],
    &["--inner"],
    &["--host"],
    &["--none"],
    &["--broker"],
    &["--seatbelt"],
];
/// Those with namespaces.
pub(crate) const BOXES: [&[&str]; 7] = [
    &[],
    &["--builtin"],
    &["--builtin", "--early"],
    &["--early"],
    &["--inner"],
    &["--host"],
    &["--broker"],
];

pub(crate) fn is_root() -> bool {
    nix::unistd::getuid().is_root()
}

pub(crate) fn user() -> &'static str {
    if is_root() { "root" } else { "user" }
}

/// A directory of this check, removed at its end.
pub(crate) struct Dir(pub(crate) PathBuf);

impl Dir {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("session-{}-{n}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn exe() -> PathBuf {
    std::env::current_exe().unwrap()
}

/// Long sleeps are 4000 seconds and more; in commands and in what is looked for, each gets a fraction that tells this
/// process' sleeps from those of another copy of these checks.
pub(crate) fn marked(text: &str) -> String {
    let mut out = String::new();
    for (i, part) in text.split("sleep ").enumerate() {
        if i > 0 {
            out.push_str("sleep ");
        }
        let digits = part.chars().take_while(char::is_ascii_digit).count();
        let (number, rest) = part.split_at(digits);
        out.push_str(number);
        if digits == 4 && (i > 0 || rest.is_empty()) {
            out.push('.');
            out.push_str(&std::process::id().to_string());
        }
        out.push_str(rest);
    }
    out
}

/// A run in `dir`.
pub(crate) fn boxed(dir: &Path, options: &[&str], command: &[&str]) -> Command {
    let mut c = Command::new(exe());
    c.arg("box")
        .args(options)
        .arg("--")
        .args(command.iter().map(|a| marked(a)))
        .current_dir(dir);
    c.stdin(Stdio::null());
    c
}

/// A run of a shell script.
pub(crate) fn script(dir: &Path, options: &[&str], text: &str) -> Command {
    boxed(dir, options, &["bash", "-c", text])
}

/// The end as a shell sees it.
pub(crate) fn shell_code(status: ExitStatus) -> i32 {
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap())
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// In a process group of its own, so that survivors are found by it.
pub(crate) fn spawn_group(mut c: Command) -> Child {
    c.process_group(0).spawn().unwrap()
}

/// Processes of a process group, or with `marker` in their command line.
pub(crate) fn survivors(group: u32, marker: &str) -> Vec<String> {
    let mut found = Vec::new();
    let marker = marked(marker);
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|n| n.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
            continue;
        };
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        let fields: Vec<&str> = status
            .rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .collect();
        // The dead wait for whoever init is to collect them; that is not ours to hurry.
        let dead = matches!(fields[0], "Z" | "X");
        let by_name = !marker.is_empty() && command.contains(&marker) && pid != std::process::id();
        if !dead && (by_name || fields[2].parse() == Ok(group)) {
            found.push(format!(
                "{pid} {} {command}",
                status.split(')').next().unwrap()
            ));
        }
    }
    found
}

/// Waits for a condition; the time-out only bounds a failure.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < limit, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn nothing_left(group: u32, marker: &str) {
    let limit = Instant::now() + Duration::from_secs(10);
    loop {
        let left = survivors(group, marker);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < limit, "still there: {left:#?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The processes of a run below ccbox, by what they are.
pub(crate) fn kill(pid: u32, signal: i32) {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap());
    let signal = nix::sys::signal::Signal::try_from(signal).unwrap();
    let _ = nix::sys::signal::kill(pid, signal);
}

pub(crate) fn kill_group(pid: u32, signal: i32) {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap());
    let signal = nix::sys::signal::Signal::try_from(signal).unwrap();
    nix::sys::signal::killpg(pid, signal).unwrap();
}

/// How many rounds a storm has.
pub(crate) fn rounds(n: u32) -> u32 {
    std::env::var("SOAK")
        .ok()
        .and_then(|s| s.parse::<u32>().ok())
        .map_or(n, |f| n * f)
}

/// A copy of this executable somewhere an ordinary user may execute it, run as that user.
pub(crate) fn as_ordinary_user(filter: &str) -> ExitStatus {
    let (uid, gid) = ["tester", "nobody"]
        .iter()
        .find_map(|n| nix::unistd::User::from_name(n).ok().flatten())
        .map(|u| (u.uid.as_raw(), u.gid.as_raw()))
        .expect("an ordinary user");
    let dir = Dir::new();
    std::fs::set_permissions(&dir.0, PermissionsExt::from_mode(0o755)).unwrap();
    let copy = dir.0.join("session");
    std::fs::copy(exe(), &copy).unwrap();
    std::fs::set_permissions(&copy, PermissionsExt::from_mode(0o755)).unwrap();
    // The directory of the build may be closed to that user.
    Command::new(copy)
        .arg(filter)
        .uid(uid)
        .gid(gid)
        .current_dir("/")
        .status()
        .unwrap()
}
