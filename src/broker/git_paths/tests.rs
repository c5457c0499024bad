//! The table of git paths, for every kind of git directory.

use super::*;
use crate::broker::testgit::Git;
use Action::{
    Bind, Chmod, LinkFrom, LinkTo, Mkdir, Mknod, RenameFrom, RenameTo, Rmdir, Symlink, Unlink,
    Write,
};

/// Paths that exist. `/w/.git` is the project's own repository.
const EXISTING: &[&str] = &[
    "/w/.git/HEAD",
    "/w/.git/refs",
    "/w/.git/logs/HEAD",
    "/w/.git/logs/refs",
    "/w/.git/refs/remotes/origin/HEAD",
    // A linked work tree, a submodule, a submodule of the linked work tree.
    "/w/.git/worktrees/x/HEAD",
    "/w/.git/worktrees/x/commondir",
    "/w/.git/modules/libs/sub/HEAD",
    "/w/.git/modules/libs/sub/refs",
    "/w/.git/worktrees/x/modules/m/HEAD",
    "/w/.git/worktrees/x/modules/m/refs",
    // A clone with reftable storage, a bare repository, one half made, a common directory whose HEAD was removed.
    "/w/c/.git/HEAD",
    "/w/c/.git/refs",
    "/w/c/.git/reftable",
    "/w/b.git/HEAD",
    "/w/b.git/refs",
    "/w/half/HEAD",
    "/w/half2/refs",
    "/w/lost/refs",
    "/w/lost/worktrees",
    "/w/plain/objects",
];

struct Paths;

impl Paths {
    fn at(depth: usize, path: &str) -> String {
        path.split('/')
            .take(depth + 1)
            .collect::<Vec<_>>()
            .join("/")
    }
}

/// Facts for one path.
struct Around(String);

impl Facts for Around {
    fn holds(&self, depth: usize, name: &str) -> bool {
        let path = format!("{}/{name}", Paths::at(depth, &self.0));
        EXISTING
            .iter()
            .any(|e| *e == path || e.starts_with(&format!("{path}/")))
    }

    fn is_project_git_dir(&self, depth: usize) -> bool {
        Paths::at(depth, &self.0) == "/w/.git"
    }

    fn is_old_work_tree(&self, _: usize) -> bool {
        false
    }
}

fn judge(path: &str, action: Action, kind: Kind, from_lock: bool) -> Ruling {
    let parts: Vec<Vec<u8>> = path[1..]
        .split('/')
        .map(|c| {
            super::super::fold::fold(c.as_bytes(), super::super::fold::NameRules::Unix).into_owned()
        })
        .collect();
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    let (name, dir) = parts.split_last().unwrap();
    let facts = Around(path.to_owned());
    rule(&Query {
        dir,
        name,
        action,
        kind,
        stays: from_lock,
        exact: path.ends_with("/config") || path.ends_with("/config.worktree"),
        facts: &facts,
    })
}

/// One letter a ruling: `.` open, `x` closed, `g` gate, `w` walk.
fn letter(path: &str, action: Action, kind: Kind) -> char {
    match judge(path, action, kind, false) {
        Ruling::Open => '.',
        Ruling::Closed(_) => 'x',
        Ruling::Gate(_) => 'g',
        Ruling::Walk => 'w',
    }
}

/// The columns of the table below.
const COLUMNS: [(Action, Kind); 17] = [
    (Write, Kind::Absent),
    (Write, Kind::File),
    (Mkdir, Kind::Absent),
    (Mknod, Kind::Absent),
    (Bind, Kind::Absent),
    (Symlink, Kind::Absent),
    (LinkTo(Kind::File), Kind::Absent),
    (LinkFrom, Kind::File),
    (RenameTo(Kind::File), Kind::Absent),
    (RenameTo(Kind::Dir), Kind::Absent),
    (RenameTo(Kind::Symlink), Kind::Absent),
    (RenameFrom, Kind::File),
    (RenameFrom, Kind::Dir),
    (Unlink, Kind::File),
    (Rmdir, Kind::Dir),
    (
        Chmod {
            from: 0o664,
            to: 0o764,
        },
        Kind::File,
    ),
    (
        Chmod {
            from: 0o644,
            to: 0o666,
        },
        Kind::File,
    ),
];

