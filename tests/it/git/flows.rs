//! Everyday work: the repository afterwards is the one that the same work leaves outside.

use std::fmt::Write;

use super::{Kind, Place, REFTABLE, SHA256, every, well};

/// A piece of everyday work in a directory of its own.
struct Flow {
    name: &'static str,
    /// Outside, before: the repositories that exist.
    before: &'static str,
    /// The work.
    work: &'static str,
    /// Outside, after: what is compared.
    after: &'static str,
}

#[rustfmt::skip]
const FLOWS: &[Flow] = &[
    Flow { name: "init", before: "",
        work: "g init -q $FMT r; cd r; commit a one; g init -q; ls .git/hooks | grep -c sample", after: "show r" },
    Flow { name: "init in a directory with files", before: "mkdir r; echo x >r/a",
        work: "cd r; g init -q $FMT; g add -A; g commit -q -m one", after: "show r" },
    Flow { name: "init bare", before: "",
        work: "g init -q $FMT --bare r.git; g init -q $FMT --bare r.git", after: "show r.git" },
    Flow { name: "init with a git directory elsewhere", before: "",
        work: "g init -q $FMT --separate-git-dir d r; cd r; commit a one", after: "show r; cat r/.git | sed 's,.*/,,'" },
    Flow { name: "clone a path", before: "repo o",
        work: "g clone -q o c; cd c; commit d four", after: "show c" },
    Flow { name: "clone bare and mirror", before: "repo o",
        work: "g clone -q --bare o b.git; g clone -q --mirror o m.git; git -C m.git remote update >/dev/null 2>&1", after: "show b.git m.git" },
    Flow { name: "clone shared and with a reference", before: "repo o",
        work: "g clone -q --shared o s; g clone -q --reference o \"file://$PWD/o\" f", after: "show s f" },
    Flow { name: "clone a part", before: "repo o; git -C o config uploadpack.allowFilter true",
        work: "g clone -q --depth=1 --filter=blob:none \"file://$PWD/o\" c; g clone -q -b topic --single-branch --no-tags o d", after: "show c d" },
    Flow { name: "clone a project that tracks editor settings", before: "repo o; cd o; mkdir .vscode .idea; commit .vscode/settings.json x; commit .idea/x x; commit .mcp.json x; commit .gitconfig x",
        work: "g clone -q o c; cd c; g checkout -q topic; g checkout -q main; echo y >.vscode/settings.json; g stash -q; g stash pop -q", after: "show c" },
    Flow { name: "clone in place of a clone", before: "repo o",
        work: "g clone -q o c; mv c moved; rm -rf moved; g clone -q o c; cd c; commit d four", after: "show c; ls" },
    Flow { name: "add and commit", before: "repo r",
        work: "cd r; commit d four; echo x >a; g commit -q -a -m five; g commit -q --amend -m six; g mv a e; g rm -q b; g commit -q -m seven; g reset -q; g status >/dev/null", after: "show r; git -C r log --format=%s" },
    Flow { name: "branch", before: "repo r",
        work: "cd r; g branch x; g branch -m x y; g branch -c y z; g branch -D y >/dev/null; g branch -q --set-upstream-to=topic z; g branch --unset-upstream z; g branch hooks/pre-commit; g branch config; g branch info/attributes", after: "show r" },
    Flow { name: "checkout, switch, restore", before: "repo r",
        work: "cd r; g checkout -q topic; g switch -q main; g switch -q -c n; g checkout -q --detach; g switch -q -; echo x >a; g restore a; g checkout topic -- c; g restore --staged c; rm c; g checkout -q --orphan o; g commit -q -m o", after: "show r" },
    Flow { name: "merge", before: "repo r; cd r; g branch t2; commit d four",
        work: "cd r; g merge -q --no-ff -m m topic; g merge -q --ff-only topic; g checkout -q t2; commit d five; ! g merge -q main >/dev/null 2>&1; g merge --abort; ! g merge -q main >/dev/null 2>&1; echo six >d; g add d; g merge --continue >/dev/null", after: "show r; git -C r log --format=%s" },
    Flow { name: "rebase", before: "repo r; cd r; commit d four; g branch t2 topic",
        work: "cd r; g rebase -q main topic; g checkout -q t2; commit e five; g commit -q --allow-empty --fixup HEAD; g rebase -q -i --autosquash --exec true main >/dev/null 2>&1; g checkout -q topic; ! g rebase -q --exec false HEAD~1 >/dev/null 2>&1; g rebase --abort", after: "show r" },
    Flow { name: "stash", before: "repo r",
        work: "cd r; echo x >a; echo y >n; g stash push -q -u; g stash list >/dev/null; g stash pop -q; g stash -q; g stash apply -q; g reset -q --hard; g stash branch s >/dev/null; g commit -q -a -m s; echo z >a; g stash -q; g stash drop -q", after: "show r" },
    Flow { name: "gc", before: "repo r",
        work: "cd r; g gc -q; commit d four; g gc -q --aggressive --prune=now; g repack -q -a -d; g pack-refs --all; g prune; g maintenance run --quiet; g fsck --no-dangling 2>/dev/null; g count-objects >/dev/null", after: "show r" },
    Flow { name: "worktree", before: "repo r",
        work: "cd r; g worktree add -q ../w topic; g worktree add -q -b n ../v; (cd ../w; commit d four; g status >/dev/null); g worktree list >/dev/null; g worktree lock ../v; g worktree unlock ../v; g worktree move ../v ../u; g worktree remove ../u; g worktree add -q --detach ../x; rm -rf ../x; g worktree prune; (cd ../w; g worktree repair)", after: "show r w; ls r/.git/worktrees" },
    Flow { name: "worktree of a project that tracks editor settings", before: "repo r; cd r; mkdir .vscode; commit .vscode/settings.json x",
        work: "cd r; g worktree add -q ../w main~0; cd ../w; g checkout -q topic; g checkout -q -", after: "show w" },
    Flow { name: "submodule", before: "repo s; repo t; repo r",
        work: "cd r; g submodule --quiet add ../s libs/s; g submodule --quiet add --name n -b main ../t t; g commit -q -m subs; (cd libs/s; g checkout -q -b x; commit d four); g commit -q -a -m moved; g submodule --quiet sync; g submodule --quiet foreach true; g submodule status >/dev/null; g submodule --quiet deinit -f t; g submodule --quiet update --init; g submodule absorbgitdirs", after: "show r r/libs/s r/t" },
    Flow { name: "clone with submodules", before: "repo s; repo t; (cd s; g submodule --quiet add ../t t; g commit -q -m t); repo r; cd r; g submodule --quiet add ../s s; g commit -q -m s",
        work: "g clone -q --recurse-submodules r c; cd c; g submodule --quiet update --init --recursive --remote; g submodule --quiet update --rebase; g checkout -q -b x; g rm -q s; g commit -q -m gone", after: "show c" },
    Flow { name: "push", before: "repo r; bare o.git r; cd r; g remote add origin ../o.git",
        work: "cd r; g push -q origin main; g push -q -u origin topic; commit d four; g push -q --all; g tag v1; g push -q --tags; g push -q origin :topic; g push -q --force origin HEAD~1:refs/heads/x", after: "show r o.git" },
    Flow { name: "fetch and pull", before: "repo o; g clone -q o r; cd o; commit d four; g tag v1; g branch config; g branch hooks/x; g branch HEAD2",
        work: "cd r; g fetch -q; g fetch -q --all --prune --tags; g pull -q; g pull -q --rebase origin topic; g ls-remote -q >/dev/null; g remote set-head origin -a >/dev/null", after: "show r" },
    Flow { name: "remote", before: "repo o; repo r",
        work: "cd r; g remote add -f up ../o 2>/dev/null; g remote add -t main -m main m ../o; g remote rename up down; g remote set-url down https://x.test/r.git; g remote set-url --push down git@x.test:r.git; g remote set-branches --add m x; g remote remove down; g remote prune m; g config remote.pushDefault m", after: "show r" },
    Flow { name: "upstream", before: "repo o; g clone -q o r",
        work: "cd r; g branch -q -u origin/main; g checkout -q --track origin/topic; g branch -q n origin/main; g push -q -u origin n; g config branch.n.rebase true; g config branch.n.description text", after: "show r" },
    Flow { name: "tag", before: "repo r",
        work: "cd r; g tag v1; g tag -a -m two v2; g tag -f v1 HEAD~1; g tag -d v2 >/dev/null; g tag -a -m x hooks/x; g describe --tags >/dev/null", after: "show r" },
    Flow { name: "cherry-pick and revert", before: "repo r",
        work: "cd r; g cherry-pick topic >/dev/null; g revert --no-edit HEAD >/dev/null; g checkout -q -b x topic~1; commit c x; ! g cherry-pick topic >/dev/null 2>&1; g cherry-pick --abort; ! g cherry-pick topic >/dev/null 2>&1; g cherry-pick --skip", after: "show r; git -C r log --format=%s" },
    Flow { name: "reset and clean", before: "repo r",
        work: "cd r; echo x >a; g reset -q --hard; g reset -q --soft HEAD~1; g reset -q; g add -A; g commit -q -m x; echo x >n; mkdir d; echo x >d/n; g clean -q -f -d; g reflog >/dev/null; g reflog expire --expire=now --all", after: "show r" },
    Flow { name: "bisect", before: "repo r; cd r; for n in 1 2 3 4 5 6; do commit n $n; done",
        work: "cd r; g bisect start HEAD main~6 >/dev/null; g bisect run sh -c '! grep -q 4 n' >/dev/null; g bisect log >/dev/null; g bisect reset >/dev/null 2>&1", after: "show r" },
    Flow { name: "notes", before: "repo r",
        work: "cd r; g notes add -m note; g notes append -m more; g notes copy HEAD topic; g notes show >/dev/null; g notes remove topic 2>/dev/null; g notes prune", after: "show r" },
    Flow { name: "sparse-checkout", before: "repo r; cd r; mkdir x y; commit x/a x; commit y/a y",
        work: "cd r; g sparse-checkout set x; test ! -e y; g sparse-checkout add y; test -e y; g sparse-checkout list >/dev/null; g sparse-checkout set --no-cone '/*' '!y'; g sparse-checkout reapply; g sparse-checkout disable", after: "show r" },
    Flow { name: "config", before: "repo r",
        work: "cd r; g config user.name 'N \"x\" # ; y'; g config user.email n@x.test; g config --unset user.email; g config pull.rebase true; g config --add remote.o.fetch '+refs/heads/*:refs/remotes/o/*'; g config remote.o.url ../o; g config --remove-section remote.o; g config --rename-section branch.main branch.x 2>/dev/null || true; g config --get user.name", after: "show r; ls -A r/.git | grep -c lock || true" },
    Flow { name: "patches", before: "repo r",
        work: "cd r; g format-patch -q -o ../p main..topic; g am -q ../p/*.patch; g reset -q --hard HEAD~1; g apply --index ../p/*.patch; g commit -q -m applied; g diff HEAD~1 >../d; g apply -R ../d; g checkout -q -- .", after: "show r; ls p" },
    Flow { name: "bundle and archive", before: "repo r",
        work: "cd r; g bundle create -q ../b --all; g archive -o ../a.tar HEAD; cd ..; g clone -q b c; mkdir x; tar xf a.tar -C x; tar cf r.tar r", after: "show c; ls x; test -s r.tar" },
    Flow { name: "rerere, hash-object, replace, filter-branch", before: "repo r",
        work: "cd r; mkdir -p .git/rr-cache; g update-index --refresh; g replace HEAD~1 HEAD 2>/dev/null; g replace -d HEAD~1 >/dev/null; g update-ref refs/heads/u HEAD; g update-ref -d refs/heads/u; g symbolic-ref refs/heads/sym refs/heads/main; g repack -q -a -d; g commit-graph write 2>/dev/null; g multi-pack-index write 2>/dev/null; FILTER_BRANCH_SQUELCH_WARNING=1 g filter-branch -f --msg-filter 'sed s/one/uno/' topic >/dev/null 2>&1", after: "show r" },
    Flow { name: "a repository made and removed", before: "",
        work: "repo r; (cd r; g submodule --quiet add ./. s 2>/dev/null || true; g worktree add -q w; cp .git/config x; g config user.name n); rm -rf r; repo r; mv r q; mv q/.git q/d; mv q/d q/.git; rm -rf q/.git/hooks", after: "show q" },
    Flow { name: "copies by hand", before: "repo r; bare o.git r",
        work: "cp -r r c; g -C c status >/dev/null; cp -a r d; mkdir e; tar cf - r o.git | tar xf - -C e; cp -r o.git p.git; rsync -a r/ h; (cd c; commit d four; g config user.name n); (cd e/r; commit d four); mkdir f; cp -r r/.git f; cat r/.git/config >f/.git/c; mv f/.git/c f/.git/config; sed -i s/x/x/ d/.git/config; g -C f reset -q --hard", after: "show c d e/r e/o.git p.git f h" },
    Flow { name: "two at once", before: "repo r; for n in 1 2 3 4; do g clone -q r c$n; done",
        work: "for n in 1 2 3 4; do (cd c$n; for m in 1 2 3; do commit n $m; g config user.name $n.$m; g checkout -q -b b$m; done) & done; wait; g -C r fetch -q ../c1 b3:x", after: "show r c1 c2 c3 c4" },
];

