//! The floor under the running kernel, without any filter above it: whatever the broker's filter should ever miss ends here.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::kernel::{Confine, run, scratch};
use crate::backend::Floor;
use crate::session::harden::{Domain, DomainError, FloorError};
use crate::sys::landlock::abi;

/// `ws` is covered, `free` is exempt, all of it everybody's.
struct Trees {
    dir: tempfile::TempDir,
    ws: PathBuf,
    free: PathBuf,
}

fn trees() -> Trees {
    let dir = scratch();
    let (ws, free) = (dir.path().join("ws"), dir.path().join("free"));
    for tree in [&ws, &free] {
        for path in [tree.clone(), tree.join("d"), tree.join("d/e")] {
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        }
        for name in ["f", "g", "d/h"] {
            fs::write(tree.join(name), "content\n").unwrap();
            fs::set_permissions(tree.join(name), Permissions::from_mode(0o666)).unwrap();
        }
    }
    Trees { dir, ws, free }
}

impl Trees {
    fn floor(&self) -> Floor {
        Floor {
            covered: vec![self.ws.clone()],
            exempt: vec![self.free.clone()],
        }
    }

    fn domain(&self) -> Domain {
        Domain::prepare_floor(&self.floor(), false, &[]).unwrap()
    }

    /// Runs a script with `ws` and `free` in `sys.argv`, standing in `ws`, and with f open for reading on descriptor 0.
    fn python(&self, script: &str) -> Command {
        let mut command = Command::new("/usr/bin/python3");
        command
            .args([OsStr::new("-c"), OsStr::new(script)])
            .args([&self.ws, &self.free])
            .stdin(fs::File::open(self.ws.join("f")).unwrap())
            .current_dir(&self.ws);
        command
    }

    /// Names, inodes, kinds, sizes and times of everything.
    fn state(&self) -> Vec<String> {
        let mut all = Vec::new();
        list(&self.ws, &mut all);
        list(&self.free, &mut all);
        all.sort();
        all
    }
}

fn list(dir: &Path, all: &mut Vec<String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let meta = fs::symlink_metadata(&path).unwrap();
        all.push(format!(
            "{} {} {:o} {} {} {}.{}",
            path.display(),
            meta.ino(),
            meta.mode(),
            meta.nlink(),
            meta.size(),
            meta.mtime(),
            meta.mtime_nsec()
        ));
        if meta.is_dir() {
            list(&path, all);
        }
    }
}

const HEAD: &str = "
import ctypes, os, socket, stat, sys
ws, free = sys.argv[1:3]
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    if getattr(libc, name)(*args) < 0: raise OSError(ctypes.get_errno(), name)
def exchange(a, b): call('renameat2', -100, a.encode(), -100, b.encode(), 2)
def tmpfile(d):
    fd = os.open(d, os.O_TMPFILE | os.O_RDWR, 0o600)
    call('linkat', -100, f'/proc/self/fd/{fd}'.encode(), -100, b'named', 0x400)
here = os.open('.', os.O_PATH)
sub = os.open('d', os.O_RDONLY)
";

