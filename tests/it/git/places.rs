//! Where the repository is the workspace itself, or lies partly outside of it.

use std::path::Path;

use super::{Kind, Place, kinds, require_sandbox, well};

/// Work in the repository that the workspace is.
const WORK: &str = "
commit d four; g checkout -q topic; g merge -q --no-ff -m m main; g checkout -q main; echo x >a; g stash -q; g stash pop -q; g checkout -q a
g rebase -q topic; g branch n; g branch -q -D n; g tag v1; g config user.name 'A Name'; g config --unset user.name; g config pull.rebase true
g remote add o ../elsewhere; g remote remove o; g gc -q; g notes add -m n; g reset -q --soft HEAD~1; g commit -q -m again; g cherry-pick topic~1 >/dev/null 2>&1 || g cherry-pick --abort
mkdir -p sub; (cd sub; repo s); g submodule --quiet add ./sub/s t 2>/dev/null || g -c protocol.file.allow=always submodule --quiet add \"$PWD/sub/s\" t; g commit -q -m t; rm -rf sub
g worktree add -q .w topic; (cd .w; commit e five); g worktree remove .w; g worktree prune; mkdir dir; commit dir/f six; g sparse-checkout set dir; g sparse-checkout disable; g status --porcelain
";

/// What the child may not do there, each with what it would leave.
const ATTACK: &str = "
set +e
printf '#!/bin/sh\\ntouch $T/PWNED\\n' >x; chmod 755 x
d=$(git rev-parse --git-dir); c=$(git rev-parse --git-common-dir)
cp x $c/hooks/pre-commit; mv x $c/hooks/post-commit; ln -s /x $c/hooks/pre-push
git config core.fsmonitor \"touch $T/PWNED; false\"; git config alias.x '!x'; echo '[alias]y=!y' >>$c/config
echo '* filter=x' >$c/info/attributes; echo ../x >$d/commondir; mkdir -p $c/remotes; echo URL: x >$c/remotes/x
mv $c/hooks h; rm -rf $c/hooks; mv $c/config h; rm -f $c/config
mv .git g; rm -f .git; mkdir .git; echo gitdir: /x >.git
echo __done__
";

/// Names and contents of what git runs or believes below `dir`.
fn guarded(place: &Place, dir: &str) -> String {
    let script = format!("{}\nguarded {dir}", include_str!("attacks.sh"));
    well(place.outside(&script), "guarded")
}

/// The same work outside and inside leaves the same; then the attacks change nothing, and the host's git runs nothing.
fn check(kind: &Kind, before: &str, work: &str, look: &str, git_dir: &str) {
    let mut seen = Vec::new();
    for is_control in [true, false] {
        let place = Place::new(kind);
        well(place.outside(before), "before");
        let run = |script: &str| {
            if is_control {
                place.outside(script)
            } else {
                place.inside(script)
            }
        };
        let worked = run(work);
        let at = place.desk.path().to_str().unwrap();
        assert_eq!(worked.code, 0, "{kind:?} {is_control}\n{}", worked.stderr);
        assert!(!worked.stderr.contains("ccbox:"), "{}", worked.stderr);
        seen.push(well(place.outside(look), "look").replace(at, "@T@"));
        let had = guarded(&place, git_dir);
        let attacked = run(ATTACK);
        assert!(
            attacked.stdout.ends_with("__done__\n"),
            "{}",
            attacked.stderr
        );
        if is_control {
            continue;
        }
        assert_eq!(
            guarded(&place, git_dir),
            had,
            "{kind:?}\n{}",
            attacked.stderr
        );
        let _ = place.outside("git status; commit z z");
        assert!(!place.desk.path().join("PWNED").exists(), "{kind:?}");
    }
    assert_eq!(seen[1], seen[0], "{kind:?}");
}

#[test]
fn the_workspace_is_a_repository() {
    if !require_sandbox() {
        return;
    }
    for kind in kinds() {
        check(&kind, "cd $T; rmdir ws; repo ws", WORK, "show . t", ".");
    }
}

/// R34, semantics 9: the common git directory outside of the workspace is written as git needs it.
#[test]
fn the_workspace_is_a_linked_work_tree() {
    if !require_sandbox() {
        return;
    }
    for kind in kinds() {
        check(
            &kind,
            "cd $T; rmdir ws; repo main; cd main; g checkout -q -b keep; g worktree add -q ../ws main",
            WORK,
            "show . t $T/main",
            "$T/main",
        );
    }
}

/// Semantics 8: a root that is itself a git directory follows the preset.
#[test]
fn the_workspace_is_a_bare_repository() {
    if !require_sandbox() {
        return;
    }
    for kind in kinds() {
        check(
            &kind,
            "cd $T; rmdir ws; repo o; g clone -q --bare o ws",
            "t=$(mktemp -d); g clone -q . $t/c; (cd $t/c; commit d four; g push -q origin main:n; g push -q origin :topic); rm -rf $t
             g update-ref refs/heads/x main; g tag v1; g config user.name x; g gc -q; g worktree add -q .w n; (cd .w; commit e five); g worktree remove .w",
            "show .",
            ".",
        );
    }
}

/// R31: nothing that would make the top of a writable root a repository.
#[test]
fn the_workspace_does_not_become_a_bare_repository() {
    if !require_sandbox() {
        return;
    }
    let script = "for f in HEAD objects refs; do mkdir $f; rmdir $f; echo x >$f; rm -f $f; mkdir x; mv x $f; ln -s x $f; done; mkdir -p d/refs; echo x >d/HEAD; mv d/* .; ls -A; true";
    let kind = &kinds()[0];
    let place = Place::new(kind);
    let out = well(place.outside(&format!("set +e; {script}")), "control");
    assert!(out.contains("HEAD\n") && out.contains("refs\n"), "{out}");
    let place = Place::new(kind);
    let out = well(place.inside(&format!("set +e; {script}")), "inside");
    assert_eq!(out, "d\nx\n");
}

/// A repository in a project without a spec, with the user's own settings.
#[test]
fn a_commit_without_a_spec() {
    if !require_sandbox() {
        return;
    }
    let kind = &kinds()[0];
    let place = Place::new(kind);
    well(place.outside("cd $T; rmdir ws; repo ws"), "before");
    let script = "echo x >>a; git -c user.name=Somebody -c user.email=s@x.test commit -q -a -m bare; git log -1 --format=%an; git config core.hooksPath x";
    let ran = place.desk.call(&["run", "--", "/bin/sh", "-c", script]);
    assert_eq!(ran.stdout, "Somebody\n", "{}", ran.stderr);
    assert_ne!(ran.code, 0);
    let log = well(
        place.outside("git log -1 --format=%s; git config core.hooksPath || echo none"),
        "log",
    );
    assert_eq!(log, "bare\nnone\n");
    assert!(Path::new(&place.ws()).join(".git/config").is_file());
}
