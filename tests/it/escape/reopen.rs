//! /proc/self/fd/0 of a file opened for reading, opened again for writing: the descriptor keeps the host's writable mount.

use std::fs::File;
use std::process::Stdio;

use super::{Site, callers, checked, python, ran, sh};

const ATTACK: &str = "
for path in ('/proc/self/fd/0', '/dev/stdin', '/proc/thread-self/fd/0', '/dev/fd/0'):
    for flags in (os.O_WRONLY, os.O_RDWR | os.O_APPEND, os.O_RDONLY | os.O_TRUNC):
        try: os.write(os.open(path, flags), b'evil')
        except OSError: pass
    try: os.truncate(path, 0)
    except OSError: pass
try: os.link('/proc/self/fd/0', 'alias', follow_symlinks=True); open('alias', 'w').write('evil')
except OSError: pass
print(len(os.read(0, 100)))
";

/// A file outside the writable trees, a protected one inside them, a hidden one.
#[test]
fn what_was_opened_for_reading_stays_so() {
    for caller in callers() {
        for (name, content) in [
            ("input", "DATA\n"),
            ("ws/prot", "KEEP\n"),
            ("hidden/secret", "SECRET\n"),
        ] {
            let site = Site::new(caller);
            site.file("input", "DATA\n");
            let open = || File::open(site.path(name)).unwrap();

            let mut attack = site.inside(&python(ATTACK));
            attack.stdin(open());
            let output = attack.output().unwrap();
            checked(&attack, &output);
            assert_eq!(site.read(name), content);

            let mut control = site.outside(&python(ATTACK));
            control.stdin(open());
            ran(control);
            assert_ne!(site.read(name), content, "{name}");
        }
    }
}

/// The same where the workspace has another path inside.
#[test]
fn a_moved_workspace_protects_its_files_too() {
    for caller in callers() {
        for name in ["ws/prot", "ws/dir/prot"] {
            let site = Site::new(caller);
            let t = site.path("");
            let t = t.to_str().unwrap().trim_end_matches('/');
            // Not visible at its own path.
            let spec = format!(
                "network_enabled = false\nguest_workdir = \"/srv/work\"\n\
                 protected_paths = [\"{t}/ws/prot\", \"{t}/ws/dir/prot\"]\n\
                 [[bind_mounts]]\nhost_path = \"{t}/ws\"\nguest_path = \"/srv/work\"\n"
            );
            site.file("spec.toml", &spec);
            let open = || File::open(site.path(name)).unwrap();

            let mut attack = site.inside(&python(ATTACK));
            attack.stdin(open());
            let output = attack.output().unwrap();
            let seen = checked(&attack, &output);
            assert!(seen.has("5"), "{seen:?}");
            assert_eq!(site.read(name), "KEEP\n");

            let mut control = site.outside(&python(ATTACK));
            control.stdin(open());
            ran(control);
            assert_ne!(site.read(name), "KEEP\n", "{name}");
        }
    }
}

/// What was opened for writing may be opened again: `> /dev/stdout` into a file works.
#[test]
fn what_was_opened_for_writing_can_be_reopened() {
    for caller in callers() {
        let site = Site::new(caller);
        let path = site.file("out", "");
        let mut command = site.inside(&sh(
            "echo one > /dev/stdout; echo two >> /proc/self/fd/1; echo three >&2",
        ));
        command.stdout(File::options().append(true).open(&path).unwrap());
        assert!(command.stderr(Stdio::null()).status().unwrap().success());
        assert_eq!(site.read("out"), "one\ntwo\n__done__\n");
    }
}

/// A hidden file inside a writable tree has no mount inside it could be read through without being written: refused.
#[test]
fn a_hidden_file_of_a_writable_tree_is_not_handed_over() {
    for caller in callers() {
        let site = Site::new(caller);
        site.file("ws/veiled", "SECRET\n");
        let veiled = site.path("ws/veiled");
        let spec = site.spec("").replace(
            "deny_read = [",
            &format!("deny_read = [\"{}\", ", veiled.display()),
        );
        site.file("spec.toml", &spec);
        let mut attack = site.inside(&python(ATTACK));
        attack.stdin(File::open(&veiled).unwrap());
        let output = attack.output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        assert_eq!(site.read("ws/veiled"), "SECRET\n");
    }
}