#[test]
fn the_table() {
    #[rustfmt::skip]
    let table: &[(&str, &str)] = &[
        // writes: new old | mkdir mknod bind | symlink link-to link-from | rename-to file dir link, -from file dir | unlink rmdir chmod chmod-for-others
        ("/w/.git/config",                           "gx xxx xxx xxx xx xx.x"),
        ("/w/.git/CONFIG",                           "xx xxx xxx xxx xx xx.x"),
        ("/w/.git/config.worktree",                  "gx xxx xxx xxx xx xx.x"),
        ("/w/.git/config.lock",                      ".. ... ... ... .. ...."),
        ("/w/c/.git/config",                         "gx xxx xxx xxx xx .x.x"),
        ("/w/b.git/config",                          "gx xxx xxx xxx xx .x.x"),
        ("/w/lost/config",                           "gx xxx xxx xxx xx .x.x"),
        ("/w/.git/modules/libs/sub/config",          "gx xxx xxx xxx xx .x.x"),
        ("/w/.git/worktrees/x/config.worktree",      "gx xxx xxx xxx xx .x.x"),
        ("/w/.git/worktrees/x/modules/m/config",     "gx xxx xxx xxx xx .x.x"),
        ("/w/new/.git/config",                       "gx xxx xxx xxx xx .x.x"),
        // Not git directories, and branches of unlucky names.
        ("/w/config",                                ".. ... ... ... .. ...."),
        ("/w/half/config",                           ".. ... ... ... .. ...."),
        ("/w/plain/config",                          ".. ... ... ... .. ...."),
        ("/w/.git/modules/config",                   ".. ... ... ... .. ...."),
        ("/w/.git/refs/heads/config",                ".. ... ... ... .. ...."),
        ("/w/.git/refs/remotes/origin/config",       ".. ... ... ... .. ...."),
        ("/w/.git/refs/remotes/origin/hooks/x",      ".. ... ... ... .. ...."),
        ("/w/.git/refs/heads/info/attributes",       ".. ... ... ... .. ...."),
        // Hooks.
        ("/w/.git/hooks",                            "xx .xx xxx xxx xx xxxx"),
        ("/w/c/.git/hooks",                          "xx .xx xxx xxx xx ...."),
        ("/w/.git/hooks/pre-commit",                 "xx xxx xxx xxx xx xxxx"),
        ("/w/.git/HOOKS/Pre-Commit",                 "xx xxx xxx xxx xx xxxx"),
        ("/w/.git/hooks/lib/x",                      "xx xxx xxx xxx xx xxxx"),
        ("/w/.git/hooks/lib/x.sample",               "xx xxx xxx xxx xx xxxx"),
        ("/w/.git/hooks/.sample",                    "xx xxx xxx xxx xx xxxx"),
        ("/w/.git/hooks/pre-commit.sample",          ".. ... ... ... .. ...."),
        ("/w/.git/hooks/.pre-commit.sample.Xy12ab",  ".. ... ... ... .. ...."),
        ("/w/.git/hooks/pre-commit.sample.Xy12ab",   "xx xxx xxx xxx xx xxxx"),
        ("/w/.git/hooks/.pre-commit.Xy12ab",         "xx xxx xxx xxx xx xxxx"),
        ("/w/c/.git/hooks/pre-commit",               "xx xxx xxx xxx xx ..xx"),
        ("/w/b.git/hooks/pre-commit",                "xx xxx xxx xxx xx ..xx"),
        ("/w/.git/modules/libs/sub/hooks/post-checkout", "xx xxx xxx xxx xx xxxx"),
        ("/w/hooks/pre-commit",                      ".. ... ... ... .. ...."),
        ("/w/half/hooks/pre-commit",                 ".. ... ... ... .. ...."),
        // Attributes, and remotes by another syntax.
        ("/w/.git/info",                             ".. ... x.. .wx .w ...."),
        ("/w/.git/info/attributes",                  "xx xxx xxx xxx xx xxxx"),
        ("/w/.git/info/exclude",                     ".. ... ... ... .. ...."),
        ("/w/.git/info/sparse-checkout",             ".. ... ... ... .. ...."),
        ("/w/info/attributes",                       ".. ... ... ... .. ...."),
        ("/w/.git/branches",                         ".. ... x.. .xx .. ...."),
        ("/w/.git/remotes/origin",                   "xx .xx xxx xxx .. ...."),
        ("/w/.git/remotes/a/b",                      "xx .xx xxx xxx .. ...."),
        ("/w/remotes/origin",                        ".. ... ... ... .. ...."),
        // Common directories.
        ("/w/.git/commondir",                        "xx xxx xxx xxx xx .xxx"),
        ("/w/b.git/commondir",                       "xx xxx xxx xxx xx .xxx"),
        ("/w/half/commondir",                        "x. xxx xx. xxx .. ...."),
        ("/w/plain/commondir",                       ".. ... ... ... .. ...."),
        ("/w/.git/worktrees/y/commondir",            "gx xxx xxx xxx xx .xxx"),
        ("/w/.git/worktrees/x/commondir",            "gx xxx xxx xxx xx .xxx"),
        ("/w/plain/worktrees/y/commondir",           ".. ... ... ... .. ...."),
        ("/w/.git/worktrees/x",                      ".. ... ... ... .x ...."),
        ("/w/.git/worktrees",                        ".. ... ... ... .w ...."),
        ("/w/.git/worktrees/x/gitdir",               ".. ... ... ... .. ...."),
        // What completes a git directory.
        ("/w/half2/HEAD",                            "g. ggg gg. ggg .. ...."),
        ("/w/half2/head",                            "g. ggg gg. ggg .. ...."),
        ("/w/half/refs",                             "g. ggg gg. ggg .. ...."),
        ("/w/half2/worktrees",                       "g. ggg gg. ggg .w ...."),
        ("/w/plain/HEAD",                            ".. ... ... ... .. ...."),
        ("/w/plain/refs",                            ".. ... ... ... .. ...."),
        ("/w/b.git/HEAD",                            ".. ... ... ... .. ...."),
        ("/w/.git/HEAD",                             ".. ... ... ... .. ...."),
        ("/w/.git/refs/remotes/new/HEAD",            ".. ... ... ... .. ...."),
        ("/w/.git/refs/remotes/origin/refs",         "g. ggg gg. ggg .. ...."),
        // `.git` itself.
        ("/w/.git",                                  ".. ... ... .g. xx ...."),
        ("/w/c/.git",                                ".. ... ... .g. .. ...."),
        ("/w/new/.git",                              ".. ... ... .g. .. ...."),
        // The rest of a repository is open.
        ("/w/.git/index",                            ".. ... ... ... .. ...."),
        ("/w/.git/packed-refs",                      ".. ... ... ... .. ...."),
        ("/w/.git/ORIG_HEAD",                        ".. ... ... ... .. ...."),
        ("/w/.git/objects/ab/cdef",                  ".. ... ... ... .. ...."),
        ("/w/.git/objects/info/alternates",          ".. ... ... ... .. ...."),
        ("/w/.git/refs/heads/main",                  ".. ... ... ... .. ...."),
        ("/w/.git/logs/HEAD",                        ".. ... ... ... .. ...."),
        ("/w/.git/logs/refs/remotes/origin/HEAD",    ".. ... ... ... .. ...."),
        ("/w/.git/rebase-merge/git-rebase-todo",     ".. ... ... ... .. ...."),
        ("/w/.git/modules/libs",                     ".. ... ... ... .. ...."),
        ("/w/c/.git/reftable/tables.list",           ".. ... ... ... .. ...."),
        ("/w/src/main.rs",                           ".. ... ... ... .. ...."),
    ];
    for (path, want) in table {
        let got: String = COLUMNS.iter().map(|(a, k)| letter(path, *a, *k)).collect();
        assert_eq!(got, want.replace(' ', ""), "{path}");
    }
}

