//! Two runs on one tree: one makes a hook below a directory, the other gives that directory the name that makes it one.

use std::fs;
use std::process::Child;

use crate::lab::{Caller, Desk, Lab, LabCommand};

/// Each has so many rounds, and says how often it got its way.
const ROUNDS: &str = "10000";
const MAKER: &str = "import os, sys
made = 0
for n in range(int(sys.argv[1])):
    try:
        fd = os.open('x/hooks/pre-commit', os.O_CREAT | os.O_WRONLY, 0o755)
        made += 1
        os.write(fd, b'evil')
        os.close(fd)
    except OSError: pass
    for d in 'x', '.git':
        try: os.unlink(d + '/hooks/pre-commit')
        except OSError: pass
print(made)
";
const MOVER: &str = "import os, sys
moved = 0
for n in range(int(sys.argv[1])):
    for a, b in ('x', '.git'), ('.git', 'x'):
        try:
            os.rename(a, b)
            moved += 1
        except OSError: pass
print(moved)
";

/// What the host saw while both worked: how often the hook was there, and what each says.
fn watched(desk: &Desk<'_>, run: impl Fn(&Desk<'_>, &[&str]) -> LabCommand) -> (u64, [u32; 2]) {
    let ws = desk.outer.join("ws");
    desk.control(&["mkdir", "-p", "x/hooks"]).output().success();
    let start = |program| {
        crate::spawn(&run(
            desk,
            &["/usr/bin/python3", "-B", "-c", program, ROUNDS],
        ))
    };
    let mut children: [Child; 2] = [start(MAKER), start(MOVER)];
    let mut hits = 0;
    while children
        .iter_mut()
        .any(|child| child.try_wait().unwrap().is_none())
    {
        for _ in 0..1000 {
            hits += u64::from(fs::symlink_metadata(ws.join(".git/hooks/pre-commit")).is_ok());
        }
    }
    let done = children.map(|child| {
        let (code, stdout, stderr) = crate::text(child);
        assert_eq!(code, Some(0), "{stderr}");
        stdout.trim().parse().unwrap()
    });
    (hits, done)
}

/// The control: outside it is seen.
#[test]
fn a_hook_made_and_moved_outside_is_seen() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let (hits, _) = watched(&desk, |desk, argv| desk.control(argv));
    assert!(hits > 0);
}

/// linux-engine-2 §5: both decide under one lock.
#[test]
fn a_hook_made_by_one_run_and_moved_by_another_is_never_seen() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        let (hits, [made, moved]) = watched(&desk, |desk, argv| desk.boxed(&[], argv));
        assert_eq!(hits, 0, "{caller:?}: made {made}, moved {moved}");
        // Both got their way often, so they did meet.
        assert!(made > 100 && moved > 100, "made {made}, moved {moved}");
    }
}
