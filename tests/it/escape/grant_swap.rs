//! A granted directory is swapped for a link between the look at it and the mount, as a process left over from elsewhere could do.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Site, callers, ran, sh};

const ROUNDS: usize = 25;

#[test]
fn a_swapped_grant_opens_nothing() {
    for caller in callers() {
        let site = Site::new(caller);
        for name in ["elsewhere", "ws/grant"] {
            std::fs::create_dir(site.path(name)).unwrap();
            site.give(&site.path(name));
        }
        std::os::unix::fs::symlink(site.path("elsewhere"), site.path("ws/link")).unwrap();
        let t = site.path("");
        let t = t.to_str().unwrap().trim_end_matches('/');
        // Only the grant is writable; `ws` is not.
        let spec = site.spec("").replace(
            &format!("host_path = \"{t}/ws\"\n"),
            &format!("host_path = \"{t}/ws/grant\"\n"),
        );
        site.file("spec.toml", &spec);
        let attack = sh("echo evil > $T/ws/grant/made");

        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (a, b) = (site.path("ws/grant"), site.path("ws/link"));
                while !stop.load(Ordering::Relaxed) {
                    nix::fcntl::renameat2(
                        nix::fcntl::AT_FDCWD,
                        &a,
                        nix::fcntl::AT_FDCWD,
                        &b,
                        nix::fcntl::RenameFlags::RENAME_EXCHANGE,
                    )
                    .unwrap();
                    std::thread::sleep(std::time::Duration::from_micros(200));
                }
            });
            for _ in 0..ROUNDS {
                // Either refused (125), or it got the real directory.
                site.inside(&attack).output().unwrap();
            }
            let leaked = site.path("elsewhere/made").exists();
            // Control: without a sandbox the link is followed sooner or later.
            let mut followed = false;
            for _ in 0..10_000 {
                site.outside(&attack).output().unwrap();
                followed = site.path("elsewhere/made").exists();
                if followed {
                    break;
                }
            }
            stop.store(true, Ordering::Relaxed);
            assert!(!leaked, "written through the link");
            assert!(followed, "control");
        });
        // The grant as such works.
        std::fs::remove_file(site.path("ws/link"))
            .or_else(|_| std::fs::remove_file(site.path("ws/grant")))
            .unwrap();
        if !site.path("ws/grant").exists() {
            std::fs::rename(site.path("ws/link"), site.path("ws/grant")).unwrap();
        }
        let _ = std::fs::remove_file(site.path("ws/grant/made"));
        ran(site.inside(&attack));
        assert_eq!(site.read("ws/grant/made"), "evil\n");
    }
}
