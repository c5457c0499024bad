//! What is around a pinned directory.

use std::os::unix::fs::symlink;

use nix::errno::Errno;

use super::*;
use crate::broker::git_paths::Facts;

/// `a/b` below the top holds a name at every level, the levels above the top included.
#[test]
fn each_level_is_looked_at() {
    let outer = tempfile::tempdir().unwrap();
    let top = outer.path().join("top");
    fs::create_dir_all(top.join("a/b/c")).unwrap();
    fs::write(outer.path().join("n-outer"), "").unwrap();
    fs::write(top.join("n-top"), "").unwrap();
    fs::write(top.join("a/n-a"), "").unwrap();
    fs::write(top.join("a/b/n-b"), "").unwrap();
    fs::write(top.join("a/b/c/n-c"), "").unwrap();
    let tree = Tree::around(tempfile::Builder::new().tempdir_in(&top).unwrap());
    // The tree's top is one level further down.
    let below = tree.path("").file_name().unwrap().to_owned();
    fs::rename(top.join("a"), top.join(&below).join("a")).unwrap();
    tree.at("a/b/c", |spot| {
        let depth = spot.path.depth();
        let facts = spot.facts;
        for (depth, name) in [
            (depth + 1, "n-c"),
            (depth, "n-b"),
            (depth - 1, "n-a"),
            (depth - 3, "n-top"),
            (depth - 4, "n-outer"),
            (0, "proc"),
        ] {
            assert!(facts.holds(depth, name), "{name}");
            assert!(!facts.holds(depth, "absent"), "{name}");
        }
        assert!(!facts.holds(depth, "n-a"));
        assert!(!facts.holds(depth - 2, "n-top"));
        assert_eq!(facts.failed(), None);
    });
}

#[test]
fn a_name_is_there_whatever_it_leads_to() {
    let tree = Tree::new();
    symlink("nowhere", tree.path("HEAD")).unwrap();
    tree.at("x", |spot| {
        assert!(spot.facts.holds(spot.path.depth(), "HEAD"));
        assert!(
            !spot.facts.holds(spot.path.depth() + 1, "HEAD"),
            "x is not there"
        );
        assert_eq!(spot.facts.failed(), None);
    });
    // The object is a file, and a link to a directory: neither holds anything.
    tree.write("file", "");
    symlink(".", tree.path("link")).unwrap();
    for name in ["file", "link"] {
        tree.at(name, |spot| {
            assert!(!spot.facts.holds(spot.path.depth() + 1, "HEAD"));
            assert_eq!(spot.facts.failed(), None);
        });
    }
}

#[test]
fn a_look_that_fails_is_no_answer() {
    let tree = Tree::new();
    let long = "x".repeat(300);
    tree.at(&long, |spot| {
        assert!(!spot.facts.holds(spot.path.depth(), "HEAD"));
        assert_eq!(spot.facts.failed(), None);
        assert!(spot.facts.holds(spot.path.depth() + 1, "HEAD"));
        assert_eq!(spot.facts.failed(), Some(Errno::ENAMETOOLONG));
    });
}

/// The levels are those of the directory that is pinned, wherever it is moved.
#[test]
fn a_directory_that_is_moved_takes_its_facts_along() {
    let tree = Tree::new();
    tree.write("old/HEAD", "");
    tree.write("old/sub/x", "");
    tree.write("new/refs", "");
    tree.at("old/sub/x", |spot| {
        fs::rename(tree.path("old/sub"), tree.path("new/sub")).unwrap();
        assert!(spot.facts.holds(spot.path.depth() - 1, "refs"));
        assert!(!spot.facts.holds(spot.path.depth() - 1, "HEAD"));
    });
}

fn old_git_dir(tree: &Tree, path: &str) -> bool {
    tree.at(path, |spot| {
        let is = spot.facts.is_project_git_dir(spot.path.depth() + 1);
        assert_eq!(spot.facts.failed(), None);
        is
    })
}

fn old_work_tree(tree: &Tree, path: &str) -> bool {
    tree.at(&format!("{path}/x"), |spot| {
        let is = spot.facts.is_old_work_tree(spot.path.depth());
        assert_eq!(spot.facts.failed(), None);
        is
    })
}

