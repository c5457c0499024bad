//! Tools that walk over a home directory and a repository with hidden things in it: they go on, fail as with any unreadable file, and show
//! no content.

use std::os::unix::fs::PermissionsExt;

use super::read_covers::served;
use super::{Caller, Site, callers, checked, sh};

/// A home with secrets, and a repository whose tracked `secret.txt` and directory `vault` are hidden by what `hidden` says.
fn place(caller: Caller, hidden: &str) -> Site {
    let site = Site::new(caller);
    for dir in ["home/.ssh", "home/docs", "ws/repo", "ws/repo/vault"] {
        std::fs::create_dir(site.path(dir)).unwrap();
        site.give(&site.path(dir));
    }
    for file in [
        "home/.ssh/id",
        "home/.netrc",
        "ws/repo/secret.txt",
        "ws/repo/vault/in",
    ] {
        site.file(file, "SECRET\n");
    }
    for file in ["home/docs/letter", "home/note", "ws/repo/open.txt"] {
        site.file(file, "FREE\n");
    }
    let t = site.dir.path().to_str().unwrap();
    let spec = site.spec("").replace(
        &format!("deny_read = [\"{t}/hidden\"]"),
        &format!("deny_read = [{}]", hidden.replace('@', t)),
    );
    site.file("spec.toml", &spec);
    // Older than the index, so that git believes the metadata (racy-git of git's technical documentation).
    let make = "cd repo && touch -d '1 hour ago' secret.txt open.txt vault/in && git init -q && git config user.name n && git config user.email e@example.org && git add -A && git commit -qm first && touch -d '1 minute ago' .git/index && git status --short; echo __done__";
    let mut command = site.outside(&["sh", "-c", make]);
    let output = command.output().unwrap();
    checked(&command, &output);
    site
}

/// Standard output and standard error of a script inside, which must come to its end.
fn inside(site: &Site, script: &str) -> (String, String) {
    let mut command = site.inside(&sh(script));
    let output = command.output().unwrap();
    let ran = checked(&command, &output);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!ran.stdout.contains("SECRET"), "{script}: {}", ran.stdout);
    (ran.stdout.replace("__done__\n", ""), stderr)
}

#[test]
fn listing_a_home_directory_is_no_read() {
    for caller in callers() {
        let site = place(caller, "\"@/hidden\"");
        let list = "ls -lA ~; stat -c '%n %s %a %U' ~/.ssh ~/.netrc; test -e ~/.netrc && test -d ~/.ssh; echo $?; find ~ -maxdepth 1 -newer /nothing 2>/dev/null; du -s ~/note | cut -f1 >/dev/null";
        let (found, errors) = inside(&site, list);
        let mut command = site.outside(&["sh", "-c", list]);
        let shown = String::from_utf8(command.output().unwrap().stdout).unwrap();
        // What ccbox mounts into a home that is shown is not the host's affair.
        let of_home = |text: &str| -> Vec<String> {
            text.lines()
                .filter(|l| {
                    !l.contains(".cache") && !l.contains(".local") && !l.starts_with("total")
                })
                .map(str::to_owned)
                .collect()
        };
        if served(&site) {
            assert_eq!(of_home(&found), of_home(&shown), "{caller:?}");
        } else {
            assert!(
                found.contains(".ssh") && found.contains(".netrc"),
                "{found}"
            );
        }
        assert!(!errors.contains("denied"), "{errors}");
    }
}

#[test]
fn tools_that_walk_a_home_directory_take_what_is_free() {
    for caller in callers() {
        let site = place(caller, "\"@/hidden\"");
        for (tool, code) in [
            ("find ~ -type f -size -9 -exec cat {} + | sort -u", None),
            ("tar -C ~ -cf - . 2>/dev/null | tar -xOf - ./note", None),
            ("tar -C ~ -cf /tmp/home.tar .", Some("2")),
            ("grep -rh FREE ~", Some("2")),
            ("cp -r ~ copied; cat copied/note", None),
            ("cp -r ~ copied", Some("1")),
            ("cat ~/note ~/.ssh/id", Some("1")),
            ("wc -c ~/.netrc ~/note", Some("1")),
            ("(cd ~/.ssh) 2>/dev/null", Some("2")),
        ] {
            let (out, errors) = inside(&site, &format!("{tool}; echo code=$?; rm -rf copied"));
            match code {
                None => assert!(out.contains("FREE"), "{tool}: {out} {errors}"),
                Some(_) if tool.starts_with('(') => assert!(!out.contains("code=0"), "{out}"),
                Some(code) => {
                    let line = format!("code={code}");
                    assert!(out.lines().any(|l| l == line), "{tool}: {out} {errors}");
                    assert!(errors.contains("Permission denied"), "{tool}: {errors}");
                }
            }
        }
        let (out, errors) = inside(&site, "rsync -a ~/ copied; echo code=$?; cat copied/note");
        assert!(
            out.contains("code=23") && out.contains("FREE"),
            "{out} {errors}"
        );
    }
}

