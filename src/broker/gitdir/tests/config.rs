//! The rename of `config.lock` to `config`.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, symlink};
use std::os::unix::net::UnixListener;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::super::look;
use super::*;
use crate::broker::gate::config::MAX_FILE;
use crate::broker::testgit::Git;
use crate::sys::at;

const NAMED: &str = "[core]\n\tbare = false\n[user]\n\tname = n\n";

/// A repository whose configuration is about to be replaced by `new`.
fn tree(old: &str, new: &str) -> Tree {
    let tree = Tree::new();
    tree.write(".git/config", old);
    tree.write(".git/config.lock", new);
    tree
}

/// The file is `content`, and the only one whose name starts with `config`.
#[track_caller]
fn stands(tree: &Tree, content: &str) {
    assert_eq!(tree.read(".git/config"), content);
    let names: Vec<_> = fs::read_dir(tree.path(".git"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|n| n.starts_with("config") || n.contains("ccbox"))
        .collect();
    assert_eq!(names, ["config"]);
}

#[test]
fn a_change_that_may_stand_is_installed_as_a_new_file() {
    let tree = tree(SAFE, NAMED);
    let lock = OpenOptions::new()
        .write(true)
        .open(tree.path(".git/config.lock"))
        .unwrap();
    let old = OpenOptions::new()
        .write(true)
        .open(tree.path(".git/config"))
        .unwrap();
    let inode = tree.inode(".git/config.lock");
    done(tree.config(".git"));
    stands(&tree, NAMED);
    assert_ne!(tree.inode(".git/config"), inode);
    // What the child kept of it leads nowhere.
    for mut kept in [lock, old] {
        kept.seek(SeekFrom::Start(0)).unwrap();
        kept.write_all(EVIL.as_bytes()).unwrap();
        kept.sync_all().unwrap();
    }
    stands(&tree, NAMED);
}

#[test]
fn a_change_that_may_not_stand_changes_nothing() {
    for (old, new, words) in [
        (SAFE, EVIL, "core.fsmonitor=touch planted"),
        (EVIL, SAFE, "core.fsmonitor=touch planted: its removal"),
        (SAFE, "[include]\n\tpath = x\n", "include.path=x"),
        (SAFE, "[core]\n\tbare = \x07\n", "new configuration file"),
        ("[a.b]\n", SAFE, "existing configuration file"),
    ] {
        let tree = tree(old, new);
        let inode = tree.inode(".git/config");
        refused(tree.config(".git"), words);
        assert_eq!(tree.read(".git/config"), old);
        assert_eq!(tree.inode(".git/config"), inode);
        assert_eq!(
            tree.read(".git/config.lock"),
            new,
            "git removes its lock itself"
        );
    }
}

#[test]
fn a_first_configuration_is_compared_with_nothing() {
    let tree = Tree::new();
    tree.write("x/config.lock", SAFE);
    done(tree.config("x"));
    assert_eq!(tree.read("x/config"), SAFE);
    tree.write("y/config.worktree.lock", EVIL);
    refused(
        tree.pass(Gate::Config, "y/config.worktree"),
        "core.fsmonitor",
    );
    assert!(!tree.path("y/config.worktree").exists());
}

#[test]
fn a_lock_that_is_nothing_plain_is_refused_without_waiting() {
    type Make = fn(&Tree);
    let makes: [(&str, Make); 8] = [
        ("not a plain file", |t| {
            mkfifo(&t.path(".git/config.lock"), Mode::S_IRWXU).unwrap();
        }),
        ("not a plain file", |t| {
            t.write("elsewhere", NAMED);
            symlink("../elsewhere", t.path(".git/config.lock")).unwrap();
        }),
        ("not a plain file", |t| {
            fs::create_dir(t.path(".git/config.lock")).unwrap();
        }),
        ("not a plain file", |t| {
            UnixListener::bind(t.path(".git/config.lock")).unwrap();
        }),
        ("a second name", |t| {
            t.write("elsewhere", NAMED);
            fs::hard_link(t.path("elsewhere"), t.path(".git/config.lock")).unwrap();
        }),
        ("a second name", |t| {
            fs::hard_link(t.path(".git/config"), t.path(".git/config.lock")).unwrap();
        }),
        ("not a plain file", |t| {
            t.write(".git/config.lock", vec![b'\n'; MAX_FILE + 1]);
        }),
        ("not a plain file", |t| {
            // A sparse file of a terabyte.
            t.write(".git/config.lock", "");
            let file = OpenOptions::new()
                .write(true)
                .open(t.path(".git/config.lock"))
                .unwrap();
            file.set_len(1 << 40).unwrap();
        }),
    ];
    for (n, (words, make)) in makes.into_iter().enumerate() {
        let tree = Tree::new();
        tree.write(".git/config", SAFE);
        make(&tree);
        let start = std::time::Instant::now();
        refused(tree.config(".git"), words);
        assert!(start.elapsed().as_secs() < 5, "{n}");
        assert_eq!(tree.read(".git/config"), SAFE);
    }
}

#[test]
fn an_existing_file_that_is_nothing_plain_is_refused() {
    type Make = fn(&Tree);
    let makes: [Make; 4] = [
        |t| {
            mkfifo(&t.path(".git/config"), Mode::S_IRWXU).unwrap();
        },
        |t| {
            t.write("elsewhere", SAFE);
            symlink("../elsewhere", t.path(".git/config")).unwrap();
        },
        |t| {
            fs::create_dir(t.path(".git/config")).unwrap();
        },
        |t| {
            t.write(".git/config", vec![b'\n'; MAX_FILE + 1]);
        },
    ];
    for make in makes {
        let tree = Tree::new();
        tree.write(".git/config.lock", NAMED);
        make(&tree);
        let inode = tree.inode(".git/config");
        refused(tree.config(".git"), "existing configuration");
        assert_eq!(tree.inode(".git/config"), inode);
    }
    // A second name of the old file keeps the old content.
    let tree = tree(SAFE, NAMED);
    fs::hard_link(tree.path(".git/config"), tree.path("other")).unwrap();
    done(tree.config(".git"));
    assert_eq!(
        (
            tree.read(".git/config").as_str(),
            tree.read("other").as_str()
        ),
        (NAMED, SAFE)
    );
}

#[test]
fn the_errors_are_those_of_the_rename() {
    let failed = |answer: Result<Passed, GateError>| match answer {
        Err(GateError::Failed(errno)) => errno,
        other => panic!("{other:?}"),
    };
    let tree = Tree::new();
    tree.write(".git/config", SAFE);
    assert_eq!(failed(tree.config(".git")), Errno::ENOENT);
    tree.write(".git/config.lock", NAMED);
    let noreplace = |to: Spot<'_>| {
        pass(
            Gate::Config,
            &Ask {
                noreplace: true,
                ..ask(&tree.set, to)
            },
        )
    };
    assert_eq!(failed(tree.at(".git/config", noreplace)), Errno::EEXIST);
    assert_eq!(tree.read(".git/config"), SAFE);
    fs::remove_file(tree.path(".git/config")).unwrap();
    done(tree.at(".git/config", noreplace));
    stands(&tree, NAMED);
}