/// Each makes, opens for writing, moves or removes something in the covered tree.
const ATTACKS: &[&str] = &[
    "open('new', 'w')",
    "open('f', 'w')",
    "open('f', 'a')",
    "os.open('f', os.O_RDWR)",
    "os.open('f', os.O_WRONLY)",
    "os.open('new', os.O_RDONLY | os.O_CREAT)",
    "open('d/e/new', 'x')",
    "open('./d/../new', 'x')",
    "open('//proc/self/cwd/new', 'x')",
    "open('/proc/self/fd/0', 'a')",
    "open('/dev/stdin', 'w')",
    "os.open('new', os.O_CREAT | os.O_WRONLY, dir_fd=sub)",
    "os.open('new', os.O_CREAT | os.O_WRONLY, dir_fd=here)",
    "os.open('../f', os.O_WRONLY, dir_fd=sub)",
    "open(f'/proc/self/fd/{here}/new', 'x')",
    "open(f'/proc/self/fd/{sub}/../new', 'x')",
    "os.symlink(ws + '/new', free + '/l'), open(free + '/l', 'w')",
    "os.symlink(ws, free + '/l'), open(free + '/l/new', 'w')",
    "tmpfile('.')",
    "tmpfile('d')",
    "os.mkdir('new')",
    "os.mkdir('new', dir_fd=sub)",
    "os.rmdir('d/e')",
    "os.unlink('f')",
    "os.unlink('h', dir_fd=sub)",
    "os.rename('f', 'new')",
    "os.rename('f', 'g')",
    "os.rename('f', 'd/f')",
    "os.rename('d', 'new')",
    "exchange('f', 'g')",
    "exchange('f', 'd')",
    "exchange('f', free + '/f')",
    "os.rename('f', free + '/f')",
    "os.rename('d', free + '/new')",
    "os.rename(free + '/f', 'f')",
    "os.rename(free + '/f', 'new')",
    "os.rename(free + '/d', 'new')",
    "os.rename('f', free + '/d/new')",
    "os.link('f', 'new')",
    "os.link('f', 'd/new')",
    "os.link('f', free + '/new')",
    "os.link(free + '/f', 'new')",
    "call('linkat', -100, b'/proc/self/fd/0', -100, (free + '/new').encode(), 0x400)",
    "os.symlink('x', 'new')",
    "os.symlink('x', 'new', dir_fd=sub)",
    "os.mkfifo('new')",
    "os.mknod('new')",
    "os.mknod('new', stat.S_IFSOCK | 0o600)",
    "os.mknod('new', stat.S_IFCHR | 0o600, 0)",
    "socket.socket(socket.AF_UNIX).bind('new')",
];

#[test]
fn nothing_is_written_in_a_covered_tree() {
    for attack in ATTACKS {
        let script = format!("{HEAD}{attack}\n");
        // Control: it works without the floor.
        let trees = trees();
        let before = trees.state();
        let output = run(Confine::Nothing, trees.python(&script), true);
        assert!(output.status.success(), "{attack}: {output:?}");
        let changed = trees.state() != before;
        let opens_only =
            attack.contains("os.open('f'") || attack.contains("../f") || attack.contains("'a')");
        assert!(changed || opens_only, "{attack}");

        let trees = self::trees();
        let before = trees.state();
        let output = run(Confine::Domain(trees.domain()), trees.python(&script), true);
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{attack}");
        // Landlock gives EXDEV for a move between directories that is refused by REFER only.
        assert!(
            words.contains("[Errno 13]") || words.contains("[Errno 18]"),
            "{attack}: {words}"
        );
        let planted = |line: &&String| line.contains("/free/l ");
        let after = trees.state();
        let after: Vec<&String> = after.iter().filter(|line| !planted(line)).collect();
        assert_eq!(after, before.iter().collect::<Vec<_>>(), "{attack}");
    }
}

/// As root too: the floor asks for no identity.
#[test]
fn root_is_held_as_well() {
    let trees = trees();
    let script = format!("{HEAD}open('new', 'w')\n");
    let output = run(
        Confine::Domain(trees.domain()),
        trees.python(&script),
        false,
    );
    assert!(!output.status.success());
    assert!(!trees.ws.join("new").exists());
}

#[test]
fn an_exempt_tree_is_as_it_is_without_a_sandbox() {
    let trees = trees();
    let script = format!(
        "{HEAD}
os.chdir(free)
open('new', 'w').write('1')
open('f', 'a').write('2')
os.mkdir('m'); os.rename('new', 'm/moved'); os.rename('m', 'd/m'); os.link('f', 'd/m/alias')
os.rename('d/m', 'm'); os.symlink('x', 'm/l'); os.mkfifo('m/p'); os.mknod('m/s', stat.S_IFSOCK | 0o600)
exchange('f', 'd/h'); os.unlink('g'); os.rmdir('d/e'); tmpfile('.'); os.truncate('named', 5)
print(*sorted(os.listdir('m')), open('m/moved').read())
open('/dev/null', 'w').write('x'); open('/proc/self/comm', 'w').write('y')
"
    );
    let output = run(Confine::Domain(trees.domain()), trees.python(&script), true);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "alias l moved p s 1\n"
    );
}

