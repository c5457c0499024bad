//! A directory that becomes a git directory.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::symlink;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::*;
use crate::broker::git_paths::{Becomes, COMMONDIR, Facts};
use crate::broker::testgit::Git;

const PARENT: Gate = Gate::Skeleton(Becomes::Parent);

/// `x` as it would be, were it not for one thing.
fn skeleton() -> Tree {
    let tree = Tree::new();
    tree.write("x/config", SAFE);
    tree.write("x/hooks/pre-commit.sample", "#!/bin/sh\n");
    tree.write("x/info/exclude", "");
    fs::create_dir_all(tree.path("x/refs")).unwrap();
    fs::create_dir_all(tree.path("x/objects")).unwrap();
    fs::create_dir_all(tree.path("x/branches")).unwrap();
    tree
}

/// Renames `from` to `to`, if the gate lets it.
fn moved(tree: &Tree, from: &str, to: &str) -> Result<Passed, GateError> {
    let passed = tree.at(from, |from| {
        tree.at(to, |to| {
            pass(
                Gate::Skeleton(Becomes::Moved),
                &Ask {
                    from: Some(from),
                    ..ask(&tree.set, to)
                },
            )
        })
    })?;
    fs::rename(tree.path(from), tree.path(to)).unwrap();
    Ok(passed)
}

#[test]
fn a_harmless_directory_becomes_one_with_a_new_configuration() {
    let tree = skeleton();
    fs::hard_link(tree.path("x/config"), tree.path("kept")).unwrap();
    let mut kept = OpenOptions::new()
        .append(true)
        .open(tree.path("x/config"))
        .unwrap();
    tree.mode("x/config", 0o640);
    act(tree.pass(PARENT, "x/HEAD"));
    tree.write("x/HEAD", "ref: refs/heads/main\n");
    kept.write_all(EVIL.as_bytes()).unwrap();
    assert_eq!(tree.read("x/config"), SAFE);
    assert!(tree.read("kept").contains(EVIL));
    assert_eq!(
        fs::metadata(tree.path("x/config")).unwrap().mode() & 0o7777,
        0o640
    );
    assert!(!tree.path("x/config.lock").exists());
    // It was seen becoming one.
    assert!(!tree.at("x", |s| s.facts.is_project_git_dir(s.path.depth() + 1)));
    assert!(!tree.at("x/y", |s| s.facts.is_project_git_dir(s.path.depth())));
}