/// One by one against the same tool outside, where the same file and directory are the caller's but closed by their mode.
#[test]
fn tools_meet_what_they_meet_where_a_mode_forbids() {
    // Modes do not concern root.
    for caller in callers().into_iter().filter(|c| *c == Caller::User) {
        let site = place(caller, "\"@/hidden\"");
        let home = site.path("home");
        let closed = [home.join(".ssh"), home.join(".netrc")];
        for tool in [
            "ls -1A ~ ~/docs ~/.ssh",
            "find ~ | sort",
            "find ~ -type f -exec cat {} + | sort",
            "du -a ~ | cut -f2 | sort",
            "grep -r FREE ~ | sort",
            "tar -C ~ --exclude=.cache --exclude=.local --exclude=.config -cf walked.tar .; echo $?; tar -tf walked.tar | sort",
            "cp -r ~ walked; echo $?; find walked | sort",
            "rsync -a --exclude=.cache --exclude=.local --exclude=.config ~/ walked; echo $?; find walked | sort",
            "cat ~/.netrc ~/note; echo $?",
            "wc -l ~/.netrc; echo $?",
            "head -c 1 ~/.ssh/id; echo $?",
            "bash -c 'cd ~/.ssh'; echo $?",
            "python3 -c 'import os; print([sorted(f) for d, _, f in os.walk(os.environ[\"HOME\"] + \"/docs\")], os.access(os.environ[\"HOME\"] + \"/.netrc\", os.R_OK))'",
        ] {
            let script = format!("({tool}) 2>&1; rm -rf walked walked.tar; echo __done__");
            let (found, _) = inside(&site, &script);
            for path in &closed {
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o000)).unwrap();
            }
            let output = site.outside(&["sh", "-c", &script]).output().unwrap();
            for (path, mode) in closed.iter().zip([0o755, 0o644]) {
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
            }
            // What ccbox mounts into a home that is shown is not the host's affair.
            let own = [".cache", ".local", ".config", "__done__"];
            let lines = |text: &str| -> Vec<String> {
                let other = text.lines().filter(|l| !own.iter().any(|o| l.contains(o)));
                other.map(str::to_owned).collect()
            };
            let outside = String::from_utf8_lossy(&output.stdout).into_owned();
            let refused = ["denied", "False"];
            assert!(
                refused.iter().any(|word| outside.contains(word)),
                "{tool}: {outside}"
            );
            assert_eq!(lines(&found), lines(&outside), "{tool}");
        }
    }
}

/// A tracked file that is hidden looks unmodified, and adding everything fails as with any file one may not read.
#[test]
fn git_takes_a_hidden_tracked_file_for_unmodified() {
    for caller in callers() {
        for (hidden, whole) in [
            ("\"@/ws/repo/secret.txt\", \"@/ws/repo/vault\"", true),
            ("\"@/ws/repo/secret.*\", \"@/ws/repo/vault/*\"", false),
        ] {
            let site = place(caller, hidden);
            let (out, errors) = inside(&site, "cd repo && git status --short && echo clean");
            // A placeholder has not the metadata of what it hides. In a pattern's way there is nothing but the name.
            let told = if whole && !served(&site) {
                " M secret.txt\nclean\n"
            } else {
                "clean\n"
            };
            assert_eq!(out, told, "{caller:?} {hidden}: {errors}");
            let script = "cd repo && echo more >> open.txt && git commit -qm second open.txt && git log --format=%s && git show --stat --format= HEAD | tail -1; touch secret.txt; git diff --stat; echo after";
            let (out, errors) = inside(&site, script);
            assert!(
                out.starts_with("second\nfirst\n 1 file changed, 1 insertion(+)\n"),
                "{caller:?} {hidden}: {out} {errors}"
            );
            // The host changes it: now git has to read it.
            site.file("ws/repo/secret.txt", "SECRET changed\n");
            let (out, errors) = inside(
                &site,
                "cd repo && git add -A; echo code=$?; git status --short | grep -v vault",
            );
            assert!(
                out.contains("code=128") || out.contains("code=1"),
                "{out} {errors}"
            );
            assert!(
                errors.contains("secret.txt") && errors.contains("Permission denied"),
                "{errors}"
            );
            assert_eq!(site.read("ws/repo/secret.txt"), "SECRET changed\n");
        }
    }
}