/// What the floor leaves to the supervisor alone; with TRUNCATE every open for reading would be slower (P6).
#[test]
fn truncation_is_not_the_floors() {
    for attack in [
        "os.truncate('f', 0)",
        "os.open('f', os.O_RDONLY | os.O_TRUNC)",
        "os.chmod('f', 0)",
    ] {
        let trees = trees();
        let script = format!("{HEAD}{attack}\n");
        let command = trees.python(&script);
        // The mode belongs to the owner.
        let output = run(Confine::Domain(trees.domain()), command, false);
        assert!(output.status.success(), "{attack}: {output:?}");
    }
}

#[test]
fn sockets_are_bound_where_they_are_allowed() {
    let trees = trees();
    let script = format!(
        "{HEAD}
socket.socket(socket.AF_UNIX).bind('s')
try: os.mkfifo('p')
except PermissionError: print('refused')
"
    );
    let domain = Domain::prepare_floor(&trees.floor(), true, &[]).unwrap();
    let output = run(Confine::Domain(domain), trees.python(&script), true);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "refused\n");
}

#[test]
fn a_single_file_can_be_covered_or_exempt() {
    let trees = trees();
    let floor = Floor {
        covered: vec![trees.ws.join("f"), trees.ws.join("d")],
        exempt: vec![trees.ws.join("g")],
    };
    let domain = Domain::prepare_floor(&floor, false, &[]).unwrap();
    let script = format!(
        "{HEAD}
open('g', 'a').write('more')
for name in 'f', 'new', 'd/h':
    try: open(name, 'a'); print('written', name)
    except PermissionError: pass
"
    );
    let output = run(Confine::Domain(domain), trees.python(&script), true);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    assert_eq!(
        fs::read_to_string(trees.ws.join("g")).unwrap(),
        "content\nmore"
    );
}

fn floor_error(floor: &Floor) -> FloorError {
    let error = Domain::prepare_floor(floor, false, &[]).unwrap_err();
    let DomainError::Floor(error) = error else {
        panic!("{error}");
    };
    error
}

#[test]
fn a_grant_at_or_above_a_covered_tree_is_refused() {
    let trees = trees();
    for above in [&trees.ws, trees.dir.path(), Path::new("/")] {
        let floor = Floor {
            exempt: vec![trees.free.clone(), above.to_owned()],
            ..trees.floor()
        };
        let error = floor_error(&floor);
        assert!(matches!(error, FloorError::Above { .. }), "{error}");
        assert!(
            error
                .to_string()
                .contains(&format!("`{}`", above.display()))
        );
    }
}

#[test]
fn a_grant_that_could_be_moved_within_a_covered_tree_is_refused() {
    let trees = trees();
    let floor = Floor {
        exempt: vec![trees.ws.join("d")],
        ..trees.floor()
    };
    let error = floor_error(&floor);
    assert!(matches!(error, FloorError::Movable { .. }), "{error}");
}

/// Rules belong to inodes: another name of what lies above a covered tree is above it, too.
#[test]
fn what_the_paths_hide_the_objects_show() {
    let trees = trees();
    let floor = Floor {
        covered: vec![trees.ws.join("d")],
        // As if it had been bound here.
        exempt: vec![PathBuf::from(format!(
            "/proc/self/root{}",
            trees.ws.display()
        ))],
    };
    // The link on the way is refused before the object is looked at; a bind mount is tried with the engine (tests/alone/session).
    let error = floor_error(&floor);
    assert!(matches!(error, FloorError::Path { .. }), "{error}");
}

#[test]
fn absent_exempt_paths_grant_nothing_and_absent_trees_are_errors() {
    let trees = trees();
    let floor = Floor {
        exempt: vec![trees.dir.path().join("absent")],
        ..trees.floor()
    };
    assert!(Domain::prepare_floor(&floor, false, &[]).is_ok());
    let floor = Floor {
        covered: vec![trees.ws.join("absent")],
        ..trees.floor()
    };
    assert!(matches!(floor_error(&floor), FloorError::Path { .. }));
}

