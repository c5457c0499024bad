//! A protected file is a mount inside. What is done to its name is refused for the rule's sake and said so; what a mount
//! stands in the way of otherwise is native, and so are things that only look like trouble.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::{Site, callers, checked};

/// Each line: what was tried, and how it ended.
const TRY: &str = r"
import os, errno
def t(name, f):
    try: f(); print(name, 'ok')
    except OSError as e: print(name, errno.errorcode[e.errno])
open('x', 'w').write('x'); os.mkdir('d')
p = 'prot'
t('write', lambda: open(p, 'w').close())
t('append', lambda: os.open(p, os.O_WRONLY | os.O_APPEND))
t('truncate', lambda: os.truncate(p, 0))
t('empty', lambda: os.open(p, os.O_RDONLY | os.O_TRUNC))
t('reopen', lambda: os.open('/proc/self/fd/%d' % os.open(p, os.O_RDONLY), os.O_RDWR))
t('mode', lambda: os.chmod(p, 0o600))
t('replace', lambda: os.rename('x', p))
t('move', lambda: os.rename(p, 'y'))
t('remove', lambda: os.unlink(p))
t('link', lambda: os.link(p, 'l'))
t('above', lambda: os.rename('dir', 'dir2'))
t('lock', lambda: os.open(p, os.O_RDONLY | os.O_CREAT))
t('not a directory', lambda: os.rmdir(p))
t('over a file', lambda: os.rename('d', p))
t('make', lambda: os.mkdir(p))
t('device', lambda: os.open('/dev/null', os.O_RDONLY | os.O_TRUNC))
os.makedirs('closed/a'); os.chmod('closed', 0)
t('closed', lambda: os.rename('closed', 'closed2'))
os.makedirs('half/a'); os.chmod('half/a', 0)
t('half closed', lambda: os.rename('half', 'half2'))
print('__done__')
";

const RULED: [&str; 11] = [
    "write", "append", "truncate", "empty", "reopen", "mode", "replace", "move", "remove", "link",
    "above",
];

#[test]
fn a_protected_file_is_refused_by_its_rule() {
    for caller in callers() {
        let site = Site::new(caller);
        let mut command = site.inside(&["/usr/bin/python3", "-c", TRY]);
        let output = command.output().unwrap();
        let out = checked(&command, &output);
        let reports = String::from_utf8_lossy(&output.stderr);
        let said = |what: &str| {
            let line = out
                .stdout
                .lines()
                .find_map(|l| l.strip_prefix(what)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("{what}: {out:?}")).to_owned()
        };
        for what in RULED {
            assert_eq!(said(what), "EACCES", "{what}: {out:?}");
        }
        for (what, how) in [
            ("lock", "ok"),
            ("not a directory", "ENOTDIR"),
            ("over a file", "ENOTDIR"),
            ("make", "EEXIST"),
            ("device", "ok"),
            ("closed", "ok"),
            ("half closed", "ok"),
        ] {
            assert_eq!(said(what), how, "{what}: {out:?}");
        }
        for action in ["data", "mode", "unlink"] {
            assert!(
                reports.contains(&format!("file-write-{action} ")),
                "{action}: {reports}"
            );
        }
        assert!(reports.contains("protected_paths"), "{reports}");
        assert_eq!(site.read("ws/prot"), "KEEP\n");
        // So that they can be removed.
        for name in ["closed2", "half2/a"] {
            let open = fs::Permissions::from_mode(0o755);
            fs::set_permissions(site.path("ws").join(name), open).unwrap();
        }
    }
}
