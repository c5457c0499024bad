//! The filter and the domain under the running kernel.
//!
//! Both belong to a thread and what it starts, so each test confines a thread of its own and starts programs from there; the
//! other threads of the test binary stay as they are.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::super::domain::Domain;
use super::super::{FilterOptions, filter_program, install_filter};
use super::{CLOSED, UNIX};
use crate::sys::landlock::abi;

/// An ordinary user's number; programs are started as it where the tests run as root.
const ORDINARY: u32 = 65_534;

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// CAP_SYS_ADMIN is in the effective set: a machine's root, not a container's.
fn has_sys_admin() -> bool {
    const SYS_ADMIN: u64 = 1 << 21;
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mask = status
        .lines()
        .find_map(|l| l.strip_prefix("CapEff:"))
        .unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & SYS_ADMIN != 0
}

/// A directory everybody may enter.
pub(super) fn scratch() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
    dir
}

fn probe(dir: &Path) -> PathBuf {
    let source = dir.join("probe.c");
    fs::write(&source, include_str!("probe.c")).unwrap();
    let program = dir.join("probe");
    let status = Command::new("gcc")
        .args(["-O1", "-w", "-o"])
        .args([&program, &source])
        .status()
        .unwrap();
    assert!(status.success());
    program
}

/// What confines the thread before it starts the program.
pub(super) enum Confine {
    Nothing,
    Filter(FilterOptions),
    Domain(Domain),
    Both(Domain, FilterOptions),
}

pub(super) fn run(confine: Confine, mut command: Command, ordinary: bool) -> Output {
    if ordinary && is_root() {
        command.uid(ORDINARY).gid(ORDINARY);
    }
    std::thread::spawn(move || {
        let (domain, options) = match confine {
            Confine::Nothing => (None, None),
            Confine::Filter(options) => (None, Some(options)),
            Confine::Domain(domain) => (Some(domain), None),
            Confine::Both(domain, options) => (Some(domain), Some(options)),
        };
        let program = options.map(|options| filter_program(options).unwrap());
        if let Some(domain) = domain {
            domain.apply().unwrap();
        }
        if let Some(program) = program {
            install_filter(&program).unwrap();
        }
        command.output().unwrap()
    })
    .join()
    .unwrap()
}

fn answers(output: &Output) -> BTreeMap<String, i32> {
    assert!(output.status.success(), "{output:?}");
    let mut answers = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let (name, errno) = line.split_once(' ').unwrap();
        let name = match (name, answers.contains_key(name)) {
            ("unshare", true) if answers.contains_key("unshare2") => "unshare3",
            ("unshare", true) => "unshare2",
            _ => name,
        };
        answers.insert(name.to_owned(), errno.parse().unwrap());
    }
    answers
}

/// Name → errno under the filter; what is not named here must not change.
fn expected_under_filter(unix: bool) -> BTreeMap<&'static str, i32> {
    let mut expected = BTreeMap::new();
    for name in [
        "mount",
        "umount2",
        "pivot_root",
        "chroot",
        "open_tree",
        "open_tree_attr",
        "move_mount",
        "fsopen",
        "fsconfig",
        "fsmount",
        "fspick",
        "mount_setattr",
        "setns",
        "unshare",
        "unshare2",
        "name_to_handle_at",
        "open_by_handle_at",
        "add_key",
        "request_key",
        "keyctl",
        "bpf",
        "userfaultfd",
        "syslog",
        "acct",
        "swapon",
        "swapoff",
        "reboot",
        "init_module",
        "finit_module",
        "delete_module",
        "kexec_load",
        "kexec_file_load",
        "quotactl",
        "quotactl_fd",
        "TIOCSTI",
        "TIOCSTI_high",
        "TIOCLINUX",
        "TIOCSETD",
    ] {
        expected.insert(name, libc::EPERM);
    }
    for name in [
        "clone3",
        "io_uring_setup",
        "io_uring_enter",
        "io_uring_register",
        "not_yet",
        "skipped",
    ] {
        expected.insert(name, libc::ENOSYS);
    }
    if cfg!(target_arch = "x86_64") {
        expected.insert("int80", libc::ENOSYS);
        expected.insert("x32", libc::ENOSYS);
    }
    expected.insert("perf_event_open", libc::EACCES);
    expected.insert("seccomp_filter", libc::EFAULT);
    expected.insert("seccomp_listener", libc::EBUSY);
    expected.insert("TIOCGWINSZ", libc::EBADF);
    expected.insert("audit", libc::EPROTONOSUPPORT);
    for name in ["vsock", "packet", "inet_packet", "alg"] {
        expected.insert(name, libc::EAFNOSUPPORT);
    }
    for name in ["unix_stream", "unix_dgram", "pair_dgram", "pair_raw"] {
        expected.insert(name, if unix { 0 } else { libc::EACCES });
    }
    for name in [
        "unshare3",
        "getppid",
        "pair_stream",
        "pair_seqpacket",
        "inet",
        "inet6",
        "route",
        "fork",
        "ptrace_child",
        "kill_child",
    ] {
        expected.insert(name, 0);
    }
    expected
}

