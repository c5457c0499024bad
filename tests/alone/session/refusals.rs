//! Hosts that forbid a part of the sandbox: refused with the real reason and the real fix, never a weaker run (CO-2,
//! CO-3, EN-3).

use std::process::{Command, Output};

use crate::Case;
use crate::support::{BOXES, Dir, exe, stderr, stdout};

pub(crate) const CASES: &[Case] = &[
    ("user namespaces forbidden", no_user_namespaces),
    ("a fresh proc forbidden", no_fresh_proc),
    (
        "helpers are not taken from PATH and see no LD_PRELOAD",
        helpers,
    ),
];

/// A run in a user namespace of its own, in which `before` has been done as its root.
fn after(dir: &Dir, before: &str, way: &[&str]) -> Output {
    let run = format!(
        "{before} && exec setpriv --no-new-privs {} box {} --cwd / -- echo STARTED",
        exe().display(),
        way.join(" ")
    );
    Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &run])
        .current_dir(&dir.0)
        .output()
        .unwrap()
}

fn refused(out: &Output, reason: &str, fix: &str) {
    let said = stderr(out);
    assert_eq!(
        (out.status.code(), stdout(out).as_str()),
        (Some(125), ""),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains(reason) && said.contains(fix), "{said}");
}

fn no_user_namespaces() {
    let dir = Dir::new();
    for way in BOXES {
        let out = after(&dir, "echo 0 > /proc/sys/user/max_user_namespaces", way);
        refused(
            &out,
            "user.max_user_namespaces is 0",
            "sysctl user.max_user_namespaces",
        );
    }
}

fn no_fresh_proc() {
    let dir = Dir::new();
    for way in BOXES {
        // Control: without the cover the same call starts.
        assert_eq!(stdout(&after(&dir, "true", way)), "STARTED\n", "{way:?}");
        let out = after(&dir, "mount -t tmpfs none /proc/tty", way);
        refused(
            &out,
            "a fresh /proc cannot be mounted",
            "systempaths=unconfined",
        );
    }
}

fn helpers() {
    let dir = Dir::new();
    let trap = dir.0.join("trap");
    std::fs::create_dir(&trap).unwrap();
    for name in ["bwrap", "sh", "unshare", "newuidmap"] {
        let path = trap.join(name);
        std::fs::write(&path, "#!/bin/sh\necho $0 >> HIJACKED\n").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
    }
    for way in BOXES {
        let text = format!(
            "LD_DEBUG=files LD_DEBUG_OUTPUT={0}/loaded PATH={0}/trap:$PATH exec {1} box {2} -- /bin/true",
            dir.0.display(),
            exe().display(),
            way.join(" ")
        );
        let status = Command::new("/bin/bash")
            .args(["-c", &text])
            .current_dir(&dir.0)
            .status();
        assert!(status.unwrap().success(), "{way:?}");
        assert!(!dir.0.join("HIJACKED").exists());
        // LD_DEBUG makes every program that gets the environment write a file: ccbox and the command (pid 2 inside).
        let mut loaded = 0;
        for entry in std::fs::read_dir(&dir.0).unwrap().flatten() {
            if entry.file_name().to_string_lossy().starts_with("loaded.") {
                let text = std::fs::read_to_string(entry.path()).unwrap();
                assert!(
                    !text.contains("libcap") && !text.contains("bwrap"),
                    "{way:?}"
                );
                std::fs::remove_file(entry.path()).unwrap();
                loaded += 1;
            }
        }
        assert_eq!(loaded, 2, "{way:?}");
    }
}
