//! Properties of planned mount lists over random policies, judged by the evaluator of `eval`.

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::broker::refuses as broker_refuses;
use super::eval::{Seen, Table};
use crate::broker::action::Action;
use crate::host::fs_view::FakeFs;
use crate::plan::fixture::{bind, bind_at, dispatch, entry, facts, plan, set_cwd, without_broker};
use crate::plan::{Plan, real_path};
use crate::policy::{Mode, Policy, View};

/// A small world with links inside, out of and into the writable places.
pub(crate) fn world() -> FakeFs {
    FakeFs::new()
        .dir("/usr/bin")
        .dir("/etc")
        .dir("/sys")
        .dir("/dev")
        .dir("/proc")
        .dir("/tmp/t")
        .dir("/var/tmp")
        .dir("/run")
        .dir("/mnt/g")
        .dir("/home/me")
        .dir("/home/me/ws/a/b")
        .file("/home/me/ws/a/b/c", "")
        .file("/home/me/ws/f", "")
        .dir("/home/me/ws/.git/hooks")
        .file("/home/me/ws/.git/config", "")
        .link("/home/me/ws/l", "a")
        .link("/home/me/ws/a/up", "../f")
        .dir("/home/me/.ssh")
        .dir("/home/me/.cache/x")
        .dir("/home/me/.npm")
        .dir("/d/x/y")
        .file("/d/x/z", "")
        .link("/d/to_ws", "/home/me/ws/a")
        .link("/w", "/home/me/ws")
}

const PATHS: [&str; 22] = [
    "/",
    "/home",
    "/home/me",
    "/home/me/.ssh",
    "/home/me/.cache",
    "/home/me/.cache/x",
    "/home/me/.npm",
    "/home/me/ws",
    "/home/me/ws/a",
    "/home/me/ws/a/b",
    "/home/me/ws/a/b/c",
    "/home/me/ws/f",
    "/home/me/ws/.git",
    "/home/me/ws/l/b",
    "/home/me/ws/a/up",
    "/home/me/ws/absent",
    "/d",
    "/d/x",
    "/d/x/y",
    "/d/x/z",
    "/d/to_ws/b",
    "/tmp/t",
];

fn path() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&PATHS[..])
}

fn some(n: usize) -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(path(), 0..n)
}

prop_compose! {
    pub(crate) fn policy()(
        host_view in any::<bool>(),
        review in any::<bool>(),
        binds in prop::collection::vec((path(), any::<bool>(), any::<bool>()), 0..4),
        writes in some(3),
        reads in some(3),
        protected in some(3),
        deny_write in some(3),
        deny_read in some(3),
        runner in some(2),
    ) -> Policy {
        let mut p = dispatch();
        if host_view {
            p.fs.view = View::Host;
        }
        if review {
            p.mode = Mode::Review;
        }
        p.fs.binds = binds
            .into_iter()
            .map(|(b, ro, moved)| if moved { bind_at(b, "/mnt/g", ro) } else { bind(b, ro) })
            .collect();
        p.fs.allow_write = writes.into_iter().map(entry).collect();
        p.fs.allow_read = reads.into_iter().map(entry).collect();
        p.fs.protected = protected.into_iter().map(entry).collect();
        p.fs.deny_write = deny_write.into_iter().map(entry).collect();
        p.fs.deny_read = deny_read.into_iter().map(entry).collect();
        p.fs.runner_state_dirs = runner.into_iter().map(entry).collect();
        p
    }
}

/// Every path worth asking about: the universe, one made-up name below each, and all of it below the other guest path.
pub(crate) fn questions() -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = Vec::new();
    for p in PATHS {
        let p = real_path(&world(), Path::new(p));
        out.push(p.clone());
        out.push(p.join("new"));
        for base in ["/", "/home/me/ws", "/d", "/home/me"] {
            if let Ok(rest) = p.strip_prefix(base) {
                out.push(Path::new("/mnt/g").join(rest));
            }
        }
    }
    out.sort();
    out.dedup();
    out
}

fn reals(list: &[crate::policy::Ruled<crate::policy::path::PathEntry>]) -> Vec<PathBuf> {
    list.iter()
        .filter_map(|e| e.value.exact())
        .map(|p| real_path(&world(), p))
        .collect()
}

pub(crate) fn here() -> crate::host::HostFacts {
    let mut host = facts();
    set_cwd(&mut host, "/usr/bin");
    host
}

/// Opens for reading are decided by name, and this name is refused.
fn refused_by_name(plan: &Plan, path: &Path) -> bool {
    let reads = plan.broker.as_ref().and_then(|b| b.reads.as_ref());
    let reads = reads.filter(|r| r.decides);
    reads.is_some_and(|r| r.denies(path.as_os_str().as_encoded_bytes()).is_some())
}