#[test]
fn every_refusal_under_the_kernel() {
    let dir = scratch();
    let program = probe(dir.path());
    for ordinary in [true, false] {
        let free = answers(&run(Confine::Nothing, Command::new(&program), ordinary));
        // Control: the same calls do something else without the filter, so the errno below is the filter's doing.
        for name in [
            "TIOCSTI",
            "TIOCLINUX",
            "TIOCSETD",
            "fsconfig",
            "seccomp_listener",
            "setns",
        ] {
            assert!(
                ![libc::EPERM, libc::EBUSY].contains(&free[name]),
                "{name} {}",
                free[name]
            );
        }
        for name in ["unix_stream", "unix_dgram", "pair_dgram", "pair_raw"] {
            assert_eq!(free[name], 0, "{name}");
        }
        if !ordinary && has_sys_admin() {
            for name in ["mount", "umount2", "unshare2", "fsopen", "bpf"] {
                assert_ne!(free[name], libc::EPERM, "{name}");
            }
        }
        for (options, unix) in [(CLOSED, false), (UNIX, true)] {
            let confined = answers(&run(
                Confine::Filter(options),
                Command::new(&program),
                ordinary,
            ));
            let expected = expected_under_filter(unix);
            let confined: BTreeMap<&str, i32> =
                confined.iter().map(|(k, v)| (k.as_str(), *v)).collect();
            assert_eq!(confined, expected, "ordinary user: {ordinary}");
        }
    }
}

/// Everyday programs under filter and domain: threads, shells, pools, resolvers, timers.
#[test]
fn everyday_programs_work() {
    let dir = scratch();
    let script = "
import asyncio, multiprocessing, os, socket, subprocess, threading, pwd, tempfile
asyncio.run(asyncio.sleep(0))
t = threading.Thread(target=lambda: None); t.start(); t.join()
print(subprocess.run(['sh', '-c', 'echo a | tr a b'], capture_output=True, text=True).stdout.strip())
a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'
s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()
c = socket.create_connection(s.getsockname())
print(socket.getaddrinfo('127.0.0.1', 80)[0][0].name, socket.if_nametoindex('lo'))
with multiprocessing.get_context('fork').Pool(2) as p: print(p.map(abs, [-1]))
pwd.getpwuid(0)
open('made', 'w').write('1'); os.rename('made', 'moved')
";
    let domain = Domain::prepare(&[dir.path().to_owned()], &[]).unwrap();
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", script]).current_dir(dir.path());
    let output = run(Confine::Both(domain, CLOSED), command, true);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "b\nAF_INET 1\n[1]\n"
    );
}

fn shell(script: &str, dir: &Path) -> Command {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(script).current_dir(dir);
    command
}

/// Below: `ws` is writable in the plan, `outside` is not (though its permissions would allow it).
struct Trees {
    dir: tempfile::TempDir,
    ws: PathBuf,
    outside: PathBuf,
}

fn trees() -> Trees {
    let dir = scratch();
    let (ws, outside) = (dir.path().join("ws"), dir.path().join("outside"));
    for tree in [&ws, &outside] {
        fs::create_dir(tree).unwrap();
        fs::set_permissions(tree, Permissions::from_mode(0o777)).unwrap();
        fs::write(tree.join("f"), "content\n").unwrap();
        fs::set_permissions(tree.join("f"), Permissions::from_mode(0o666)).unwrap();
    }
    Trees { dir, ws, outside }
}

