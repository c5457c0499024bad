use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::plan::fixture::{debian, dev, dispatch, entry, planned, without_broker};
use crate::plan::tests::props::{here, policy, questions, world};

/// What a path shows: the object of the host, whether under a private layer, and whether it can be written; or nothing of the host.
type Seen = Option<(PathBuf, bool, bool)>;

/// What the kernel does with a list of mounts on top of a tree. `take` says what a host path shows.
struct Table<'a> {
    mounts: Vec<&'a Mount>,
    take: Box<dyn Fn(&Path) -> Seen + 'a>,
}

impl Table<'_> {
    fn top(&self, path: &Path) -> Option<&Mount> {
        let over = |m: &&&Mount| path.starts_with(dst(m)) && !made_inside(m);
        self.mounts.iter().rev().find(over).copied()
    }

    fn seen(&self, path: &Path) -> Seen {
        let m = self.top(path)?;
        let tail = path.strip_prefix(dst(m)).unwrap();
        let join = |p: &Path| {
            if tail.as_os_str().is_empty() {
                p.to_path_buf()
            } else {
                p.join(tail)
            }
        };
        if let Mount::Overlay { lower, .. } = m {
            return Some((join(lower), true, true));
        }
        let (Mount::Bind { src, .. } | Mount::RoBind { src, .. }) = m else {
            return None;
        };
        let (host, copy, rw) = (self.take)(&join(src))?;
        Some((host, copy, rw && matches!(m, Mount::Bind { .. })))
    }

    fn is_mount_point(&self, path: &Path) -> bool {
        self.mounts
            .iter()
            .any(|m| dst(m) == path && !made_inside(m))
    }
}

fn made_inside(m: &Mount) -> bool {
    use Mount::{Dir, File, RemountRo, Symlink};
    matches!(
        m,
        Dir { .. } | Symlink { .. } | File { .. } | RemountRo { .. }
    )
}

#[allow(clippy::unnecessary_wraps, reason = "the signature of `take`")]
fn untouched(path: &Path) -> Seen {
    Some((path.to_path_buf(), false, true))
}

/// The host's tree as the engine finds it.
fn pre_stage(moved: &[Mount]) -> Table<'_> {
    Table {
        mounts: moved.iter().collect(),
        take: Box::new(untouched),
    }
}

/// The two halves of a plan.
fn halves(mounts: &[Mount]) -> (Vec<Mount>, Vec<Mount>) {
    let mut moved = Vec::new();
    let mut left = Vec::new();
    for (mount, early) in mounts.iter().zip(premounts(mounts)) {
        match early {
            None => left.push(mount.clone()),
            Some(PreMount::Cover { at, is_dir }) => moved.push(Mount::Cover { dst: at, is_dir }),
            Some(PreMount::ReadOnly { at }) => moved.push(Mount::RoBind {
                src: at.clone(),
                dst: at,
            }),
            Some(PreMount::Pinned { at }) => moved.push(Mount::Bind {
                src: at.clone(),
                dst: at,
            }),
            Some(PreMount::Overlay(_)) => panic!("overlays are not split off"),
        }
    }
    (moved, left)
}