#[test]
fn configuration_comes_from_its_lock_through_the_gate() {
    for path in [
        "/w/.git/config",
        "/w/b.git/config",
        "/w/.git/worktrees/x/config.worktree",
    ] {
        assert_eq!(
            judge(path, RenameTo(Kind::File), Kind::File, true),
            Ruling::Gate(Gate::Config)
        );
        for kind in [Kind::Dir, Kind::Symlink, Kind::Other] {
            assert!(matches!(
                judge(path, RenameTo(kind), Kind::File, true),
                Ruling::Closed(_)
            ));
        }
    }
}

#[test]
fn what_must_not_come_along_is_found() {
    let below = |path: &str, rel: &[&[u8]]| {
        let parts: Vec<&[u8]> = path[1..].split('/').map(str::as_bytes).collect();
        let (name, dir) = parts.split_last().unwrap();
        let facts = Around(path.to_owned());
        closed_below(
            &Query {
                dir,
                name,
                action: RenameFrom,
                kind: Kind::Dir,
                stays: false,
                exact: true,
                facts: &facts,
            },
            rel,
        )
    };
    assert_eq!(below("/w/.git/info", &[b"attributes"]), Some(ATTRIBUTES));
    assert_eq!(below("/w/.git/info", &[b"exclude"]), None);
    assert_eq!(below("/w/info", &[b"attributes"]), None);
    assert_eq!(
        below("/w/.git/worktrees", &[b"x", b"commondir"]),
        Some(COMMON)
    );
    assert_eq!(below("/w/.git/worktrees", &[b"x", b"HEAD"]), None);
    assert_eq!(below("/w/.git/worktrees", &[b"commondir"]), None);
}

