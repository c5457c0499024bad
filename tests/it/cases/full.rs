//! Places that run full, and mounts inside a writable tree: the same answers as outside. The file systems are made in a mount namespace
//! of the test's own.

use std::process::{Command, Stdio};

use crate::support::{Box, CCBOX, Ran, require_sandbox};

/// One line for each call.
const CALLS: &str = r"
import errno, os, sys
CREATE = os.O_CREAT | os.O_WRONLY
def t(name, call):
    try: print(name, call())
    except OSError as e: print(name, errno.errorcode[e.errno])
def until(name, call):
    # Until it fails; how often it succeeded may depend on where the file system keeps things.
    for n in range(1000):
        try: call(n)
        except OSError as e: return print(name, errno.errorcode[e.errno], n > 0)
    print(name, 'never')
def write(fd):
    until('write', lambda n: os.write(fd, bytes(4096)))
os.chdir('small')
with open('held', 'wb') as f: f.write(b'held')
fd = os.open('fill', CREATE); write(fd)
t('create in a full place', lambda: os.close(os.open('empty', CREATE)))
t('truncate', lambda: os.truncate('held', 1 << 20))
until('mkdir', lambda n: os.mkdir('d%d' % n))
until('mkfifo', lambda n: os.mkfifo('p%d' % n))
until('create', lambda n: os.close(os.open('f%d' % n, CREATE)))
t('unnamed', lambda: os.close(os.open('.', os.O_TMPFILE | os.O_WRONLY)))
t('exclusive', lambda: os.close(os.open('new', CREATE | os.O_EXCL)))
t('left', lambda: os.path.lexists('new'))
t('symlink', lambda: os.symlink('x' * 200, 's'))
t('rename', lambda: os.rename('held', 'held2'))
t('over', lambda: os.rename('held2', 'fill'))
os.close(fd)
os.chdir('..')
for a, b in (('a', 'small/a'), ('small/fill', 'b'), ('small', 'large'), ('small/d0', 'd0'), ('small', 'small/in'), ('a', 'shown/a'), ('shown/f', 'b'),
             ('a', 'small'), ('small/fill', 'small/../small/fill2')):
    t(f'rename {a} to {b}', lambda: os.rename(a, b))
    t(f'link {a} to {b}', lambda: os.link(a, b))
for call in ('os.rmdir(\'small\')', 'os.unlink(\'small\')', 'os.mkdir(\'small\')', 'os.rename(\'other\', \'small\')'):
    t(call, lambda: eval(call))
for call in ('os.open(\'shown/n\', CREATE)', 'os.open(\'shown/f\', os.O_WRONLY)', 'os.open(\'shown/f\', os.O_RDONLY | os.O_TRUNC)', 'os.mkdir(\'shown/d\')',
             'os.unlink(\'shown/f\')', 'os.unlink(\'shown/none\')', 'os.chmod(\'shown/f\', 0o600)', 'os.truncate(\'shown/f\', 0)', 'os.utime(\'shown/f\')',
             'os.rename(\'shown/f\', \'shown/g\')', 'os.link(\'shown/f\', \'shown/g\')', 'os.setxattr(\'shown/f\', \'user.a\', b\'x\')'):
    t(call, lambda: eval(call))
";

#[test]
fn full_places_and_mounts_answer_as_outside() {
    if !require_sandbox() {
        return;
    }
    let run = |inside: bool| {
        let b = Box::new().workspace_spec();
        std::fs::write(b.path().join("calls.py"), CALLS).unwrap();
        // Without capabilities, as a command is.
        let bare = "setpriv --no-new-privs --bounding-set -all --inh-caps -all";
        let how = if inside {
            format!("{CCBOX} run --spec ../spec.toml --")
        } else {
            bare.to_owned()
        };
        let script = format!(
            "set -e; cp ../calls.py calls.py; mkdir small shown other; echo a > a
            mount -t tmpfs -o size=64k,nr_inodes=24,mode=755 tmpfs small
            mount -t tmpfs tmpfs shown; echo f > shown/f; mount -o remount,bind,ro shown
            {how} python3 calls.py"
        );
        let mut c = Command::new("unshare");
        c.args(["-Urm", "--propagation", "private", "sh", "-c", &script])
            .current_dir(b.ws())
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", b.path().join("home"))
            .env("XDG_STATE_HOME", b.path().join("state"))
            .stdin(Stdio::null());
        Ran::of(&mut c)
    };
    let (outside, inside) = (run(false), run(true));
    assert_eq!(outside.code, 0, "{}", outside.stderr);
    assert!(
        outside.stdout.contains("create ENOSPC"),
        "{}",
        outside.stdout
    );
    let pairs = inside.stdout.lines().zip(outside.stdout.lines());
    let wrong: Vec<_> = pairs.filter(|(a, b)| a != b).collect();
    assert!(
        wrong.is_empty(),
        "inside and outside: {wrong:#?}\n{}",
        inside.stderr
    );
    assert_eq!(
        inside.stdout.lines().count(),
        outside.stdout.lines().count()
    );
    // None of it is the sandbox's doing.
    assert_eq!(inside.stderr, "");
}
