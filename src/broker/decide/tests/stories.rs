//! Known attacks as short stories on the model file system.

use super::super::model::{Broker, Fs, Op};
use super::*;

/// Runs a story; every operation must be carried out but the last, which must be refused.
fn refused_at_the_end(set: &RuleSet, host: &[(&str, &str)], ops: &[Op]) {
    let mut fs = Fs::new();
    for (path, content) in host {
        fs.host(path, content);
    }
    let mut broker = Broker {
        set,
        root: "/w",
        fs,
    };
    let (last, first) = ops.split_last().unwrap();
    for op in first {
        assert!(broker.run(op), "{op:?}");
    }
    assert!(!broker.run(last), "{last:?}");
}

fn text(s: &str) -> String {
    s.to_owned()
}

fn write(path: &str) -> Op {
    Op::Write(text(path), b"evil".to_vec())
}

#[test]
fn known_ways_around_a_path_are_closed() {
    let set = RuleSet::new(
        vec![root("/w")],
        vec![exact("/w/a/b"), pattern("**/p/q/r")],
        vec![],
        GitRules::Off,
    );
    let make = |p: &str| Op::Mkdir(text(p));
    let mv = |a: &str, b: &str| Op::Rename(text(a), text(b));
    // A link in place of a component.
    let stories: &[&[Op]] = &[
        &[
            Op::Rmdir(text("/w/a")),
            Op::Symlink(text("/w/a"), text("/w/x")),
        ],
        &[
            Op::Rmdir(text("/w/a")),
            Op::Symlink(text("/w/l"), text("/w/x")),
            mv("/w/l", "/w/a"),
        ],
        &[
            Op::Rmdir(text("/w/a")),
            Op::Symlink(text("/w/l"), text("/w/x")),
            Op::Link(text("/w/l"), text("/w/a")),
        ],
        // A directory that brings the name along.
        &[
            Op::Rmdir(text("/w/a")),
            make("/w/n"),
            write("/w/n/b"),
            mv("/w/n", "/w/a"),
        ],
        &[
            make("/w/n"),
            write("/w/n/b"),
            Op::Exchange(text("/w/n"), text("/w/a")),
        ],
        &[
            make("/w/n"),
            make("/w/n/q"),
            write("/w/n/q/r"),
            mv("/w/n", "/w/p"),
        ],
        &[
            make("/w/p"),
            make("/w/n"),
            write("/w/n/r"),
            mv("/w/n", "/w/p/q"),
        ],
        &[
            make("/w/n"),
            Op::Symlink(text("/w/n/q"), text("/w/x")),
            mv("/w/n", "/w/p"),
        ],
        &[make("/w/p"), Op::Symlink(text("/w/p/q"), text("/w/x"))],
        // Two steps: the prefix first.
        &[
            make("/w/n"),
            make("/w/n/p"),
            make("/w/n/p/q"),
            mv("/w/n/p", "/w/m"),
            write("/w/m/q/r"),
            mv("/w/m", "/w/p"),
        ],
    ];
    for story in stories {
        refused_at_the_end(&set, &[("/w/a/", ""), ("/w/x/", "")], story);
    }
    refused_at_the_end(&set, &[("/w/p/q/r", "old")], &[mv("/w/p", "/w/n")]);
    refused_at_the_end(&set, &[("/w/p/q/r", "old")], &[mv("/w/p/q", "/w/n")]);
    refused_at_the_end(
        &set,
        &[("/w/p/q/r", "old")],
        &[Op::Link(text("/w/p/q/r"), text("/w/n"))],
    );
}