/// A directory on disk; only the last depth is asked.
struct Disk(std::path::PathBuf);

impl Facts for Disk {
    fn holds(&self, _: usize, name: &str) -> bool {
        self.0.join(name).symlink_metadata().is_ok()
    }

    fn is_project_git_dir(&self, _: usize) -> bool {
        false
    }

    fn is_old_work_tree(&self, _: usize) -> bool {
        false
    }
}

/// Every combination of the entries that matter, asked of every installed git: whatever it takes for a git directory is one
/// here, and so is the common directory it reads settings from.
#[test]
fn whatever_git_takes_for_a_git_directory_is_one() {
    const COMMON: [&str; 4] = ["../..", "../../elsewhere", ".", ""];
    for git in Git::all() {
        let mut taken = 0;
        for bits in 0..1 << 7 {
            let has = |bit: usize| bits >> bit & 1 == 1;
            // `top` may be the common directory of `top/worktrees/x`.
            let top = git.dir().join("top");
            let x = top.join("worktrees/x");
            std::fs::create_dir_all(&x).unwrap();
            std::fs::create_dir_all(git.dir().join("top/elsewhere/objects")).unwrap();
            std::fs::create_dir_all(git.dir().join("top/elsewhere/refs")).unwrap();
            for (dir, first) in [(&top, 0), (&x, 3)] {
                if has(first) {
                    std::fs::write(dir.join("HEAD"), "ref: refs/heads/main\n").unwrap();
                }
                for (name, bit) in [("refs", first + 1), ("objects", first + 2)] {
                    if has(bit) {
                        std::fs::create_dir(dir.join(name)).unwrap();
                    }
                }
            }
            for common in COMMON {
                if has(6) {
                    std::fs::write(x.join("commondir"), format!("{common}\n")).unwrap();
                }
                for (dir, relative) in [(&top, "top"), (&x, "top/worktrees/x")] {
                    let git_dir = format!("--git-dir={}", dir.display());
                    let out = git.output(relative, &[&git_dir, "rev-parse", "--git-common-dir"]);
                    if !out.status.success() {
                        continue;
                    }
                    taken += 1;
                    let is = |dir: &std::path::Path| {
                        is_git_directory(&[b"anything"], &Disk(dir.to_path_buf()))
                    };
                    assert!(is(dir), "{bits:b} {common} {}", dir.display());
                    // Settings come from the common directory. Elsewhere is what a foreign `commondir` leads to: that
                    // file is what the rules keep out.
                    let text = String::from_utf8(out.stdout).unwrap();
                    let found = std::fs::canonicalize(dir.join(text.trim_end())).unwrap();
                    if found == std::fs::canonicalize(&top).unwrap() {
                        assert!(is(&found), "{bits:b} {common} {}", found.display());
                    }
                }
                if !has(6) {
                    break;
                }
            }
            std::fs::remove_dir_all(&top).unwrap();
        }
        assert!(taken > 20, "{taken}");
    }
}
