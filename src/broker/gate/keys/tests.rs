//! Each class of keys, by `git config`-like names; the value after the first `=`.

mod review;

use super::*;
use crate::broker::testgit::Git;

/// `section.sub.key=value` as an entry. The key is after the last dot before `=`; `!` instead of `=` is no value.
fn entry(text: &str) -> Entry {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.as_bytes().to_vec())),
        None => (text, None),
    };
    let (section, rest) = name.split_once('.').unwrap();
    let (subsection, key) = match rest.rsplit_once('.') {
        Some((sub, key)) => (Some(sub.as_bytes().to_vec()), key),
        None => (None, rest),
    };
    Entry {
        section: section.to_ascii_lowercase(),
        subsection,
        key: key.to_ascii_lowercase(),
        value,
    }
}

fn refused(list: &[&str]) {
    for text in list {
        assert!(
            judge(&entry(text), &Place::default()).is_err(),
            "allowed: {text}"
        );
    }
}

fn allowed(list: &[&str]) {
    for text in list {
        assert_eq!(judge(&entry(text), &Place::default()), Ok(()), "{text}");
    }
}

#[test]
fn the_table_is_lower_case_and_free_of_duplicates() {
    let mut seen = std::collections::HashSet::new();
    for group in TABLE {
        if let Keys::Listed(keys) = group.keys {
            for (key, _) in keys {
                assert_eq!(*key, key.to_ascii_lowercase(), "{key}");
                assert!(
                    seen.insert((group.section, format!("{:?}", group.sub), *key)),
                    "{key}"
                );
            }
        }
        assert_eq!(group.section, group.section.to_ascii_lowercase());
    }
}

#[test]
fn keys_that_run_programs_are_refused() {
    refused(&[
        "core.hooksPath=x",
        "core.fsmonitor=touch x",
        // A git before 2.36 runs the program `true`.
        "core.fsmonitor=true",
        "core.sshCommand=x",
        "core.editor=x",
        "core.pager=x",
        "core.askPass=x",
        "core.gitProxy=x",
        "core.alternateRefsCommand=x",
        "core.attributesFile=x",
        "core.excludesFile=x",
        "core.sharedRepository=0666",
        "core.notesRef=refs/notes/x",
        "core.protectNTFS=false",
        "sequence.editor=x",
        "alias.st=!x",
        "alias.st=status",
        "filter.lfs.clean=x",
        "filter.lfs.smudge=x",
        "filter.lfs.process=x",
        "filter.lfs.required=true",
        "diff.external=x",
        "diff.x.command=x",
        "diff.x.textconv=x",
        "diff.tool=x",
        "difftool.x.cmd=x",
        "mergetool.x.cmd=x",
        "mergetool.x.path=x",
        "merge.x.driver=x",
        "merge.x.name=x",
        "merge.x.recursive=x",
        "merge.default=x",
        "merge.tool=../../x",
        "merge.guitool=x",
        "pull.octopus=x",
        "pull.twohead=x",
        "branch.main.mergeOptions=-s x",
        "gpg.program=x",
        "gpg.ssh.program=x",
        "gpg.ssh.defaultKeyCommand=x",
        "gpg.format=ssh",
        "credential.helper=!x",
        "credential.https://h.helper=x",
        "gc.recentObjectsHook=x",
        "uploadpack.packObjectsHook=x",
        "interactive.diffFilter=x",
        "pager.log=x",
        "browser.x.cmd=x",
        "man.x.cmd=x",
        "trailer.x.cmd=x",
        "trailer.x.command=x",
        "tar.x.command=x",
        "sendemail.smtpServer=/x",
        "sendemail.toCmd=x",
        "guitool.x.cmd=x",
        "hook.x.command=x",
        "lfs.customtransfer.x.path=x",
        "rebase.instructionFormat=%s%nexec x",
        "submodule.x.update=!x",
        "remote.x.uploadpack=x",
        "remote.x.receivepack=x",
        "remote.x.vcs=ext",
        "init.templateDir=x",
    ]);
}