impl Trees {
    fn domain(&self, kept: &[i32]) -> Domain {
        Domain::prepare(std::slice::from_ref(&self.ws), kept).unwrap()
    }
    fn outside_file(&self) -> PathBuf {
        self.outside.join("f")
    }
}

#[test]
fn a_read_only_descriptor_cannot_be_reopened_for_writing() {
    for attack in [
        "echo bad > /proc/self/fd/0",
        "echo bad >> /dev/stdin",
        ": > /proc/self/fd/0",
        "/usr/bin/python3 -c 'import os; os.truncate(\"/proc/self/fd/0\", 0)'",
        "/usr/bin/python3 -c 'import os; os.open(\"/proc/self/fd/0\", os.O_RDONLY|os.O_TRUNC)'",
        "/usr/bin/python3 -c 'import os; os.open(\"/proc/self/fd/0\", os.O_RDWR)'",
    ] {
        let trees = trees();
        let file = trees.outside_file();
        let command = || {
            let mut command = shell(attack, &trees.ws);
            command.stdin(File::open(&file).unwrap());
            command
        };
        let kept = File::open(&file).unwrap();
        let domain = trees.domain(&[kept.as_raw_fd()]);
        let output = run(Confine::Domain(domain), command(), true);
        assert!(!output.status.success(), "{attack}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "content\n", "{attack}");
        // Control: it works without the domain.
        let output = run(Confine::Nothing, command(), true);
        assert!(output.status.success(), "{attack}: {output:?}");
    }
}

#[test]
fn a_descriptor_open_for_writing_can_be_reopened() {
    let trees = trees();
    let file = trees.outside_file();
    let out = OpenOptions::new().append(true).open(&file).unwrap();
    let domain = trees.domain(&[out.as_raw_fd()]);
    let mut command = shell(
        "exec 3>&1; echo one > /dev/stdout; echo two >> /proc/self/fd/3",
        &trees.ws,
    );
    command.stdout(Stdio::from(out)).stderr(Stdio::piped());
    let status = std::thread::spawn(move || {
        domain.apply().unwrap();
        command.status().unwrap()
    })
    .join()
    .unwrap();
    assert!(status.success());
    // `> /dev/stdout` truncates, as without a sandbox.
    assert_eq!(fs::read_to_string(&file).unwrap(), "one\ntwo\n");
    assert_eq!(fs::read_to_string(trees.ws.join("f")).unwrap(), "content\n");
}

#[test]
fn files_move_between_directories_and_stay_writable() {
    let trees = trees();
    let script = "mkdir -p a/b c && echo 1 > a/b/x && mv a/b/x c/y && ln c/y a/z && mv a/b c/ && echo 2 >> a/z && \
                  echo 3 > c/b/new && cat c/y && truncate -s 0 c/y && echo t > /dev/null && ls a c";
    let output = run(
        Confine::Both(trees.domain(&[]), CLOSED),
        shell(script, &trees.ws),
        true,
    );
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "1\n2\na:\nz\n\nc:\nb\ny\n"
    );
}

#[test]
fn only_granted_trees_are_written() {
    let trees = trees();
    let file = trees.outside_file();
    let script = format!("echo bad > {}", file.display());
    let output = run(
        Confine::Domain(trees.domain(&[])),
        shell(&script, &trees.ws),
        true,
    );
    assert!(!output.status.success());
    assert_eq!(fs::read_to_string(&file).unwrap(), "content\n");
    let output = run(Confine::Nothing, shell(&script, &trees.ws), true);
    assert!(output.status.success());
    assert_eq!(fs::read_to_string(&file).unwrap(), "bad\n");
}

