//! No false line: the same operations outside and inside. One may be told only if it succeeded outside, or failed otherwise; and what
//! succeeded outside and failed inside is told, exactly once.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::support::{Box, Ran, require_sandbox};

/// Performs the operations of its arguments, each in a place of its own, and prints each result.
const OPERATIONS: &str = r"
import os, sys
top, names = sys.argv[1], sys.argv[2:]
O = os.O_CREAT | os.O_WRONLY
def at(path):
    # The same place by each way of naming it.
    d, name = os.path.split(path)
    return os.open(d, os.O_PATH | os.O_DIRECTORY), name
def ways(path):
    yield 'plain', lambda f: f(path, None)
    yield 'absolute', lambda f: f(os.path.join(top, path), None)
    yield 'dotted', lambda f: f(os.path.join(os.path.dirname(path), '.', '..', os.path.dirname(path).split('/')[-1], os.path.basename(path)), None)
    yield 'linked', lambda f: f(os.path.join('to-' + path.split('/')[0], *path.split('/')[1:]), None)
    def by_dirfd(f):
        d, name = at(path)
        try: return f(name, d)
        finally: os.close(d)
    yield 'dirfd', by_dirfd
OPS = {
    'open-write': lambda p, d: os.close(os.open(p, os.O_WRONLY, dir_fd=d)),
    'open-create': lambda p, d: os.close(os.open(p, O, 0o644, dir_fd=d)),
    'open-create-read': lambda p, d: os.close(os.open(p, os.O_CREAT, 0o644, dir_fd=d)),
    'open-exclusive': lambda p, d: os.close(os.open(p, O | os.O_EXCL, 0o644, dir_fd=d)),
    'open-truncate': lambda p, d: os.close(os.open(p, os.O_WRONLY | os.O_TRUNC, dir_fd=d)),
    'open-directory': lambda p, d: os.close(os.open(p, os.O_RDWR | os.O_DIRECTORY, dir_fd=d)),
    'open-no-follow': lambda p, d: os.close(os.open(p, os.O_WRONLY | os.O_NOFOLLOW, dir_fd=d)),
    'mkdir': lambda p, d: os.mkdir(p, dir_fd=d),
    'mknod': lambda p, d: os.mkfifo(p, dir_fd=d),
    'symlink': lambda p, d: os.symlink('x', p, dir_fd=d),
    'unlink': lambda p, d: os.unlink(p, dir_fd=d),
    'rmdir': lambda p, d: os.rmdir(p, dir_fd=d),
    'rename': lambda p, d: os.rename(p, p + '.new', src_dir_fd=d, dst_dir_fd=d),
    'link': lambda p, d: os.link(p, p + '.new', src_dir_fd=d, dst_dir_fd=d),
    'chmod': lambda p, d: os.chmod(p, 0o640, dir_fd=d),
    'chown': lambda p, d: os.chown(p, os.getuid(), os.getgid(), dir_fd=d),
    'chown-link': lambda p, d: os.chown(p, -1, os.getgid(), dir_fd=d, follow_symlinks=False),
    'chown-other': lambda p, d: os.chown(p, os.getuid() + 1, -1, dir_fd=d),
    'utime': lambda p, d: os.utime(p, (1, 2), dir_fd=d),
    'utime-link': lambda p, d: os.utime(p, (1, 2), dir_fd=d, follow_symlinks=False),
    'utime-now': lambda p, d: os.utime(p, dir_fd=d),
    'xattr': lambda p, d: os.setxattr(named(p, d), 'user.kind', b'x'),
    'xattr-replace': lambda p, d: os.setxattr(named(p, d), 'user.kind', b'x', os.XATTR_REPLACE),
    'xattr-link': lambda p, d: os.setxattr(named(p, d), 'user.kind', b'x', follow_symlinks=False),
    'xattr-none': lambda p, d: os.removexattr(named(p, d), 'user.kind'),
    'xattr-odd': lambda p, d: os.setxattr(named(p, d), 'odd.kind', b'x'),
}
def named(p, d):
    # There is no such call beside a descriptor.
    return p if d is None else '/proc/self/fd/%d/%s' % (d, p)
base = top
for n, what in enumerate(names):
    op, way, path = what.split(',')
    top = '%s/p%d' % (base, n)
    os.chdir(top)
    for name, call in ways(path):
        if name != way: continue
        try:
            call(OPS[op])
            print(what, 0)
        except OSError as e:
            print(what, e.errno)
";