#[test]
fn without_landlock_there_is_no_floor() {
    let trees = trees();
    for kernel in [0, 1] {
        let error = Domain::prepare_floor_for(kernel, &trees.floor(), false, &[]).unwrap_err();
        assert!(error.to_string().contains("Linux 5.19"), "{error}");
    }
}

/// Older kernels hold the floor just as well.
#[test]
fn every_abi_that_has_refer_holds() {
    for kernel in 2..=abi() {
        let trees = trees();
        let domain = Domain::prepare_floor_for(kernel, &trees.floor(), false, &[]).unwrap();
        assert_eq!(domain.scopes(), kernel >= 6);
        assert!(!domain.closes_truncation());
        let script = format!("{HEAD}os.rename(free + '/f', free + '/d/f')\nopen('new', 'w')\n");
        let output = run(Confine::Domain(domain), trees.python(&script), true);
        assert!(String::from_utf8_lossy(&output.stderr).contains("PermissionError"));
        assert!(trees.free.join("d/f").exists(), "ABI {kernel}");
    }
}

#[test]
fn the_proof_tells_a_floor_from_none_and_leaves_nothing() {
    let trees = trees();
    let floor = Floor {
        covered: vec![trees.ws.clone(), trees.ws.join("f")],
        exempt: Vec::new(),
    };
    let before = trees.state();
    let names = |state: Vec<String>| -> Vec<String> {
        state
            .iter()
            .map(|l| l.split(' ').next().unwrap().to_owned())
            .collect()
    };
    // Not entered: everything can be written.
    let open = Domain::prepare_floor(&floor, false, &[]).unwrap();
    let error = open.prove().unwrap_err();
    assert!(matches!(error, FloorError::NotHeld { .. }), "{error}");
    assert_eq!(names(trees.state()), names(before.clone()));
    let file_only = Floor {
        covered: vec![trees.ws.join("f")],
        exempt: Vec::new(),
    };
    let open = Domain::prepare_floor(&file_only, false, &[]).unwrap();
    assert!(matches!(open.prove(), Err(FloorError::NotHeld { .. })));

    let trees = self::trees();
    let before = trees.state();
    let floor = trees.floor();
    std::thread::spawn(move || {
        let domain = Domain::prepare_floor(&floor, false, &[]).unwrap();
        domain.apply().unwrap();
        domain.prove().unwrap();
    })
    .join()
    .unwrap();
    assert_eq!(trees.state(), before);
}

/// A tree that is gone gives another error than the floor's: that is no proof.
#[test]
fn another_failure_proves_nothing() {
    let trees = trees();
    let gone = trees.ws.join("d/e");
    let floor = Floor {
        covered: vec![gone.clone()],
        exempt: Vec::new(),
    };
    std::thread::spawn(move || {
        let domain = Domain::prepare_floor(&floor, false, &[]).unwrap();
        fs::remove_dir(&gone).unwrap();
        domain.apply().unwrap();
        let error = domain.prove().unwrap_err();
        assert!(matches!(error, FloorError::Unproven { .. }), "{error}");
    })
    .join()
    .unwrap();
}

/// /dev holds a covered tree: everything in it but the way there is granted.
#[test]
fn a_covered_tree_below_dev_leaves_the_devices_writable() {
    let dir = tempfile::Builder::new()
        .prefix("ccbox-floor-")
        .tempdir_in("/dev/shm")
        .unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
    let floor = Floor {
        covered: vec![dir.path().to_owned()],
        exempt: Vec::new(),
    };
    let domain = Domain::prepare_floor(&floor, false, &[]).unwrap();
    let script = "
import os, sys
open('/dev/null', 'w').write('x')
for path in sys.argv[1] + '/new', '/dev/shm/ccbox-floor-new':
    try: open(path, 'w'); print('written', path)
    except PermissionError: print('refused')
";
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", script]).arg(dir.path());
    let output = run(Confine::Domain(domain), command, true);
    let _ = fs::remove_file("/dev/shm/ccbox-floor-new");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "refused\nrefused\n"
    );
}
