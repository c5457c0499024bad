use super::super::testgit::Git;
use super::*;

const BASE: &[u8] =
    b"[core]\n\tbare = false\n\thooksPath = mine\n[alias]\n\ta = status\n\ta = log\n";

fn refusal(old: &[u8], new: &[u8]) -> String {
    compare(old, new).unwrap_err().to_string()
}

#[test]
fn what_is_listed_may_come_go_and_change() {
    let change = |new: &str| compare(BASE, new.as_bytes());
    assert_eq!(change(std::str::from_utf8(BASE).unwrap()), Ok(()));
    assert_eq!(
        change(
            "[core]\n\thooksPath = mine\n\tbare = true\n[user]\n\tname = n\n[alias]\n\ta = status\n\ta = log\n"
        ),
        Ok(())
    );
    // Layout, comments and the spelling of names are nothing.
    assert_eq!(
        change("# c\n[CORE]\r\n hookspath=\"mine\" ; x\r\n[alias]a=status\n[alias]\nA = log"),
        Ok(())
    );
    assert_eq!(compare(b"", b"[core]\n\tbare = false\n"), Ok(()));
    assert_eq!(compare(b"[user]\n\tname = n\n", b""), Ok(()));
}

#[test]
fn what_is_not_listed_stays_as_it_is() {
    for (old, new, want) in [
        (
            &b""[..],
            &b"[core]\n\tfsmonitor = touch x\n"[..],
            "git config change refused: core.fsmonitor=touch x: not on the list of keys that cannot run a program",
        ),
        (
            b"",
            b"[remote \"o\"]\n\turl = ext::x\n",
            "git config change refused: remote.o.url=ext::x: a value that could run a program or point elsewhere",
        ),
        (
            BASE,
            b"[core]\n\tbare = false\n[alias]\n\ta = status\n\ta = log\n",
            "git config change refused: core.hookspath=mine: its removal could change what runs",
        ),
        (
            BASE,
            b"[core]\n\thooksPath = theirs\n[alias]\n\ta = status\n\ta = log\n",
            "git config change refused: core.hookspath=theirs: not on the list of keys that cannot run a program",
        ),
        // The last of two values wins.
        (
            BASE,
            b"[core]\n\thooksPath = mine\n[alias]\n\ta = log\n\ta = status\n",
            "git config change refused: alias.a=status: its new place among such keys could change what runs",
        ),
        (
            BASE,
            b"[core]\n\thooksPath = mine\n[alias]\n\ta = status\n\ta = log\n\ta = log\n",
            "git config change refused: alias.a=log: not on the list of keys that cannot run a program",
        ),
        (
            b"",
            b"[core]\n\tbare = x\x01\n",
            "git change refused: unusual syntax in the new configuration file, line 2: a control character",
        ),
        (
            b"[a.b]\n",
            b"",
            "git change refused: unusual syntax in the existing configuration file, line 1: an unusual character in a name",
        ),
        (
            b"",
            b"[core]\n\tpager\n",
            "git config change refused: core.pager: not on the list of keys that cannot run a program",
        ),
        (
            b"",
            b"[alias \"\x1b]0;\xff\"]\nx = 1\n",
            "git change refused: unusual syntax in the new configuration file, line 1: a control character",
        ),
        (
            b"",
            b"[alias \"\xff\"]\nx = \xe9\n",
            "git config change refused: alias.\\xff.x=\\xe9: not on the list of keys that cannot run a program",
        ),
    ] {
        assert_eq!(refusal(old, new), want);
    }
}

#[test]
fn a_long_file_of_refused_keys_is_judged_in_linear_time() {
    let body = "a=\n".repeat(config::MAX_FILE / 3 - 10);
    let old = format!("[x]\n{body}");
    let new = format!("[x]\nb=\n{body}");
    assert!(refusal(old.as_bytes(), new.as_bytes()).contains("x.b="));
    assert!(refusal(old.as_bytes(), b"").contains("x.a="));
}

