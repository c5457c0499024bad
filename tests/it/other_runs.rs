//! Several runs of one user (docs/adr/0007): they wait for each other whatever their environment says, and not for ever.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set itself up has failed"
)]

use std::process::{Command, Stdio};

use crate::support::{Box, CCBOX, Ran, require_sandbox};

/// What each script starts from: a mount namespace with a `/tmp` of its own, so that nobody else waits for what is done to the lock.
/// `ccbox(home, argv)` starts a run with this home directory and state.
const PRELUDE: &str = r"
import fcntl, os, signal, subprocess, sys, time
subprocess.run('touch ../ccbox && mount --bind @CCBOX@ ../ccbox && mount -t tmpfs -o mode=1777 tmpfs /tmp', shell=True, check=True)
PLACE = '/tmp/.ccbox-%d' % os.getuid()
LOCK = PLACE + '/lock'
top = os.path.dirname(os.getcwd())
def ccbox(home, *argv, options=()):
    env = dict(os.environ)
    for name in ('HOME', 'XDG_STATE_HOME', 'XDG_CONFIG_HOME'): env.pop(name, None)
    env['HOME'] = top + '/' + home
    if home != 'plain': env['XDG_STATE_HOME'] = env['HOME'] + '/.state'
    os.makedirs(env['HOME'], exist_ok=True)
    call = [top + '/ccbox', 'run', *options, '--spec', '../spec.toml', '--', *argv]
    return subprocess.Popen(call, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
def done(run):
    out, err = run.communicate()
    return run.returncode, out, err
def ended(run):
    code, out, err = done(run)
    assert (code, err) == (0, ''), (code, err)
    return out
";

fn script(b: &Box, text: &str) -> Ran {
    let text = format!("{}\n{text}", PRELUDE.replace("@CCBOX@", CCBOX));
    let mut c = Command::new("unshare");
    c.args(["-Urm", "--propagation", "private", "python3", "-c", &text])
        .current_dir(b.ws())
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::null());
    Ran::of(&mut c)
}

#[test]
fn runs_with_other_homes_wait_for_each_other() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let ran = script(
        &b,
        r"
ended(ccbox('one', 'true'))
held = open(LOCK, 'wb')
fcntl.flock(held, fcntl.LOCK_EX)
runs = [ccbox(home, 'touch', home) for home in ('one', 'two', 'plain')]
time.sleep(1)
assert [run.poll() for run in runs] == [None] * 3
assert os.listdir('.') == []
fcntl.flock(held, fcntl.LOCK_UN)
for run in runs: ended(run)
print(sorted(os.listdir('.')))
# Nothing is waited for where nothing is decided.
fcntl.flock(held, fcntl.LOCK_EX)
ended(ccbox('one', 'cat', 'two'))
",
    );
    ran.expect(0, "['one', 'plain', 'two']\n", "");
}

/// One makes a hook below a directory, the other gives that directory the name that makes it one.
#[test]
fn runs_with_other_homes_do_not_race_each_other_open() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    std::fs::create_dir_all(b.ws().join("x/hooks")).unwrap();
    let ran = script(
        &b,
        r"
maker = '''
import os
made = 0
for n in range(300):
    try:
        os.close(os.open('x/hooks/pre-commit', os.O_CREAT | os.O_WRONLY, 0o755))
        made += 1
    except OSError: pass
    for d in 'x', '.git':
        try: os.unlink(d + '/hooks/pre-commit')
        except OSError: pass
print(made)
'''
mover = '''
import os
moved = 0
for n in range(300):
    for a, b in ('x', '.git'), ('.git', 'x'):
        try:
            os.rename(a, b)
            moved += 1
        except OSError: pass
print(moved)
'''
runs = [ccbox('one', 'python3', '-c', maker, options=('-q',)), ccbox('two', 'python3', '-c', mover, options=('-q',))]
seen = 0
while any(run.poll() is None for run in runs):
    seen += os.path.lexists('.git/hooks/pre-commit')
counts = [int(ended(run)) for run in runs]
assert min(counts) > 0, counts
print(seen)
",
    );
    ran.expect(0, "0\n", "");
}