/// The same with mounts alone.
fn mounts_alone() -> crate::host::HostFacts {
    let mut host = without_broker();
    set_cwd(&mut host, "/usr/bin");
    host
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn denies_always_win(p in policy(), by_name in any::<bool>()) {
        let host = if by_name { here() } else { mounts_alone() };
        let Ok(plan) = plan(&p, &host, &world()) else { return Ok(()) };
        if plan.refusal.is_some() {
            return Ok(());
        }
        let table = Table::new(&plan.mounts);
        let never: Vec<PathBuf> = reals(&p.fs.protected).into_iter().chain(reals(&p.fs.deny_write)).collect();
        let hooks = PathBuf::from("/home/me/ws/.git/hooks");
        let hidden = reals(&p.fs.deny_read);
        let shown: Vec<PathBuf> = reals(&p.fs.allow_read)
            .into_iter()
            .chain(reals(&p.fs.allow_write))
            .chain(reals(&p.fs.runner_state_dirs))
            .chain(p.fs.binds.iter().map(|b| real_path(&world(), &b.value.host_path)))
            .collect();
        for q in questions() {
            let seen = table.seen(&q);
            if let Seen::Host(h, true) = &seen {
                for n in never.iter().filter(|n| crate::host::FsView::kind(&world(), n).is_some()) {
                    prop_assert!(!h.starts_with(n), "{q:?} shows {h:?} writable, below {n:?}\n{:#?}", plan.mounts);
                }
                prop_assert!(p.mode == Mode::Chat || reals(&p.fs.runner_state_dirs).iter().any(|r| h.starts_with(r)));
            }
            if let Seen::Host(h, _) | Seen::Copy(h) = &seen {
                for d in hidden.iter().filter(|d| h.starts_with(d) && crate::host::FsView::kind(&world(), d).is_some()) {
                    let deeper = shown.iter().any(|s| h.starts_with(s) && s.starts_with(d) && s != d);
                    prop_assert!(deeper, "{q:?} shows {h:?}, denied by {d:?}\n{:#?}", plan.mounts);
                }
                // A protected name cannot be freed by renaming what stands above it.
                // Shown at another path it is not that name of the host that a rename of what stands above would free.
                let named = (never.iter().any(|n| n == h) || *h == hooks) && (!by_name || q == *h);
                if named && crate::host::FsView::kind(&world(), h).is_some() {
                    for a in q.ancestors().filter(|a| a.parent().is_some()) {
                        let free = table.can_rename(a) && !broker_refuses(&plan, a, Action::RenameFrom);
                        prop_assert!(!free, "{a:?} can be renamed above {q:?}\n{:#?}", plan.mounts);
                    }
                }
            }
        }
    }

    #[test]
    fn a_deny_never_adds_access(p in policy(), extra in path(), list in 0..3) {
        let host = here();
        let Ok(before) = plan(&p, &host, &world()) else { return Ok(()) };
        let mut tighter = p;
        match list {
            0 => tighter.fs.protected.push(entry(extra)),
            1 => tighter.fs.deny_write.push(entry(extra)),
            _ => tighter.fs.deny_read.push(entry(extra)),
        }
        let Ok(after) = plan(&tighter, &host, &world()) else { return Ok(()) };
        let (before, after) = (Table::new(&before.mounts), Table::new(&after.mounts));
        for q in questions() {
            match (before.seen(&q), after.seen(&q)) {
                (_, Seen::Other) => {}
                (Seen::Host(a, rw), Seen::Host(b, now)) => prop_assert!(a == b && (rw || !now), "{q:?}"),
                (Seen::Copy(a), Seen::Copy(b) | Seen::Host(b, false)) => prop_assert_eq!(a, b),
                (was, is) => prop_assert!(false, "{q:?}: {was:?} became {is:?}"),
            }
        }
    }

    #[test]
    fn check_agrees_with_the_mounts(p in policy(), by_name in any::<bool>()) {
        let host = if by_name { here() } else { mounts_alone() };
        let Ok(plan) = plan(&p, &host, &world()) else { return Ok(()) };
        let table = Table::new(&plan.mounts);
        for q in questions() {
            let (read, write) = (crate::plan::check::read(&plan, &q).allowed, crate::plan::check::write(&plan, &world(), &q).allowed);
            let refused = refused_by_name(&plan, &q);
            match table.seen(&q) {
                Seen::Host(_, rw) if by_name => prop_assert!(read != refused && rw >= write, "{q:?}"),
                Seen::Host(_, rw) => prop_assert!(read && write == rw, "{q:?}"),
                Seen::Copy(_) => prop_assert!(read != refused && write, "{q:?}"),
                Seen::Other => {}
            }
            // Of a private cache it is said that names in it are the command's.
            let in_cache = matches!(table.seen(&q), Seen::Copy(_));
            prop_assert!(read || !write || in_cache, "{q:?}: writable but not readable");
        }
    }
}