#[test]
fn what_git_would_read_or_run_keeps_it_from_becoming_one() {
    type Plant = fn(&Tree);
    let plants: [(&str, Plant); 25] = [
        ("core.fsmonitor", |t| t.write("x/config", EVIL)),
        ("unusual syntax", |t| t.write("x/config", "x")),
        ("`config` is not", |t| {
            fs::remove_file(t.path("x/config")).unwrap();
            symlink("../other", t.path("x/config")).unwrap();
        }),
        ("`config` is not", |t| {
            fs::remove_file(t.path("x/config")).unwrap();
            mkfifo(&t.path("x/config"), Mode::S_IRWXU).unwrap();
        }),
        ("`config` is not", |t| {
            fs::remove_file(t.path("x/config")).unwrap();
            fs::create_dir(t.path("x/config")).unwrap();
        }),
        ("`config` is not", |t| {
            t.write("x/config", vec![b'\n'; (1 << 20) + 1]);
        }),
        ("`config.worktree`", |t| t.write("x/config.worktree", "")),
        ("`config.worktree`", |t| {
            symlink("nowhere", t.path("x/config.worktree")).unwrap();
        }),
        ("`commondir`", |t| t.write("x/commondir", COMMONDIR)),
        ("`commondir`", |t| t.write("x/commondir", "../evil\n")),
        ("`commondir`", |t| {
            symlink("y", t.path("x/commondir")).unwrap();
        }),
        ("`commondir`", |t| {
            mkfifo(&t.path("x/commondir"), Mode::S_IRWXU).unwrap();
        }),
        ("hooks", |t| t.write("x/hooks/pre-commit", "#!/bin/sh\n")),
        ("hooks", |t| {
            symlink("/bin/true", t.path("x/hooks/post-checkout")).unwrap();
        }),
        ("hooks", |t| fs::create_dir(t.path("x/hooks/d")).unwrap()),
        ("hooks", |t| t.write("x/hooks/.sample", "")),
        ("hooks", |t| t.write("x/hooks/pre-commit:a.sample", "")),
        ("hooks", |t| {
            fs::remove_dir_all(t.path("x/hooks")).unwrap();
            t.write("evil/pre-commit", "");
            symlink("../evil", t.path("x/hooks")).unwrap();
        }),
        ("hooks", |t| {
            fs::remove_dir_all(t.path("x/hooks")).unwrap();
            t.write("x/hooks", "");
        }),
        ("hooks", |t| {
            for n in 0..1100 {
                t.write(&format!("x/hooks/{n}.sample"), "");
            }
        }),
        ("info/attributes", |t| {
            t.write("x/info/attributes", "* filter=x\n");
        }),
        ("info/attributes", |t| {
            fs::remove_dir_all(t.path("x/info")).unwrap();
            t.write("evil/attributes", "");
            symlink("../evil", t.path("x/info")).unwrap();
        }),
        ("info/attributes", |t| {
            symlink("nowhere", t.path("x/info/attributes")).unwrap();
        }),
        ("remotes", |t| t.write("x/remotes/origin", "URL: ext::x\n")),
        ("remotes", |t| {
            fs::remove_dir(t.path("x/branches")).unwrap();
            symlink("../evil", t.path("x/branches")).unwrap();
        }),
    ];
    for (n, (words, plant)) in plants.into_iter().enumerate() {
        let tree = skeleton();
        plant(&tree);
        fs::create_dir(tree.path("w")).unwrap();
        refused(tree.pass(PARENT, "x/HEAD"), words);
        refused(moved(&tree, "x", "w/.git"), words);
        assert!(!tree.path("w/.git").exists(), "{n}");
    }
}

#[test]
fn a_directory_renamed_to_dot_git_is_checked_and_refreshed_where_it_is() {
    let tree = skeleton();
    fs::create_dir(tree.path("w")).unwrap();
    fs::hard_link(tree.path("x/config"), tree.path("kept")).unwrap();
    act(moved(&tree, "x", "w/.git"));
    fs::write(tree.path("kept"), EVIL).unwrap();
    assert_eq!(tree.read("w/.git/config"), SAFE);
    assert!(!tree.at("w/y", |s| s.facts.is_old_work_tree(s.path.depth())));
}

#[test]
fn a_repository_of_the_project_stays_one_under_another_name() {
    let tree = skeleton();
    tree.write("x/HEAD", "ref: refs/heads/main\n");
    fs::create_dir(tree.path("w")).unwrap();
    act(moved(&tree, "x", "w/.git"));
    assert!(tree.at("w/y", |s| s.facts.is_old_work_tree(s.path.depth())));
    assert!(tree.at("w/.git", |s| s.facts.is_project_git_dir(s.path.depth() + 1)));
}

#[test]
fn the_work_tree_of_a_submodule_may_lie_in_the_tree_only() {
    for (value, ok) in [
        ("../../../sub", true),
        ("../../../../sub", false),
        ("/etc", false),
        ("../../hooks", false),
    ] {
        let tree = Tree::new();
        tree.write(
            "p/.git/modules/sub/config",
            format!("[core]\n\tworktree = {value}\n"),
        );
        fs::create_dir(tree.path("p/.git/modules/sub/refs")).unwrap();
        // `p` is a component of its own: one level up is still inside.
        let value = value.replace("../../../../sub", "../../../../../sub");
        tree.write(
            "p/.git/modules/sub/config",
            format!("[core]\n\tworktree = {value}\n"),
        );
        let answer = tree.pass(PARENT, "p/.git/modules/sub/HEAD");
        assert_eq!(answer.is_ok(), ok, "{value} {answer:?}");
    }
}