/// Both forms of a plan show the same at every path, and the same paths can be renamed.
fn same(mounts: &[Mount], paths: &[PathBuf]) -> Result<(), TestCaseError> {
    let whole = Table {
        mounts: mounts.iter().collect(),
        take: Box::new(untouched),
    };
    let (moved, left) = halves(mounts);
    let host = pre_stage(&moved);
    let split = Table {
        mounts: left.iter().collect(),
        take: Box::new(|p| match host.top(p) {
            None => untouched(p),
            Some(_) => host.seen(p),
        }),
    };
    for p in paths {
        prop_assert_eq!(
            whole.seen(p),
            split.seen(p),
            "{:?}\n{:#?}\n{:#?}",
            p,
            moved,
            left
        );
        // A mount the engine takes along stands where its host path is shown.
        let taken = match split.top(p) {
            Some(Mount::Bind { src, dst } | Mount::RoBind { src, dst }) => {
                host.is_mount_point(&src.join(p.strip_prefix(dst).unwrap()))
            }
            _ => false,
        };
        prop_assert_eq!(
            whole.is_mount_point(p),
            split.is_mount_point(p) || taken,
            "{:?}\n{:#?}\n{:#?}",
            p,
            moved,
            left
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_forms_show_the_same(p in policy()) {
        let Ok(plan) = crate::plan::fixture::plan(&p, &here(), &world()) else { return Ok(()) };
        let mut paths = questions();
        paths.extend(plan.mounts.iter().map(|m| dst(m).to_path_buf()));
        same(&plan.mounts, &paths)?;
    }
}

fn moved(mounts: &[Mount]) -> Vec<String> {
    premounts(mounts)
        .into_iter()
        .flatten()
        .map(|m| match m {
            PreMount::Cover { at, .. } => format!("cover {}", at.display()),
            PreMount::ReadOnly { at } => format!("read-only {}", at.display()),
            PreMount::Pinned { at } => format!("pinned {}", at.display()),
            PreMount::Overlay(_) => "overlay".to_owned(),
        })
        .collect()
}

#[test]
fn an_ordinary_plan_leaves_the_engine_no_covers_and_no_protected_pieces() {
    let mut p = dev();
    p.fs.deny_read.push(entry("/home/me/proj/secret"));
    let fs = debian().file("/home/me/proj/secret", "");
    let got = moved(&planned(&p, &without_broker(), &fs).mounts);
    for want in [
        "cover /etc/shadow",
        "cover /home/me/.ssh",
        "cover /home/me/proj/secret",
        "read-only /home/me/proj/.git/config",
        "read-only /home/me/proj/.git/hooks",
        "pinned /home/me/proj/.git",
    ] {
        assert!(got.iter().any(|g| g == want), "{want} in {got:?}");
    }
    // The engine's own /proc is not there yet.
    assert!(!got.iter().any(|g| g.contains("/proc/")), "{got:?}");
}

fn ro(path: &str) -> Mount {
    bind(path, path, false)
}

fn rw(path: &str) -> Mount {
    bind(path, path, true)
}

fn bind(src: &str, dst: &str, rw: bool) -> Mount {
    let (src, dst) = (src.into(), dst.into());
    if rw {
        Mount::Bind { src, dst }
    } else {
        Mount::RoBind { src, dst }
    }
}

fn cover(path: &str) -> Mount {
    Mount::Cover {
        dst: path.into(),
        is_dir: true,
    }
}

#[test]
fn what_would_change_something_else_stays() {
    let tmpfs = |path: &str| Mount::Tmpfs {
        dst: path.into(),
        mode: 0o755,
        size: None,
    };
    for (name, mounts) in [
        (
            "the tree is shown elsewhere too",
            vec![ro("/"), bind("/h", "/g", true), cover("/h/s")],
        ),
        (
            "something in it is shown elsewhere",
            vec![ro("/"), cover("/h/s"), bind("/h/s/x", "/g", true)],
        ),
        (
            "it is on a private directory",
            vec![ro("/"), tmpfs("/h"), cover("/h/s")],
        ),
        (
            "it is not the host's own path",
            vec![ro("/"), bind("/a", "/h", true), cover("/h/s")],
        ),
        (
            "a writable piece inside would be closed",
            vec![ro("/"), rw("/w"), ro("/w/p"), rw("/w/p/x")],
        ),
        (
            "something is mounted over it later",
            vec![ro("/"), cover("/h/s"), rw("/h")],
        ),
        (
            "something was mounted there before",
            vec![ro("/"), rw("/h/s"), cover("/h/s")],
        ),
        (
            "/proc is the engine's",
            vec![
                ro("/"),
                Mount::Proc {
                    dst: "/proc".into(),
                },
                cover("/proc/keys"),
            ],
        ),
    ] {
        let got = moved(&mounts);
        assert!(
            got.iter().all(|g| !g.contains("/s") && !g.contains("/p")),
            "{name}: {got:?}"
        );
    }
}

#[test]
fn writable_pieces_move_only_below_writable_ones() {
    assert_eq!(moved(&[ro("/"), rw("/w"), rw("/w/a")]), ["pinned /w/a"]);
    assert!(moved(&[ro("/"), rw("/w")]).is_empty());
    let mut p = dispatch();
    p.fs.binds
        .push(crate::plan::fixture::bind("/home/me/proj", false));
    let got = moved(&planned(&p, &without_broker(), &debian()).mounts);
    assert!(
        got.contains(&"pinned /home/me/proj/.git".to_owned()),
        "{got:?}"
    );
}