#[test]
fn nobody_waits_for_ever_for_a_run_that_is_stopped() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let ran = script(
        &b,
        r"
ended(ccbox('one', 'true'))
stopped = os.fork()
if stopped == 0:
    held = open(LOCK, 'wb')
    fcntl.flock(held, fcntl.LOCK_EX)
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(0)
os.waitpid(stopped, os.WUNTRACED)
began = time.monotonic()
code, out, err = done(ccbox('two', 'sh', '-c', 'cat ../ws/none; touch a || mkdir b || touch c'))
print(code, err.replace(str(stopped), 'PID'), end='')
# The first call waits, the others do not.
assert time.monotonic() - began < 60
assert os.listdir('.') == []
os.kill(stopped, signal.SIGCONT)
os.waitpid(stopped, 0)
ended(ccbox('two', 'touch', 'a'))
",
    );
    ran.expect(
        0,
        "1 cat: ../ws/none: No such file or directory\n\
         ccbox: warning: process PID is stopped while it holds the lock that all runs of the user share (`kill -CONT PID` lets it go on); \
         until it does, changes of files fail with EIO\n\
         touch: cannot touch 'a': Input/output error\n\
         mkdir: cannot create directory ‘b’: Input/output error\n\
         touch: cannot touch 'c': Input/output error\n",
        "",
    );
}

/// Anybody may be the first to make the name.
#[test]
fn a_place_that_is_somebody_elses_is_said_and_not_used() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let ran = script(
        &b,
        r"
def line(home):
    code, _, err = done(ccbox(home, 'touch', 'made', options=('-v',)))
    assert code == 0, err
    return 'other-runs' in next(l for l in err.splitlines() if 'engine=' in l)
for squat in (lambda: open(PLACE, 'w').close(), lambda: os.mkdir(PLACE, 0o777), lambda: os.mkdir(PLACE, 0o755),
              lambda: os.symlink(top, PLACE), lambda: os.symlink(os.getcwd(), PLACE)):
    os.umask(0)
    squat()
    before = os.lstat(PLACE).st_mode
    print(line('one'), os.lstat(PLACE).st_mode == before, end=' ')
    (os.rmdir if os.path.isdir(PLACE) and not os.path.islink(PLACE) else os.unlink)(PLACE)
print(line('one'), line('two'), oct(os.stat(PLACE).st_mode & 0o777), oct(os.stat(LOCK).st_mode & 0o777))
# A directory where anybody may move what is in it.
os.chmod('/tmp', 0o777)
print(line('one'))
",
    );
    ran.expect(
        0,
        &format!("{}False False 0o700 0o200\nTrue\n", "True True ".repeat(5)),
        "",
    );
}

/// A harness that keeps /tmp between calls gives the command the directory the lock lies in.
#[test]
fn the_command_cannot_take_the_lock() {
    const ATTACK: &str = "
import fcntl, os
place = '/tmp/.ccbox-0'
def quietly(act, *args):
    try: return act(*args)
    except OSError: pass
for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
    quietly(os.chmod, place + '/lock', 0o600)
    fd = quietly(os.open, place + '/lock', flags)
    if fd is not None and quietly(fcntl.flock, fd, fcntl.LOCK_EX | fcntl.LOCK_NB) is None: pass
    if fd is not None: print('opened')
    fd = quietly(os.open, place + '/moves', flags | os.O_TRUNC)
quietly(os.rename, place + '/lock', '/tmp/lock')
quietly(os.link, place + '/moves', '/tmp/moves')
quietly(os.unlink, place + '/moves')
quietly(os.open, place + '/new', os.O_CREAT | os.O_WRONLY)
quietly(os.rename, place, '/tmp/elsewhere')
quietly(os.symlink, '/tmp', place)
quietly(os.chmod, place, 0o777)
";
    if !require_sandbox() {
        return;
    }
    let b = Box::new()
        .spec("[[bind_mounts]]\nhost_path = \"@T@/ws\"\n[[bind_mounts]]\nhost_path = \"/tmp\"\n");
    let run = format!(
        r"
ATTACK = {ATTACK:?}
def state():
    return [(n, os.lstat(n).st_ino, oct(os.lstat(n).st_mode), os.lstat(n).st_size) for n in (PLACE, LOCK, PLACE + '/moves') if os.path.lexists(n)], sorted(os.listdir(PLACE))
for first in (False, True):
    # Before there has been any run, and afterwards.
    if first: ended(ccbox('one', 'true'))
    else: subprocess.run('rm -rf /tmp/.ccbox-0', shell=True, check=True)
    before = state() if first else None
    code, out, err = done(ccbox('one', 'python3', '-c', ATTACK, options=('-q',)))
    assert (code, out) == (0, ''), (code, out, err)
    print(before in (None, state()), sorted(os.listdir('/tmp')), sorted(os.listdir(PLACE)), flush=True)
code = subprocess.run(['python3', '-c', ATTACK]).returncode
print('control', code, sorted(os.listdir('/tmp')))
"
    );
    let ran = script(&b, &run);
    let kept = "True ['.ccbox-0'] ['lock', 'moves']\n".repeat(2);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let (inside, outside) = ran.stdout.split_at(kept.len());
    assert_eq!(inside, kept, "{}", ran.stderr);
    assert!(
        outside.contains("opened") && outside.contains("'elsewhere'"),
        "{outside}"
    );
}