#[test]
fn the_common_directory_of_a_linked_work_tree_is_written_here() {
    let tree = Tree::new();
    fs::create_dir_all(tree.path("p/.git/worktrees/w")).unwrap();
    let passed = tree
        .pass(Gate::Commondir, "p/.git/worktrees/w/commondir")
        .unwrap();
    let Passed::Give(fd) = passed else {
        panic!("{passed:?}");
    };
    // The child writes what it wants, nowhere.
    let mut file = fs::File::from(fd);
    file.write_all(b"../../../evil\n").unwrap();
    file.set_len(3).unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    assert_eq!(
        tree.read("p/.git/worktrees/w/commondir").as_bytes(),
        COMMONDIR
    );
    let names = fs::read_dir(tree.path("p/.git/worktrees/w"))
        .unwrap()
        .count();
    assert_eq!(names, 1, "no lock is left");
    let mode = fs::metadata(tree.path("p/.git/worktrees/w/commondir"))
        .unwrap()
        .mode();
    assert_eq!(mode & 0o7777, 0o644);
}

#[test]
fn a_linked_directory_with_settings_of_its_own_gets_no_common_directory() {
    type Plant = fn(&Tree);
    let plants: [Plant; 3] = [
        |t| t.write("p/.git/worktrees/w/config.worktree", EVIL),
        |t| t.write("p/.git/worktrees/w/hooks/post-checkout", ""),
        |t| t.write("p/.git/worktrees/w/config", EVIL),
    ];
    for plant in plants {
        let tree = Tree::new();
        plant(&tree);
        let answer = tree.pass(Gate::Commondir, "p/.git/worktrees/w/commondir");
        assert!(matches!(answer, Err(GateError::Refused(_))), "{answer:?}");
        assert!(!tree.path("p/.git/worktrees/w/commondir").exists());
    }
}

/// A common directory that was there before the rest is replaced by a new file with the one content there can be.
#[test]
fn an_older_common_directory_is_refreshed() {
    let tree = Tree::new();
    tree.write("p/.git/worktrees/w/commondir", "../..");
    fs::hard_link(tree.path("p/.git/worktrees/w/commondir"), tree.path("kept")).unwrap();
    act(tree.pass(PARENT, "p/.git/worktrees/w/HEAD"));
    fs::write(tree.path("kept"), "../../../evil").unwrap();
    assert_eq!(
        tree.read("p/.git/worktrees/w/commondir").as_bytes(),
        COMMONDIR
    );
    // The same directory where `p` is no repository.
    tree.write("q/worktrees/w/commondir", "../..");
    refused(tree.pass(PARENT, "q/worktrees/w/HEAD"), "`commondir`");
}

/// Repositories of every installed git, taken apart and put together again through the gate: git takes them as before.
#[test]
fn repositories_of_git_pass_and_work_afterwards() {
    let mut kinds = 0;
    for git in Git::all() {
        for (n, kind) in [
            &["--bare"][..],
            &["--bare", "--object-format=sha256"],
            &["--bare", "--ref-format=reftable"],
        ]
        .iter()
        .enumerate()
        {
            let name = format!("r{n}");
            let mut args = vec!["init", "-q"];
            args.extend_from_slice(kind);
            args.push(&name);
            git.run(".", &args);
            let source = git.dir().join(&name);
            // This git may not know the format.
            if !source.join("config").exists() {
                continue;
            }
            kinds += 1;
            let tree = Tree::new();
            let copy = std::process::Command::new("cp")
                .args(["-r"])
                .args([&source, &tree.path("r")])
                .status()
                .unwrap();
            assert!(copy.success());
            for entry in ["HEAD", "refs"] {
                fs::rename(tree.path("r").join(entry), tree.path(entry)).unwrap();
                act(tree.pass(PARENT, &format!("r/{entry}")));
                fs::rename(tree.path(entry), tree.path("r").join(entry)).unwrap();
            }
            fs::create_dir(tree.path("w")).unwrap();
            act(moved(&tree, "r", "w/.git"));
            let git_dir = format!("--git-dir={}", tree.path("w/.git").display());
            for args in [
                &["fsck"][..],
                &["config", "--list"],
                &["symbolic-ref", "HEAD"],
            ] {
                let mut call = vec![git_dir.as_str()];
                call.extend_from_slice(args);
                git.run(".", &call);
            }
        }
    }
    assert!(kinds >= 2, "{kinds}");
}