/// Everyday work with every installed git: each step's change of each configuration file may stand, starting from nothing.
#[test]
fn everyday_git_passes_the_gate() {
    let steps: &[(&str, &[&str])] = &[
        (".", &["init", "-q", "-b", "main", "a"]),
        ("a", &["commit", "-q", "--allow-empty", "-m", "one"]),
        (
            "a",
            &[
                "-c",
                "core.editor=printf 'a\\n\\tb; \"c\"\\n' >",
                "branch",
                "--edit-description",
            ],
        ),
        (".", &["clone", "-q", "a", "b"]),
        (".", &["clone", "-q", "--mirror", "a", "m.git"]),
        (
            ".",
            &[
                "clone",
                "-q",
                "--bare",
                "--single-branch",
                "--no-tags",
                "a",
                "bare.git",
            ],
        ),
        (
            ".",
            &["clone", "-q", "--shared", "--no-checkout", "a", "sh"],
        ),
        (
            ".",
            &[
                "clone",
                "-q",
                "--reference",
                "a",
                "file:///proc/self/cwd/a",
                "ref",
            ],
        ),
        (
            ".",
            &[
                "clone",
                "-q",
                "--depth=1",
                "--filter=blob:none",
                "file:///proc/self/cwd/a",
                "part",
            ],
        ),
        (".", &["init", "-q", "--object-format=sha256", "s"]),
        (".", &["init", "-q", "--ref-format=reftable", "r"]),
        ("s", &["commit", "-q", "--allow-empty", "-m", "one"]),
        (
            "b",
            &[
                "checkout",
                "-q",
                "-b",
                "topic/\u{e4}#1",
                "--track",
                "origin/main",
            ],
        ),
        ("b", &["branch", "-u", "origin/main"]),
        (
            "b",
            &["push", "-q", "-u", "origin", "HEAD:refs/heads/pushed"],
        ),
        ("b", &["pull", "-q", "--rebase", "origin", "main"]),
        ("b", &["remote", "add", "-f", "-t", "main", "up", "../a"]),
        ("b", &["remote", "add", "--mirror=push", "mir", "../m.git"]),
        ("b", &["remote", "set-url", "--push", "up", "git@h:o/r.git"]),
        ("b", &["remote", "set-branches", "--add", "up", "x"]),
        ("b", &["remote", "rename", "up", "down"]),
        ("b", &["branch", "-m", "renamed"]),
        ("b", &["branch", "-c", "copied"]),
        ("b", &["submodule", "add", "-q", "../a", "libs/sub"]),
        (
            "b",
            &[
                "submodule",
                "add",
                "-q",
                "--name",
                "named",
                "-b",
                "main",
                "../a",
                "other",
            ],
        ),
        ("b", &["commit", "-q", "-m", "subs"]),
        ("b", &["submodule", "deinit", "-q", "-f", "other"]),
        ("b", &["submodule", "update", "-q", "--init"]),
        ("b", &["submodule", "sync", "-q"]),
        ("b", &["worktree", "add", "-q", "../w"]),
        ("w", &["submodule", "update", "-q", "--init"]),
        ("w", &["branch", "-u", "origin/main"]),
        ("b", &["worktree", "remove", "--force", "--force", "../w"]),
        ("b", &["stash", "-q"]),
        ("b", &["gc", "-q"]),
        ("b", &["config", "user.name", "N \"x\" #1"]),
        ("b", &["config", "--unset", "user.name"]),
        ("b", &["config", "pull.rebase", "true"]),
        ("b", &["remote", "remove", "down"]),
        ("b", &["branch", "-D", "copied"]),
        ("b", &["sparse-checkout", "set", "libs"]),
        ("b", &["sparse-checkout", "disable"]),
        (".", &["clone", "-q", "--recurse-submodules", "b", "c"]),
        ("c", &["bisect", "start"]),
        ("c", &["notes", "add", "-m", "n"]),
    ];
    for git in Git::all() {
        let mut before: HashMap<std::path::PathBuf, Vec<u8>> = HashMap::new();
        let mut changes = 0;
        for (dir, args) in steps {
            // An init that this git does not know leaves no directory.
            if !git.dir().join(dir).exists() {
                continue;
            }
            git.run(dir, args);
            for path in git.configs() {
                let new = std::fs::read(&path).unwrap();
                let old = before.get(&path).cloned().unwrap_or_default();
                if new == old {
                    continue;
                }
                changes += 1;
                let below = path.parent().unwrap().strip_prefix(git.dir()).unwrap();
                let components: Vec<&[u8]> = below
                    .iter()
                    .map(std::os::unix::ffi::OsStrExt::as_bytes)
                    .collect();
                let place = Place {
                    git_dir: Some(&components),
                    roots: &[&[]],
                    plain_worktree_settings: true,
                };
                assert_eq!(
                    compare_at(&place, &old, &new),
                    Ok(()),
                    "{args:?} {}",
                    path.display()
                );
                before.insert(path, new);
            }
        }
        assert!(changes > 30, "{changes}");
    }
}

proptest::proptest! {
    /// A file may always be replaced by itself, and a refused key never gets in, whatever stands around it.
    #[test]
    fn a_refused_key_never_gets_in(
        mut lines in proptest::collection::vec(proptest::prelude::prop::sample::select(vec![
            "[core]", "[user]", "bare = true", "name = x", "hooksPath = y", "[alias]", "a = b", "# c",
        ]), 0..8),
        at in 0_usize..8,
    ) {
        let file = |lines: &[&str]| format!("[x]\n{}\n", lines.join("\n"));
        let old = file(&lines);
        proptest::prop_assert_eq!(compare(old.as_bytes(), old.as_bytes()), Ok(()));
        lines.insert(at.min(lines.len()), "fsmonitor = evil");
        proptest::prop_assert!(compare(old.as_bytes(), file(&lines).as_bytes()).is_err());
    }
}