#[test]
fn the_mode_is_gits_but_gives_nobody_else_the_right_to_write() {
    for (old, new, want) in [
        (0o644, 0o644, 0o644),
        (0o600, 0o600, 0o600),
        (0o640, 0o666, 0o644),
        (0o664, 0o664, 0o664),
        (0o644, 0o777, 0o755),
        (0o666, 0o4777, 0o777),
        (0o644, 0o400, 0o600),
    ] {
        let tree = tree(SAFE, NAMED);
        tree.mode(".git/config", old);
        tree.mode(".git/config.lock", new);
        done(tree.config(".git"));
        let got = fs::metadata(tree.path(".git/config")).unwrap().mode() & 0o7777;
        assert_eq!(got, want, "{old:o} {new:o}");
    }
}

/// The content changes all the time while it is read; what is installed was judged.
#[test]
fn a_lock_that_changes_while_it_is_read_installs_nothing_unjudged() {
    let good = format!("{SAFE}# {}\n", "x".repeat(60_000));
    let evil = format!("{EVIL}# {}\n", "y".repeat(good.len() - EVIL.len() - 3));
    assert_eq!(good.len(), evil.len());
    let tree = Tree::new();
    for _ in 0..300 {
        tree.write(".git/config", &good);
        tree.write(".git/config.lock", &good);
        let lock = OpenOptions::new()
            .write(true)
            .open(tree.path(".git/config.lock"))
            .unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    lock.write_all_at(evil.as_bytes(), 0).unwrap();
                    lock.write_all_at(good.as_bytes(), 0).unwrap();
                }
            });
            match tree.config(".git") {
                Ok(_) | Err(GateError::Refused(_)) => {}
                Err(e) => panic!("{e}"),
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(!tree.read(".git/config").contains("fsmonitor"));
    }
}