const OPS: [&str; 26] = [
    "open-write",
    "open-create",
    "open-create-read",
    "open-exclusive",
    "open-truncate",
    "open-directory",
    "open-no-follow",
    "mkdir",
    "mknod",
    "symlink",
    "unlink",
    "rmdir",
    "rename",
    "link",
    "chmod",
    "chown",
    "chown-link",
    "chown-other",
    "utime",
    "utime-link",
    "utime-now",
    "xattr",
    "xattr-replace",
    "xattr-link",
    "xattr-none",
    "xattr-odd",
];
const WAYS: [&str; 5] = ["plain", "absolute", "dotted", "linked", "dirfd"];
/// `ro` is shown read-only, `ws` is writable.
const PATHS: [&str; 20] = [
    "ro/file",
    "ro/dir",
    "ro/full",
    "ro/link",
    "ro/dangling",
    "ro/none",
    "ro/locked",
    "ro/none/x",
    "ro/file/x",
    "ro/shut/file",
    "ro/shut/none",
    "ws/file",
    "ws/prot",
    "ws/dir",
    "ws/none",
    "ws/locked",
    "ws/.env",
    "ws/a.pem",
    "ws/shut/a.pem",
    "ws/.vscode/x",
];

/// As many places as there are paths: each path meets an operation in a place that nothing has changed.
fn set_up() -> Box {
    use std::fmt::Write as _;
    let mut protected = Vec::new();
    let mut binds = String::new();
    for n in 0..PATHS.len() {
        protected.push(format!("\"@T@/p{n}/ws/prot\""));
        write!(binds, "[[bind_mounts]]\nhost_path = \"@T@/p{n}/ws\"\n").unwrap();
    }
    let b = Box::new();
    for n in 0..PATHS.len() {
        place(&b.path().join(format!("p{n}")));
    }
    b.spec(&format!(
        "protected_paths = [{}]\n[[bind_mounts]]\nhost_path = \"@T@\"\nread_only = true\n{binds}",
        protected.join(", ")
    ))
}

fn place(top: &Path) {
    for root in ["ro", "ws"] {
        let at = |name: &str| top.join(root).join(name);
        for dir in ["dir", "full/x", "shut"] {
            std::fs::create_dir_all(at(dir)).unwrap();
        }
        for file in ["file", "locked", "shut/file", "prot", ".env"] {
            std::fs::write(at(file), "text").unwrap();
        }
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        std::os::unix::fs::symlink("nowhere", at("dangling")).unwrap();
        let mode = |name: &str, mode| {
            std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode("locked", 0o444);
        mode("shut", 0o555);
        std::os::unix::fs::symlink(root, top.join(format!("to-{root}"))).unwrap();
    }
}

/// A directory that cannot be changed cannot be removed with what is in it either.
fn open_up(b: &Box) {
    for n in 0..PATHS.len() {
        for root in ["ro", "ws"] {
            let shut = b.path().join(format!("p{n}/{root}/shut"));
            std::fs::set_permissions(shut, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
}

fn results(ran: &Ran) -> Vec<(String, i32)> {
    let lines: Vec<_> = ran
        .stdout
        .lines()
        .map(|l| l.rsplit_once(' ').unwrap())
        .map(|(what, errno)| (what.to_owned(), errno.parse().unwrap()))
        .collect();
    assert!(!lines.is_empty(), "{}", ran.stderr);
    lines
}

/// Where the caller is root it has no capability inside, so that the user's own rights are another question there: such places are left
/// to the ordinary user.
#[test]
fn a_line_needs_a_call_that_the_sandbox_made_fail() {
    if !require_sandbox() {
        return;
    }
    let root = nix::unistd::geteuid().is_root();
    let mut wrong = Vec::new();
    for (n, op) in OPS.iter().enumerate() {
        // Each operation meets each place, by one of the ways of naming it.
        let asked: Vec<String> = PATHS
            .iter()
            .enumerate()
            .map(|(m, path)| format!("{op},{},{path}", WAYS[(n + m) % WAYS.len()]))
            .collect();
        let (out, inn) = (set_up(), set_up());
        let argv = |b: &Box| {
            let mut argv = vec!["python3".to_owned(), "-c".to_owned(), OPERATIONS.to_owned()];
            argv.push(b.path().canonicalize().unwrap().display().to_string());
            argv.extend(asked.clone());
            argv
        };
        let outside = Ran::of(Command::new("python3").args(&argv(&out)[1..]));
        let inside = inn.run(&argv(&inn));
        open_up(&out);
        open_up(&inn);
        let all = results(&outside).into_iter().zip(results(&inside));
        for (m, ((what, left), (_, right))) in all.enumerate() {
            let capable = ["shut", "locked", "chown-other"];
            if root && capable.iter().any(|place| what.contains(place)) {
                continue;
            }
            let place = format!("/p{m}/");
            let about = inside.stderr.lines().filter(|l| l.contains(&place));
            let lines: Vec<&str> = about.filter(|l| !l.contains("hint:")).collect();
            let refused = left == 0 && right != 0;
            let fine = match lines.len() {
                0 => !refused,
                1 => left != right,
                _ => false,
            };
            if !fine {
                wrong.push(format!("{what}: {left} outside, {right} inside, {lines:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