/// All flows of one kind of repository in one sandbox, each in its own directory.
fn all(kind: &Kind) {
    let control = Place::new(kind);
    let boxed = Place::new(kind);
    let each = |what: fn(&Flow) -> &'static str, keep: &str| {
        let mut script = String::new();
        for (n, flow) in FLOWS.iter().enumerate() {
            let _ = write!(
                script,
                "mkdir -p {n}; printf '# %s\\n' '{}'; set +e\n(set -eu; cd {n}\n{}\n) {keep}\n[ $? = 0 ] || echo '! failed'; set -e\n",
                flow.name,
                what(flow)
            );
        }
        script
    };
    let before = each(|f| f.before, "</dev/null");
    let work = each(|f| f.work, "</dev/null");
    let after = each(|f| f.after, "2>&1");
    let mut seen = Vec::new();
    for (place, is_control) in [(&control, true), (&boxed, false)] {
        let out = well(place.outside(&before), "before");
        assert!(!out.contains("! failed"), "{kind:?}: {out}");
        let ran = if is_control {
            place.outside(&work)
        } else {
            place.inside(&work)
        };
        let here = place.desk.path().to_str().unwrap();
        let shown = well(place.outside(&after), "after").replace(here, "@T@");
        seen.push((ran, shown));
    }
    let [(ran_out, shown_out), (ran_in, shown_in)] = <[_; 2]>::try_from(seen).unwrap();
    assert!(
        !ran_out.stdout.contains("! failed"),
        "{kind:?}: the control\n{}\n{}",
        ran_out.stdout,
        ran_out.stderr
    );
    assert_eq!(ran_in.stdout, ran_out.stdout, "{kind:?}\n{}", ran_in.stderr);
    assert_eq!(ran_in.code, 0, "{kind:?}\n{}", ran_in.stderr);
    assert!(
        !ran_in.stderr.contains("ccbox:"),
        "{kind:?}: nothing was refused\n{}",
        ran_in.stderr
    );
    compare(&shown_in, &shown_out, kind);
}

/// The first line that differs, with the flow it belongs to.
#[track_caller]
fn compare(inside: &str, outside: &str, kind: &Kind) {
    let mut flow = "";
    for (a, b) in inside.lines().zip(outside.lines()) {
        if b.starts_with("# ") {
            flow = b;
        }
        assert_eq!(a, b, "{kind:?} {flow}");
    }
    assert_eq!(inside.lines().count(), outside.lines().count(), "{kind:?}");
}

#[test]
fn everyday_work_leaves_what_it_leaves_outside() {
    every("", all);
}

#[test]
fn everyday_work_with_sha256() {
    every(SHA256, all);
}

#[test]
fn everyday_work_with_reftable() {
    every(REFTABLE, all);
}