/// Somebody who holds no lock of ours puts other files under the name: none of them gets in unjudged.
#[test]
fn a_lock_that_is_replaced_between_read_and_install_is_not_installed() {
    // As in the broker: gates hold the lock alone, everything else the child asks for shares it.
    let lock = RwLock::new(());
    let tree = Tree::new();
    tree.write("good", NAMED);
    tree.write("evil", EVIL);
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut n = 0_u32;
            while !stop.load(Ordering::Relaxed) {
                n += 1;
                let source = tree.path(if n.is_multiple_of(3) { "good" } else { "evil" });
                let copy = tree.path("copy");
                let _ = fs::copy(source, &copy);
                let _shared = lock.read();
                let _ = fs::rename(copy, tree.path(".git/config.lock"));
            }
        });
        let mut hits = 0;
        for _ in 0..300 {
            tree.write(".git/config", SAFE);
            let passed = {
                let _alone = lock.write();
                tree.config(".git")
            };
            match passed {
                // The name came back before ours was made, or is just missing.
                Ok(_)
                | Err(GateError::Failed(Errno::EEXIST | Errno::ENOENT) | GateError::Refused(_)) => {
                }
                Err(_) => hits += 1,
            }
            hits += usize::from(tree.read(".git/config").contains("fsmonitor"));
        }
        // Before any assertion: the other thread would never end.
        stop.store(true, Ordering::Relaxed);
        assert_eq!(hits, 0);
    });
    tree.write(".git/config.lock", NAMED);
    done(tree.config(".git"));
    assert_eq!(tree.read(".git/config"), NAMED);
}

/// The one way in which the name that is renamed could be another's than the one that was made.
#[test]
fn a_lock_of_the_host_is_left_alone() {
    let tree = Tree::new();
    tree.write("x/config.lock", "of the host");
    tree.write("x/config", SAFE);
    assert_eq!(
        super::super::install::install(hold(&tree.path("x")), b"config", b"new", 0o644),
        Err(Errno::EEXIST)
    );
    assert_eq!(tree.read("x/config.lock"), "of the host");
    assert_eq!(tree.read("x/config"), SAFE);
}

#[test]
fn looks_do_not_follow_and_do_not_wait() {
    let tree = Tree::new();
    let dir = File::open(tree.path("")).unwrap();
    assert!(matches!(
        look::file(&dir, b"x").unwrap(),
        look::Look::Absent
    ));
    tree.write("x", "1");
    assert!(matches!(look::file(&dir, b"x").unwrap(), look::Look::Plain(p) if p.bytes == b"1"));
    assert_eq!(look::list(&dir, "x").unwrap(), look::Listing::Unusual);
    assert_eq!(look::list(&dir, "y").unwrap(), look::Listing::Absent);
    fs::create_dir(tree.path("d")).unwrap();
    assert_eq!(look::list(&dir, "d").unwrap(), look::Listing::Names(vec![]));
    symlink("d", tree.path("l")).unwrap();
    assert_eq!(look::list(&dir, "l").unwrap(), look::Listing::Unusual);
}

/// `git sparse-checkout` turns a second file of settings on: not where one holds what runs something.
#[test]
fn worktree_settings_that_run_something_are_not_turned_on() {
    const ON: &str = "[core]\n\tbare = false\n[extensions]\n\tworktreeConfig = true\n";
    const SPARSE: &str = "[core]\n\tsparseCheckout = true\n";
    type Plant = fn(&Tree);
    let plants: [(bool, Plant); 8] = [
        (true, |_| {}),
        (true, |t| t.write(".git/config.worktree", SPARSE)),
        (true, |t| {
            t.write(".git/worktrees/a/config.worktree", SPARSE);
        }),
        (true, |t| t.write(".git/worktrees/file", "")),
        (false, |t| t.write(".git/config.worktree", EVIL)),
        (false, |t| {
            t.write("x", SPARSE);
            symlink("../x", t.path(".git/config.worktree")).unwrap();
        }),
        (false, |t| {
            t.write(".git/worktrees/a/HEAD", "");
            t.write(".git/worktrees/b/config.worktree", EVIL);
        }),
        (false, |t| {
            t.write("y/HEAD", "");
            fs::create_dir(t.path(".git/worktrees")).unwrap();
            symlink("../../y", t.path(".git/worktrees/a")).unwrap();
        }),
    ];
    for (n, (ok, plant)) in plants.into_iter().enumerate() {
        for (old, new) in [(SAFE, ON), (ON, SAFE)] {
            let tree = tree(old, new);
            plant(&tree);
            if ok {
                done(tree.config(".git"));
            } else {
                refused(tree.config(".git"), "extensions.worktreeconfig=true");
            }
            assert_eq!(tree.read(".git/config") == new, ok, "{n}");
        }
    }
}