/// A process outside the domain, of the same user: not traceable, not signalled, its memory not opened. Inside, all of it works.
#[test]
fn the_outside_is_out_of_reach() {
    let script = |pid: u32| {
        format!(
            "
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
def attach(pid):
    r = libc.ptrace(16, pid, 0, 0)
    if r == 0: os.waitpid(pid, 0); libc.ptrace(17, pid, 0, 0)
    return r
child = os.fork()
if child == 0:
    signal.pause()
for pid in (child, {pid}):
    for action in (lambda: 1 / (attach(pid) + 1), lambda: open(f'/proc/{{pid}}/mem', 'r+b'), lambda: os.kill(pid, 0)):
        try: action(); print('yes', end=' ')
        except (OSError, ZeroDivisionError): print('no', end=' ')
os.kill(child, 9)
"
        )
    };
    let mut outside = Command::new("sleep");
    outside.arg("60");
    if is_root() {
        outside.uid(ORDINARY).gid(ORDINARY);
    }
    let mut outside = outside.spawn().unwrap();
    let dir = scratch();
    let python = || {
        let mut command = Command::new("/usr/bin/python3");
        command
            .arg("-c")
            .arg(script(outside.id()))
            .current_dir(dir.path());
        command
    };
    let free = run(Confine::Nothing, python(), true);
    let domain = Domain::prepare(&[], &[]).unwrap();
    let scoped = domain.scopes();
    let confined = run(Confine::Domain(domain), python(), true);
    outside.kill().unwrap();
    outside.wait().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&free.stdout),
        "yes yes yes yes yes yes "
    );
    let signal = if scoped { "no" } else { "yes" };
    assert_eq!(
        String::from_utf8_lossy(&confined.stdout),
        format!("yes yes yes no no {signal} ")
    );
}

/// `kill 0` in a script reaches the script's own processes of its group, not those of the caller.
#[test]
fn signals_to_the_group_stay_inside() {
    let dir = scratch();
    let domain = Domain::prepare(&[], &[]).unwrap();
    assert!(domain.scopes(), "Landlock ABI 6 (Linux 6.12)");
    let mut bystander = Command::new("sleep");
    let mut bystander = bystander.arg("60").process_group(0).spawn().unwrap();
    let group = i32::try_from(bystander.id()).unwrap();
    let mut command = shell(
        "trap 'echo got it; exit 3' TERM; kill -TERM 0; sleep 5",
        dir.path(),
    );
    command.process_group(group);
    let output = run(Confine::Domain(domain), command, false);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "got it\n");
    assert_eq!(bystander.try_wait().unwrap(), None);
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[test]
fn abstract_sockets_of_others_are_out_of_reach() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    let name = format!("ccbox-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();
    let script = format!(
        "import socket; s = socket.socket(socket.AF_UNIX); s.connect('\\0{name}'); \
         t = socket.socket(socket.AF_UNIX)"
    );
    let dir = scratch();
    let python = || {
        let mut command = Command::new("/usr/bin/python3");
        command.arg("-c").arg(&script).current_dir(dir.path());
        command
    };
    assert!(run(Confine::Nothing, python(), true).status.success());
    let domain = Domain::prepare(&[], &[]).unwrap();
    assert!(domain.scopes(), "Landlock ABI 6 (Linux 6.12)");
    assert!(
        !run(Confine::Both(domain, UNIX), python(), true)
            .status
            .success()
    );
}

#[test]
fn without_refer_there_is_no_domain() {
    for kernel in [0, 1] {
        let domain = Domain::prepare_for(kernel, &[PathBuf::from("/nowhere")], &[]).unwrap();
        assert_eq!(domain.abi(), 0);
        assert!(!domain.closes_truncation() && !domain.scopes());
        domain.apply().unwrap();
    }
}

/// Older kernels get what they have; each is entered for real.
#[test]
fn older_kernels_get_what_they_have() {
    for kernel in 2..=abi() {
        let trees = trees();
        let domain = Domain::prepare_for(kernel, std::slice::from_ref(&trees.ws), &[]).unwrap();
        assert_eq!(domain.closes_truncation(), kernel >= 3);
        assert_eq!(domain.scopes(), kernel >= 6);
        let script = format!(
            "echo 1 > f && mkdir d && mv f d && ! echo bad > {}",
            trees.outside_file().display()
        );
        let output = run(Confine::Domain(domain), shell(&script, &trees.ws), true);
        assert!(output.status.success(), "ABI {kernel}: {output:?}");
    }
}

#[test]
fn absent_grants_are_nothing_and_links_are_refused() {
    let trees = trees();
    let link = trees.dir.path().join("link");
    std::os::unix::fs::symlink(&trees.outside, &link).unwrap();
    assert!(Domain::prepare(&[trees.dir.path().join("absent")], &[]).is_ok());
    let error = Domain::prepare(std::slice::from_ref(&link), &[]).unwrap_err();
    assert!(error.to_string().contains(&format!("`{}`", link.display())));
}
