//! What the pre-stage mounts on the host's paths arrives inside with every flag, and nothing of it stays on the host.

use std::os::unix::fs::symlink;
use std::path::Path;

use crate::Case;
use crate::support::{Dir, script, stderr, stdout};

pub(crate) const CASES: &[Case] = &[
    ("covers and protected pieces hold", held),
    ("a place that was replaced ends the run", replaced),
    ("the host keeps its mounts", host),
    ("a cache that cannot be overlaid is private", overlay),
];

/// `f`, `d/f`: hidden; `p/f`, `p/q/f`: protected; `w/f`: writable in a directory that cannot be renamed.
fn tree() -> Dir {
    let dir = Dir::new();
    for name in ["d", "p/q", "w"] {
        std::fs::create_dir_all(dir.0.join(name)).unwrap();
    }
    for name in ["f", "d/f", "p/f", "p/q/f", "w/f"] {
        std::fs::write(dir.0.join(name), "content\n").unwrap();
    }
    dir
}

fn options(dir: &Path) -> Vec<String> {
    [
        ("--cover", "f"),
        ("--cover-dir", "d"),
        ("--pinned", "w"),
        ("--read-only", "p"),
    ]
    .iter()
    .flat_map(|(o, n)| [(*o).to_owned(), dir.join(n).display().to_string()])
    .collect()
}

fn run(dir: &Path, text: &str) -> std::process::Output {
    let options = options(dir);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    script(dir, &options, text).output().unwrap()
}

fn held() {
    let dir = tree();
    // The control: in the same place, without those mounts.
    let plain = script(&dir.0, &[], "cat f d/f; echo x >> p/f; mv w w2; mv w2 w").output();
    assert_eq!(stdout(&plain.unwrap()), "content\ncontent\n");
    assert_eq!(
        std::fs::read_to_string(dir.0.join("p/f")).unwrap(),
        "content\nx\n"
    );

    let out = run(
        &dir.0,
        "cat f; cat d/f; ls d; chmod 700 f d; rm -f f; rm -rf d; mv f g; mv d e; \
         echo y >> p/f; echo y >> p/q/f; echo y > p/new; rm -rf p; mv p r; \
         umount f d p w; umount -l f d p w; mount -o remount,bind,rw p; mount -o remount,bind,rw d; \
         mv w x; echo y >> w/f; stat -c '%a %n' f d; grep -c content f d/f; \
         grep -E \" $PWD/(f|d|p|w) \" /proc/self/mountinfo | cut -d' ' -f5,6 | sort -u",
    );
    let (text, here) = (stdout(&out), dir.0.display().to_string());
    // Served covers show the true metadata, placeholders have none.
    let device = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/fuse");
    let modes = if device.is_ok() {
        "644 f\n755 d\n"
    } else {
        "0 f\n0 d\n"
    };
    let mounts = text.strip_prefix(modes).unwrap_or_else(|| {
        panic!("{text} {}", stderr(&out));
    });
    let flags: Vec<(&str, &str)> = mounts
        .lines()
        .filter_map(|l| l.strip_prefix(&here)?.split_once(' '))
        .collect();
    let of = |name: &str| {
        let found: Vec<_> = flags.iter().filter(|(n, _)| *n == name).collect();
        assert!(!found.is_empty(), "{name}: {mounts}");
        found.into_iter().map(|(_, f)| *f).collect::<Vec<_>>()
    };
    for name in ["/f", "/d"] {
        for f in of(name) {
            assert!(f.starts_with("ro,nosuid,nodev,noexec"), "{name} {f}");
        }
    }
    assert!(of("/p").iter().all(|f| f.starts_with("ro,")), "{mounts}");
    assert!(of("/w").iter().any(|f| f.starts_with("rw,")), "{mounts}");
    for (name, content) in [
        ("f", "content\n"),
        ("d/f", "content\n"),
        ("p/f", "content\nx\n"),
        ("p/q/f", "content\n"),
        ("w/f", "content\ny\n"),
    ] {
        let now = std::fs::read_to_string(dir.0.join(name)).unwrap();
        assert_eq!(now, content, "{name}");
    }
    assert!(!dir.0.join("p/new").exists());
}

fn replaced() {
    for (name, make) in [
        ("gone", (|_: &Path| ()) as fn(&Path)),
        ("link", |p| symlink("/etc/passwd", p).unwrap()),
        ("linked/f", |p| {
            symlink("/etc", p.parent().unwrap()).unwrap();
        }),
        ("dir", |p| std::fs::create_dir(p).unwrap()),
    ] {
        let dir = Dir::new();
        make(&dir.0.join(name));
        let at = dir.0.join(name).display().to_string();
        let out = script(&dir.0, &["--cover", &at], "echo ran")
            .output()
            .unwrap();
        assert_eq!(stdout(&out), "", "{name}");
        let said = stderr(&out);
        assert!(
            said.contains(&format!("`{at}` was replaced")) && said.contains("retry: None"),
            "{name}: {said}"
        );
    }
}

fn host() {
    let dir = tree();
    let before = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert_eq!(
        stdout(&run(
            &dir.0,
            "cat /proc/self/mountinfo | wc -l > w/n; echo ok"
        )),
        "ok\n"
    );
    let after = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert_eq!(before, after);
    assert!(Path::new("/dev/null").exists());
}

fn overlay() {
    for (lower, seen) in [(true, "theirs"), (false, "ours")] {
        let dir = Dir::new();
        for name in ["lower", "upper", "work", "merged", "plain"] {
            std::fs::create_dir(dir.0.join(name)).unwrap();
        }
        std::fs::write(dir.0.join("lower/theirs"), "").unwrap();
        std::fs::write(dir.0.join("plain/ours"), "").unwrap();
        if !lower {
            std::fs::rename(dir.0.join("lower"), dir.0.join("elsewhere")).unwrap();
        }
        let here = dir.0.display().to_string();
        let mut out = script(
            &dir.0,
            &["--overlay", &here],
            "ls merged; touch merged/made",
        );
        assert_eq!(stdout(&out.output().unwrap()), format!("{seen}\n"));
        assert_eq!(dir.0.join("upper/made").exists(), lower);
        assert_eq!(dir.0.join("plain/made").exists(), !lower);
    }
}