/// Every kind of repository of every installed git: git writes a change, the gate installs it, git reads it.
#[test]
fn what_git_writes_is_installed_and_read_by_git() {
    for git in Git::all() {
        for (n, kind) in [
            &["-b", "main"][..],
            &["--bare"],
            &["--object-format=sha256"],
            &["--ref-format=reftable"],
        ]
        .iter()
        .enumerate()
        {
            let dir = format!("r{n}");
            let mut args = vec!["init", "-q"];
            args.extend_from_slice(kind);
            args.push(&dir);
            git.run(".", &args);
            let git_dir = if kind.contains(&"--bare") {
                dir.clone()
            } else {
                format!("{dir}/.git")
            };
            // This git may not know the format.
            let config = git.dir().join(&git_dir).join("config");
            let Ok(before) = fs::read(&config) else {
                continue;
            };
            git.run(&dir, &["config", "user.name", "A \"B\" #1"]);
            let after = fs::read(&config).unwrap();
            let tree = Tree::new();
            tree.write("r/.git/config", &before);
            tree.write("r/.git/config.lock", &after);
            done(tree.config("r/.git"));
            assert_eq!(
                git.list(tree.read("r/.git/config").as_bytes()),
                git.list(&after)
            );
            // And the same with a key that runs something.
            git.run(&dir, &["config", "core.hooksPath", "/x"]);
            tree.write("r/.git/config.lock", fs::read(&config).unwrap());
            refused(tree.config("r/.git"), "core.hookspath=/x");
        }
    }
}

/// Makes a configuration file by hand and writes into it.
fn staged(tree: &Tree, bytes: &[u8]) -> Staged {
    let Passed::Stage(fd, staged) = tree.pass(Gate::EmptyConfig, ".git/config").unwrap() else {
        panic!("not staged");
    };
    // As the child gets it.
    let file = at::open_here(&at::own_name(fd.as_fd()), libc::O_WRONLY).unwrap();
    drop(fd);
    assert!(staged.is_written());
    File::from(file).write_all(bytes).unwrap();
    assert!(!staged.is_written());
    staged
}

fn install(tree: &Tree, staged: &Staged) -> Result<(), GateError> {
    let dir = Dir::new(&tree.set, 0, &[b".git"]).unwrap();
    staged.install(&tree.set, &dir)
}

/// What libgit2 does: the file first, empty, and then by its lock.
#[test]
fn a_configuration_made_first_is_empty_until_its_lock_comes() {
    let tree = Tree::new();
    fs::create_dir(tree.path(".git")).unwrap();
    let staged = staged(&tree, b"");
    stands(&tree, "");
    let mode = fs::metadata(tree.path(".git/config")).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o644);
    tree.write(".git/config.lock", NAMED);
    done(tree.config(".git"));
    stands(&tree, NAMED);
    install(&tree, &staged).unwrap();
    stands(&tree, NAMED);
}

/// What cp and tar do: they write into the file they made.
#[test]
fn a_configuration_written_by_hand_is_judged_when_it_is_whole() {
    let tree = Tree::new();
    fs::create_dir(tree.path(".git")).unwrap();
    let first = staged(&tree, NAMED.as_bytes());
    stands(&tree, "");
    install(&tree, &first).unwrap();
    stands(&tree, NAMED);
    // Only into the file that was made for it.
    fs::remove_file(tree.path(".git/config")).unwrap();
    let second = staged(&tree, NAMED.as_bytes());
    fs::remove_file(tree.path(".git/config")).unwrap();
    install(&tree, &second).unwrap();
    assert!(!tree.path(".git/config").exists());
    let third = staged(&tree, EVIL.as_bytes());
    refused(
        install(&tree, &third).map(|()| Passed::Done),
        "core.fsmonitor",
    );
    stands(&tree, "");
    install(&tree, &second).unwrap();
    stands(&tree, "");
}
