//! Attacks, one a file. Each first shows that the attack works outside (the control), then that it does not work inside, by what
//! it did to the host and not by the exit status alone. An attack must have run to its end: a sandbox that did not start refuses
//! everything too.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends by panicking"
)]

#[cfg(target_os = "linux")]
mod abstract_sockets;
mod access_lists;
mod ancestor_rename;
mod chroot;
#[cfg(target_arch = "x86_64")]
mod compat_calls;
mod covers;
mod descriptors;
mod device_nodes;
mod exec_writable;
mod file_handles;
#[cfg(target_os = "linux")]
mod grant_swap;
#[cfg(target_os = "linux")]
mod granted_sockets;
mod hard_link;
mod host_processes;
mod inherited_sockets;
mod init_process;
mod io_uring;
mod key_rings;
mod mount_points;
mod namespaces;
mod nested_users;
mod path_sockets;
mod proc_sys;
mod read_covers;
mod read_fifos;
mod read_floor;
mod read_patterns;
mod read_replaced;
mod read_walks;
mod reopen;
mod set_user_id;
mod signals;
mod socket_families;
mod terminal;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

/// Printed by every attack when it has tried everything.
const DONE: &str = "__done__";
/// A command that runs longer than this has hung.
const TIME_LIMIT: &str = "60";

/// Whom the commands run as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// An ordinary user.
    User,
    /// uid 0 with the capabilities the tests have.
    Root,
}

/// An ordinary user always; uid 0 as well where the tests run as it.
pub(crate) fn callers() -> Vec<Caller> {
    if nix::unistd::geteuid().is_root() {
        vec![Caller::User, Caller::Root]
    } else {
        vec![Caller::User]
    }
}

/// CAP_SYS_ADMIN and CAP_MKNOD: a machine's root. A container's root cannot show the controls that need them.
pub(crate) fn machine_root(caller: Caller) -> bool {
    const NEEDED: u64 = 1 << 21 | 1 << 27;
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .unwrap();
    caller == Caller::Root && u64::from_str_radix(mask.trim(), 16).unwrap() & NEEDED == NEEDED
}

/// uid and gid of the ordinary user: that of the tests, or the first one of the user database.
pub(crate) fn ordinary() -> (u32, u32) {
    let me = nix::unistd::geteuid();
    if !me.is_root() {
        return (me.as_raw(), nix::unistd::getegid().as_raw());
    }
    let database = fs::read_to_string("/etc/passwd").unwrap();
    let mut users = database.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let (uid, gid) = (fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?);
        (1000..60_000).contains(&uid).then_some((uid, gid))
    });
    users.next().unwrap_or((54_321, 54_321))
}

/// A place on the host: `ws` is writable inside, everything else of it read-only; `hidden` cannot be read inside, `ws/prot` not be
/// written. The network is off.
#[derive(Debug)]
struct Site {
    dir: tempfile::TempDir,
    caller: Caller,
    ccbox: PathBuf,
}

impl Site {
    fn new(caller: Caller) -> Self {
        Self::in_directory(tempfile::tempdir().unwrap(), caller)
    }

    /// Where the sandbox shows the host's own directories all the way down, and no private one.
    fn in_the_open(caller: Caller) -> Self {
        let base = if nix::unistd::geteuid().is_root() {
            "/srv".into()
        } else {
            std::env::var_os("HOME").unwrap()
        };
        let dir = tempfile::Builder::new()
            .prefix("ccbox-it-")
            .tempdir_in(base)
            .unwrap();
        Self::in_directory(dir, caller)
    }