#[test]
fn known_ways_to_a_repository_of_ones_own_are_closed() {
    let set = RuleSet::new(vec![root("/w")], vec![], vec![], GitRules::Preset);
    let make = |p: &str| Op::Mkdir(text(p));
    let mv = |a: &str, b: &str| Op::Rename(text(a), text(b));
    let put = |p: &str, content: &str| Op::Write(text(p), content.as_bytes().to_vec());
    let evil = "[core]\n\tfsmonitor = evil\n";
    let safe = "[core]\n\tbare = true\n";
    let stories: &[&[Op]] = &[
        // A skeleton, whichever entry comes last.
        &[
            make("/w/x/objects"),
            make("/w/x/refs"),
            put("/w/x/config", evil),
            put("/w/x/HEAD", "ref: refs/heads/x\n"),
        ],
        &[
            make("/w/x/objects"),
            put("/w/x/config", evil),
            put("/w/x/HEAD", "ref: refs/heads/x\n"),
            make("/w/x/refs"),
        ],
        &[
            make("/w/x/refs"),
            make("/w/x/hooks"),
            put("/w/x/hooks/pre-commit", "evil"),
            put("/w/x/HEAD.lock", "ref: refs/heads/x\n"),
            mv("/w/x/HEAD.lock", "/w/x/HEAD"),
        ],
        // Made elsewhere under another name.
        &[
            make("/w/g"),
            put("/w/g/config", evil),
            mv("/w/g", "/w/x/.git"),
        ],
        &[
            make("/w/g"),
            put("/w/g/config", evil),
            make("/w/x/.git"),
            Op::Exchange(text("/w/g"), text("/w/x/.git")),
        ],
        // Below the refs of a repository, where HEAD is ordinary.
        &[
            put("/w/.git/refs/x/HEAD", "ref: refs/heads/x\n"),
            put("/w/.git/refs/x/config", evil),
            make("/w/.git/refs/x/objects"),
            make("/w/.git/refs/x/refs"),
        ],
        // A linked git directory whose common directory is no repository by itself, or changes its place.
        &[
            put("/w/x/config", evil),
            make("/w/x/objects"),
            make("/w/x/refs"),
            make("/w/x/worktrees"),
        ],
        &[
            make("/w/x/a"),
            put("/w/x/a/HEAD", "ref: refs/heads/x\n"),
            put("/w/x/a/commondir", "..\n"),
        ],
        &[mv("/w/.git/worktrees/l", "/w/x/l")],
        &[mv("/w/.git/worktrees", "/w/x/worktrees")],
        // The project's own settings go through the gate, whatever becomes of HEAD.
        &[
            Op::Unlink(text("/w/.git/HEAD")),
            put("/w/.git/config", evil),
        ],
        &[
            put("/w/.git/config.lock", evil),
            mv("/w/.git/config.lock", "/w/.git/config"),
        ],
        &[put("/w/safe", safe), mv("/w/safe", "/w/.git/config")],
        &[
            put("/w/.git/config.lock", safe),
            Op::Exchange(text("/w/.git/config.lock"), text("/w/.git/config")),
        ],
        &[Op::Link(text("/w/.git/config"), text("/w/x/alias"))],
        &[Op::Unlink(text("/w/.git/config"))],
        &[mv("/w/.git", "/w/x/git")],
        &[Op::Symlink(text("/w/.git/info"), text("/w/x"))],
        &[
            make("/w/x/info"),
            put("/w/x/info/attributes", "evil"),
            mv("/w/x/info", "/w/.git/info"),
        ],
        &[mv("/w/.git/hooks", "/w/x/hooks")],
        &[
            put("/w/.git/hooks/x.sample", "evil"),
            mv("/w/.git/hooks/x.sample", "/w/.git/hooks/pre-commit"),
        ],
    ];
    for story in stories {
        let mut fs = Fs::new();
        for (path, content) in [
            ("/w/.git/HEAD", "ref: refs/heads/main\n"),
            ("/w/.git/config", safe),
            ("/w/.git/refs/x/", ""),
            ("/w/.git/hooks/pre-push", "the user's"),
            ("/w/.git/worktrees/l/HEAD", "ref: refs/heads/l\n"),
            ("/w/.git/worktrees/l/commondir", "../..\n"),
            ("/w/x/", ""),
        ] {
            fs.host(path, content);
        }
        let git = fs.at(&["w", ".git"]).unwrap();
        fs.project_git_dirs.insert(git);
        let mut broker = Broker {
            set: &set,
            root: "/w",
            fs,
        };
        let (last, first) = story.split_last().unwrap();
        for op in first {
            assert!(broker.run(op), "{op:?} of {story:#?}");
        }
        assert!(!broker.run(last), "{last:?}");
    }
}