#[test]
fn keys_that_redirect_or_lower_checks_are_refused() {
    refused(&[
        "include.path=x",
        "includeIf.gitdir:/.path=x",
        "url.ext::x.insteadOf=https://",
        "url.x.pushInsteadOf=https://",
        "http.proxy=x",
        "http.sslVerify=false",
        "http.sslCert=x",
        "http.https://h.extraHeader=x",
        "http.cookieFile=x",
        "protocol.ext.allow=always",
        "protocol.allow=always",
        "remote.x.proxy=x",
        "remote.x.proxyAuthMethod=x",
        "remote.x.serverOption=x",
        "remotes.default=ext::x",
        "push.pushOption=merge_request.create",
        "push.gpgSign=false",
        "commit.gpgSign=false",
        "tag.gpgSign=false",
        "merge.verifySignatures=false",
        "fetch.fsckObjects=false",
        "fetch.fsck.skipList=x",
        "transfer.fsckObjects=false",
        "receive.denyCurrentBranch=ignore",
        "fetch.bundleURI=https://x",
        "fetch.bundleCreationToken=1",
        "gc.repackFilter=blob:none",
        "gc.repackFilterTo=/x",
        "extensions.worktreeConfig=true",
        "extensions.unknown=1",
        "extensions.refStorage=reftable:///x",
        "user.signingKey=x",
        "safe.directory=*",
        "log.mailmap=x",
        "mailmap.file=x",
        "blame.ignoreRevsFile=x",
        "format.pretty=x",
        "commit.template=/etc/passwd",
        "no-such-section.key=1",
        // Right key, wrong place.
        "core.x.bare=true",
        "branch.main.sort=refname",
        "user.x.name=n",
        "merge.x.ff=only",
        "advice.x.y=true",
        "pull.x.rebase=true",
    ]);
}

#[test]
fn values_that_are_not_plain_are_refused() {
    refused(&[
        "core.bare=maybe",
        "core.repositoryformatversion=2",
        "core.repositoryformatversion",
        "core.compression=1;x",
        "pull.rebase=exec",
        "push.default=x",
        "gc.pruneExpire=$(x)",
        "color.ui=\u{1b}[31m",
        "color.diff.old=%(x)",
        "branch.x.merge=--upload-pack=x",
        "branch.x.merge=refs/heads/../x",
        "branch.x.merge",
        "branch.x.remote=ext::sh -c x",
        "branch.x.remote=--upload-pack=x",
        "branch.x.pushRemote=fd::7",
        "remote.pushDefault=ext::x",
        "remote.x.fetch=--upload-pack=x",
        "remote.x.tagOpt=--upload-pack=x",
        "remote.x.partialCloneFilter=--x",
        "remote.x.followRemoteHEAD=warn-if-not--x",
        "submodule.x.update=exec",
        "submodule.../../x.url=https://h/x",
        "submodule.-x.url=https://h/x",
        "submodule./x.url=https://h/x",
        "submodule.a/.GIT/x.url=https://h/x",
        "user.name=a\nb",
        "init.defaultBranch=-x",
        "branch.sort=%(x)",
        "advice.x=x",
    ]);
}

#[test]
fn urls_are_plain_transports() {
    for url in [
        "https://h/x.git",
        "http://u:p@h:8080/x",
        "ssh://git@h/x",
        "git+ssh://h/x",
        "git://h/x",
        "file:///x/y",
        "git@github.com:o/r.git",
        "h:x",
        "../x",
        "./x",
        "/x/y z",
        "x",
        ".",
        "origin",
    ] {
        allowed(&[
            &format!("remote.o.url={url}"),
            &format!("remote.o.pushurl={url}"),
            &format!("submodule.o.url={url}"),
            &format!("branch.b.remote={url}"),
        ]);
    }
    for url in [
        "",
        "-x",
        "--upload-pack=x",
        "ext::sh -c x",
        "fd::17",
        "https::https://h/x",
        "x::y",
        "ext://x",
        "hg://h/x",
        "HTTPS://h/x",
        "ftp://h/x",
        "ssh://-oProxyCommand=x/y",
        "ssh://u@-oProxyCommand=x/y",
        "ssh://-u@h/y",
        "-oProxyCommand=x:y",
        "u@-oProxyCommand=x:y",
        "h:-x",
        "https://h/x\ny",
        "x\u{7f}",
    ] {
        refused(&[
            &format!("remote.o.url={url}"),
            &format!("remote.o.pushurl={url}"),
            &format!("submodule.o.url={url}"),
            &format!("branch.b.remote={url}"),
        ]);
        // A remote without a URL is its name.
        refused(&[&format!("remote.{url}.fetch=refs/heads/*:refs/remotes/o/*")]);
    }
}