#[test]
fn what_was_not_seen_made_is_the_projects() {
    let tree = Tree::new();
    tree.write("p/.git/HEAD", "");
    tree.write("bare/HEAD", "");
    tree.write("bare/refs/x", "");
    tree.write("w/.git", "gitdir: ../p/.git/worktrees/w");
    tree.write("plain/HEAD", "");
    assert!(old_git_dir(&tree, "p/.git"));
    assert!(old_git_dir(&tree, "bare"));
    assert!(!old_git_dir(&tree, "plain"));
    assert!(!old_git_dir(&tree, "absent"));
    assert!(old_work_tree(&tree, "p"));
    assert!(old_work_tree(&tree, "w"));
    assert!(!old_work_tree(&tree, "plain"));
    assert!(!old_work_tree(&tree, "bare"));
}

#[test]
fn what_was_seen_made_is_not() {
    let tree = Tree::new();
    for (work_tree, file) in [("a", false), ("b", true)] {
        let dot_git = format!("{work_tree}/.git");
        fs::create_dir(tree.path(work_tree)).unwrap();
        if file {
            tree.write(&dot_git, "");
        } else {
            fs::create_dir(tree.path(&dot_git)).unwrap();
        }
        assert!(old_work_tree(&tree, work_tree));
        tree.at(&dot_git, |spot| tree.made.came(spot.dir, spot.name));
        assert!(!old_work_tree(&tree, work_tree));
        assert!(!old_git_dir(&tree, &dot_git));
    }
    // It stays what it is where it is moved to, and so does an old one.
    fs::create_dir(tree.path("p")).unwrap();
    fs::create_dir(tree.path("p/.git")).unwrap();
    fs::rename(tree.path("a"), tree.path("c")).unwrap();
    fs::rename(tree.path("p"), tree.path("q")).unwrap();
    assert!(!old_work_tree(&tree, "c"));
    assert!(old_work_tree(&tree, "q"));
    // Another name is not looked at.
    tree.write("x/other", "");
    tree.at("x/other", |spot| tree.made.came(spot.dir, spot.name));
    assert!(
        !tree
            .made
            .is_made(fs::File::open(tree.path("x/other")).unwrap())
            .unwrap()
    );
}

/// The inode number of a removed directory is given to the next one: that is another directory.
#[test]
fn an_inode_number_given_again_is_another_object() {
    let tree = Tree::new();
    fs::create_dir(tree.path("w")).unwrap();
    for _ in 0..32 {
        fs::create_dir(tree.path("w/.git")).unwrap();
        assert!(old_work_tree(&tree, "w"));
        tree.at("w/.git", |spot| tree.made.came(spot.dir, spot.name));
        assert!(!old_work_tree(&tree, "w"));
        fs::remove_dir(tree.path("w/.git")).unwrap();
        fs::create_dir(tree.path("w/.git")).unwrap();
        assert!(old_work_tree(&tree, "w"), "made by somebody else");
        fs::remove_dir(tree.path("w/.git")).unwrap();
    }
}

#[test]
fn a_work_tree_that_loses_its_old_dot_git_stays_old() {
    let tree = Tree::new();
    tree.write("w/.git", "gitdir: x");
    tree.at("w/.git", |spot| tree.made.goes(spot.dir, spot.name))
        .unwrap();
    fs::remove_file(tree.path("w/.git")).unwrap();
    assert!(old_work_tree(&tree, "w"), "without any");
    tree.write("w/.git", "gitdir: y");
    tree.at("w/.git", |spot| tree.made.came(spot.dir, spot.name));
    assert!(old_work_tree(&tree, "w"), "with a new one");
    fs::rename(tree.path("w"), tree.path("v")).unwrap();
    assert!(old_work_tree(&tree, "v"), "elsewhere");
    // One that was made in this run may come and go.
    tree.write("n/.git", "gitdir: x");
    tree.at("n/.git", |spot| tree.made.came(spot.dir, spot.name));
    tree.at("n/.git", |spot| tree.made.goes(spot.dir, spot.name))
        .unwrap();
    fs::remove_file(tree.path("n/.git")).unwrap();
    assert!(!old_work_tree(&tree, "n"));
    // Nothing there, nothing remembered.
    tree.at("n/.git", |spot| tree.made.goes(spot.dir, spot.name))
        .unwrap();
    assert!(!old_work_tree(&tree, "n"));
}
