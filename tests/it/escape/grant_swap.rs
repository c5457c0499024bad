//! A granted directory is swapped for a link between the look at it and the mount, as a process left over from another run could do.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Site, callers, ran, sh};

const ROUNDS: usize = 25;

/// Exchanges two names for as long as `during` runs.
fn swapping(a: &Path, b: &Path, during: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                nix::fcntl::renameat2(
                    nix::fcntl::AT_FDCWD,
                    a,
                    nix::fcntl::AT_FDCWD,
                    b,
                    nix::fcntl::RenameFlags::RENAME_EXCHANGE,
                )
                .unwrap();
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        during();
        stop.store(true, Ordering::Relaxed);
    });
}

/// `ws` is writable, `ws/sub` read-only, `ws/sub/grant` writable again; the link leads out of `ws`. Seen as a link the grant is
/// refused because it was planted, seen as a directory it is pinned (semantics 20). Without `ws` in the spec the link would be the
/// user's own way to write the path, and be followed.
#[test]
fn a_swapped_grant_opens_nothing() {
    for caller in callers() {
        let site = Site::new(caller);
        for name in ["elsewhere", "ws/sub", "ws/sub/grant"] {
            std::fs::create_dir(site.path(name)).unwrap();
            site.give(&site.path(name));
        }
        let link = site.path("ws/sub/link");
        std::os::unix::fs::symlink(site.path("elsewhere"), &link).unwrap();
        let t = site.path("");
        let t = t.to_str().unwrap().trim_end_matches('/');
        let spec = site.spec("").replace(
            &format!("host_path = \"{t}/ws\"\n"),
            &format!(
                "host_path = \"{t}/ws\"\n\n[[bind_mounts]]\nhost_path = \"{t}/ws/sub\"\nread_only = true\n\n\
                 [[bind_mounts]]\nhost_path = \"{t}/ws/sub/grant\"\n"
            ),
        );
        site.file("spec.toml", &spec);
        let grant = site.path("ws/sub/grant");
        let made = site.path("elsewhere/made");
        let attack = sh("echo evil > $T/ws/sub/grant/made");

        swapping(&grant, &link, || {
            for _ in 0..ROUNDS {
                // Either refused (125), or it got the real directory.
                site.inside(&attack).output().unwrap();
            }
            let leaked = made.exists();
            // Control: without a sandbox the link is followed sooner or later.
            let followed = (0..10_000).any(|_| {
                site.outside(&attack).output().unwrap();
                made.exists()
            });
            assert!(!leaked, "written through the link");
            assert!(followed, "control");
        });
        // The grant as such works, and the link is refused by name.
        if grant.is_symlink() {
            std::fs::rename(&grant, site.path("ws/sub/other")).unwrap();
            std::fs::rename(&link, &grant).unwrap();
            std::fs::rename(site.path("ws/sub/other"), &link).unwrap();
        }
        let _ = std::fs::remove_file(grant.join("made"));
        ran(site.inside(&attack));
        assert_eq!(site.read("ws/sub/grant/made"), "evil\n");
        std::fs::rename(&grant, site.path("ws/sub/other")).unwrap();
        std::fs::rename(&link, &grant).unwrap();
        let refused = site.inside(&attack).output().unwrap();
        assert_eq!(refused.status.code(), Some(125));
        let words = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            words.contains(&format!("passes through the link `{}`", grant.display())),
            "{words}"
        );
    }
}