#[test]
fn ordinary_settings_are_allowed() {
    allowed(&[
        "core.bare",
        "core.bare=false",
        "core.FileMode=TRUE",
        "core.logAllRefUpdates=always",
        "core.autocrlf=input",
        "core.abbrev=12",
        "core.compression=-1",
        "extensions.objectFormat=sha256",
        "extensions.refStorage=reftable",
        "extensions.partialClone=origin",
        "branch.Topic/a.b.remote=origin",
        "branch.x.merge=refs/heads/x",
        "branch.x.rebase=merges",
        "branch.x.description=two\nlines",
        "branch.x.vscode-merge-base=origin/main",
        "branch.sort=-committerdate",
        "branch.autoSetupMerge=always",
        "remote.origin.fetch=+refs/heads/*:refs/remotes/origin/*",
        "remote.origin.fetch=^refs/heads/x",
        "remote.origin.push=HEAD",
        "remote.origin.tagOpt=--no-tags",
        "remote.origin.mirror=true",
        "remote.origin.promisor=true",
        "remote.origin.partialclonefilter=combine:blob:none+tree:0",
        "remote.origin.gh-resolved=base",
        "remote.pushDefault=fork",
        "submodule.libs/x.url=https://h/x",
        "submodule.libs/x.active=true",
        "submodule.x.update=rebase",
        "submodule.active=.",
        "user.name=A \u{fc} B",
        "user.email=a@b",
        "pull.ff=only",
        "pull.rebase=true",
        "push.autoSetupRemote=true",
        "push.default=simple",
        "fetch.prune=true",
        "fetch.parallel=0",
        "gc.auto=0",
        "gc.pruneExpire=2.weeks.ago",
        "gc.refs/remotes/*.reflogExpire=never",
        "advice.detachedHead=false",
        "color.ui=auto",
        "color.branch.current=bold red",
        "color.diff.old=#ff0ab3",
        "rebase.autoStash=true",
        "rebase.rebaseMerges=rebase-cousins",
        "status.showUntrackedFiles=no",
        "merge.conflictStyle=zdiff3",
        "merge.ff=false",
        "init.defaultBranch=main",
        "index.sparse=true",
    ]);
}