    fn in_directory(dir: tempfile::TempDir, caller: Caller) -> Self {
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let site = Self {
            ccbox: dir.path().join("bin/ccbox"),
            dir,
            caller,
        };
        for name in ["bin", "home", "ws", "ws/dir", "hidden"] {
            fs::create_dir(site.path(name)).unwrap();
        }
        fs::copy(env!("CARGO_BIN_EXE_ccbox"), &site.ccbox).unwrap();
        site.file("hidden/secret", "SECRET\n");
        site.file("ws/prot", "KEEP\n");
        site.file("ws/dir/prot", "KEEP\n");
        site.file("spec.toml", &site.spec(""));
        for name in ["", "home", "ws", "ws/dir", "hidden"] {
            site.give(&site.path(name));
        }
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn ids(&self) -> (u32, u32) {
        match self.caller {
            Caller::User => ordinary(),
            Caller::Root => (0, 0),
        }
    }

    fn give(&self, path: &Path) {
        if nix::unistd::geteuid().is_root() {
            let (uid, gid) = self.ids();
            chown(path, Some(uid), Some(gid)).unwrap();
        }
    }

    /// Writes a file that belongs to the caller.
    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        self.give(&path);
        path
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// The spec of the place, with more top-level lines.
    fn spec(&self, more: &str) -> String {
        let t = self.dir.path().to_str().unwrap();
        format!(
            r#"network_enabled = false
protected_paths = ["{t}/ws/prot", "{t}/ws/dir/prot"]
{more}

[[bind_mounts]]
host_path = "{t}"
read_only = true

[[bind_mounts]]
host_path = "{t}/ws"

[filesystem]
view = "host"
deny_read = ["{t}/hidden"]
"#
        )
    }

    /// Compiles a C program to `bin/NAME`.
    fn compile(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let file = self.file(&format!("bin/{name}.c"), source);
        let program = self.path(&format!("bin/{name}"));
        let status = Command::new("gcc")
            .args(["-O1", "-w", "-o"])
            .args([&program, &file])
            .args(flags)
            .status()
            .unwrap();
        assert!(status.success());
        program
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("timeout");
        command
            .args(["--foreground", "-k", "1", TIME_LIMIT])
            .arg(program)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", self.path("home"))
            .env("T", self.dir.path())
            .env("LC_ALL", "C")
            .current_dir(self.path("ws"))
            .stdin(Stdio::null());
        if nix::unistd::geteuid().is_root() {
            let (uid, gid) = self.ids();
            command.uid(uid).gid(gid);
        }
        command
    }

    /// The command as it is, as the caller.
    fn outside<A: AsRef<OsStr>>(&self, argv: &[A]) -> Command {
        let mut command = self.command(Path::new(argv[0].as_ref()));
        command.args(&argv[1..]);
        command
    }

    /// The same in the sandbox.
    fn inside<A: AsRef<OsStr>>(&self, argv: &[A]) -> Command {
        let mut command = self.command(&self.ccbox);
        command.args(self.ccbox_args(argv));
        command
    }

    /// What follows the name of the binary.
    fn ccbox_args<A: AsRef<OsStr>>(&self, argv: &[A]) -> Vec<OsString> {
        let spec = self.path("spec.toml").into_os_string();
        ["run".into(), "--spec".into(), spec, "--".into()]
            .into_iter()
            .chain(argv.iter().map(|arg| arg.as_ref().to_owned()))
            .collect()
    }
}

/// What a program printed and how it ended.
#[derive(Debug)]
struct Ran {
    stdout: String,
}

impl Ran {
    fn has(&self, line: &str) -> bool {
        self.stdout.lines().any(|l| l == line)
    }
}

/// `sh -c SCRIPT`, with the mark at its end.
fn sh(script: &str) -> [String; 3] {
    [
        "/bin/sh".into(),
        "-c".into(),
        format!("{script}\necho {DONE}"),
    ]
}

/// `python3 -c SCRIPT`, with the mark at its end. `call` is syscall(2) as `(result, errno)`.
fn python(script: &str) -> [String; 3] {
    let prelude = "import ctypes, errno, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(number, *args):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    return result, (ctypes.get_errno() if result == -1 else 0)
";
    let code = format!("{prelude}\n{script}\nprint('{DONE}')");
    ["/usr/bin/python3".into(), "-c".into(), code]
}

/// A run that has said its first line and waits for the end of its standard input.
struct Waiting {
    child: Child,
    out: ChildStdout,
}

impl Waiting {
    fn new(mut command: Command, line: &str) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut said = vec![0; line.len() + 1];
        out.read_exact(&mut said).unwrap();
        assert_eq!(said, format!("{line}\n").as_bytes());
        Self { child, out }
    }

    /// Lets it go on; what it says further on standard output and on standard error.
    fn rest(mut self) -> (String, String) {
        drop(self.child.stdin.take());
        let mut text = String::new();
        self.out.read_to_string(&mut text).unwrap();
        let output = self.child.wait_with_output().unwrap();
        (text, String::from_utf8(output.stderr).unwrap())
    }
}

/// Runs to the end and demands the mark.
#[track_caller]
fn ran(mut command: Command) -> Ran {
    let output = command.output().unwrap();
    checked(&command, &output)
}

#[track_caller]
fn checked(command: &Command, output: &Output) -> Ran {
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        stdout.lines().any(|line| line.trim_end() == DONE),
        "did not run to its end: {command:?}\n{}: {stdout}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ran { stdout }
}