#[test]
fn a_work_tree_leads_from_a_module_out_of_git_and_not_out_of_the_roots() {
    let table: &[(&[&str], &str, bool)] = &[
        (&[".git", "modules", "sub"], "../../../sub", true),
        (&["p", ".git", "modules", "a", "b"], "../../../../a/b", true),
        (
            &[".git", "modules", "a", "modules", "b"],
            "../../../../../a/b",
            true,
        ),
        // A linked work tree of the superproject beside it.
        (
            &["main", ".git", "worktrees", "w", "modules", "s"],
            "../../../../../../wt/s",
            true,
        ),
        (
            &["main", ".git", "modules", "s"],
            "../../../../other/s",
            false,
        ),
        // Another root, its top and beside it.
        (
            &[".git", "worktrees", "w", "modules", "s"],
            "../../../../../../q/w/s",
            true,
        ),
        (
            &[".git", "worktrees", "w", "modules", "s"],
            "../../../../../../q/w",
            true,
        ),
        (
            &[".git", "worktrees", "w", "modules", "s"],
            "../../../../../../q/x/s",
            false,
        ),
        (
            &[".git", "worktrees", "w", "modules", "s"],
            "../../../../../../q",
            false,
        ),
        (
            &[".git", "worktrees", "w", "modules", "s"],
            "../../../../../../../../q/w",
            false,
        ),
        (&[".git", "modules", "s"], "../../../../q/w/s", false),
        // What is no submodule's.
        (&["p", ".git"], "../x", false),
        (&["p", ".git"], "../../x", false),
        (&["p", "a", ".git"], "../../../x", false),
        (&["p", ".git", "x"], "../../x", false),
        (&["p", ".git", "modules"], "../../x", false),
        (&["p", ".git", "worktrees", "w"], "../../../x", false),
        (
            &["p", ".git", "modules", "s", ".git"],
            "../../../../x",
            false,
        ),
        (&[".git", "modules", "sub"], "../../../../sub", false),
        (&[".git", "modules", "sub"], "../../../", false),
        (&[".git", "modules", "sub"], "../../..", false),
        (&[".git", "modules", "sub"], "../../hooks", false),
        (&[".git", "modules", "sub"], "../../../.git/hooks", false),
        (&[".git", "modules", "sub"], "../../../x/.GIT/hooks", false),
        (&[".git", "modules", "sub"], "../../../git~1/hooks", false),
        (&[".git", "modules", "sub"], "../../../sub/../x", false),
        (&[".git", "modules", "sub"], "../../../sub\\..\\x", false),
        (&[".git", "modules", "sub"], "/home/u", false),
        (&[".git", "modules", "sub"], "~/x", false),
        (&[".git", "modules", "sub"], "", false),
        (&[".git"], "../../", false),
        (&[".git"], "/home/u", false),
        (&["bare"], "../x", false),
    ];
    for (dir, value, want) in table {
        let root = vec![b"r".to_vec()];
        let other = vec![b"q".to_vec(), b"w".to_vec()];
        let dir: Vec<&[u8]> = std::iter::once(&b"r"[..])
            .chain(dir.iter().map(|c| c.as_bytes()))
            .collect();
        let place = Place {
            git_dir: Some(&dir),
            roots: &[&other, &root],
            ..Place::default()
        };
        let entry = entry(&format!("core.worktree={value}"));
        assert_eq!(judge(&entry, &place).is_ok(), *want, "{dir:?} {value}");
        assert!(judge(&entry, &Place::default()).is_err(), "{value}");
    }
}

#[test]
fn worktree_settings_are_turned_on_only_where_they_are_plain() {
    let plain = Place {
        plain_worktree_settings: true,
        ..Place::default()
    };
    for (text, ok) in [
        ("extensions.worktreeConfig=true", true),
        ("extensions.worktreeConfig", true),
        ("extensions.worktreeConfig=x y", false),
        ("extensions.sub.worktreeConfig=true", false),
    ] {
        assert_eq!(judge(&entry(text), &plain).is_ok(), ok, "{text}");
        assert!(judge(&entry(text), &Place::default()).is_err(), "{text}");
    }
}

/// The reason for refusing `rebase.instructionFormat`, shown with the installed git: the control of the refusal above.
#[test]
fn an_instruction_format_can_write_an_exec_line() {
    for git in Git::all() {
        git.run(".", &["init", "-q", "-b", "main", "r"]);
        for n in ["one", "two"] {
            git.run("r", &["commit", "-q", "--allow-empty", "-m", n]);
        }
        git.run(
            "r",
            &[
                "config",
                "rebase.instructionFormat",
                "%s%nexec touch planted",
            ],
        );
        git.run(
            "r",
            &[
                "-c",
                "sequence.editor=true",
                "rebase",
                "-q",
                "-i",
                "--root",
                "--empty=keep",
                "--keep-empty",
                "-f",
            ],
        );
        assert!(git.dir().join("r/planted").exists(), "{git:?}");
    }
}

/// A remote without `url` is its name: the control of checking names.
#[test]
fn the_name_of_a_remote_is_a_url() {
    for git in Git::all() {
        git.run(".", &["init", "-q", "r"]);
        let config =
            "[remote \"ext::sh -c touch% planted\"]\n\tfetch = +refs/heads/*:refs/remotes/x/*\n";
        std::fs::write(git.dir().join("r/.git/config"), config).unwrap();
        let out = git.output("r", &["-c", "protocol.ext.allow=always", "fetch", "--all"]);
        assert!(!out.status.success());
        assert!(git.dir().join("r/planted").exists(), "{git:?}");
        assert!(super::super::compare(b"", config.as_bytes()).is_err());
    }
}
