//! What the host's git would run or believe: planted outside it works (the control), planted inside it does not.

use super::{Kind, Place, REFTABLE, SHA256, every, well};

/// Start of every script here.
const LIB: &str = include_str!("attacks.sh");

/// One attack in a directory of its own.
struct Attack {
    name: &'static str,
    /// Outside, before: what exists.
    before: &'static str,
    /// Inside; any step may fail.
    inside: &'static str,
    /// Outside, after: what the user does.
    trigger: &'static str,
}

#[rustfmt::skip]
const ATTACKS: &[Attack] = &[
    // ---- hooks of a repository that exists
    Attack { name: "a hook", before: "repo r",
        inside: "hook r/.git/hooks/pre-commit", trigger: "again r" },
    Attack { name: "a hook by rename", before: "repo r",
        inside: "hook x; mv x r/.git/hooks/pre-commit", trigger: "again r" },
    Attack { name: "a hook by hard link", before: "repo r",
        inside: "hook x; ln x r/.git/hooks/pre-commit", trigger: "again r" },
    Attack { name: "a hook by symbolic link", before: "repo r",
        inside: "hook x; ln -s ../../../x r/.git/hooks/pre-commit", trigger: "again r" },
    Attack { name: "a hook by exchange", before: "repo r; echo x >r/.git/hooks/pre-commit.sample",
        inside: "hook x; exchange x r/.git/hooks/pre-commit.sample; mv r/.git/hooks/pre-commit.sample r/.git/hooks/pre-commit; hook y; exchange y r/.git/hooks/pre-commit", trigger: "again r" },
    Attack { name: "a hook made of a sample", before: "repo r",
        inside: "hook r/.git/hooks/a.sample; cd r/.git/hooks; mv a.sample pre-commit; ln a.sample pre-commit; ln -s a.sample pre-commit", trigger: "again r" },
    Attack { name: "a hook through a descriptor of its directory", before: "repo r",
        inside: "python3 -c 'import os; d = os.open(\"r/.git/hooks\", os.O_RDONLY); os.write(os.open(\"pre-commit\", os.O_CREAT | os.O_WRONLY, 0o755, dir_fd=d), open(\"/dev/stdin\", \"rb\").read())' <<E\n#!/bin/sh\n$CMD\nE\nhook x; (exec 3<r/.git/hooks; cp x /proc/self/fd/3/pre-commit; cp x /dev/fd/3/post-commit)", trigger: "again r" },
    Attack { name: "a hook without a name at first", before: "repo r",
        inside: "unnamed r/.git/hooks r/.git/hooks/pre-commit; unnamed . r/.git/hooks/post-commit", trigger: "again r" },
    Attack { name: "hooks replaced by a directory", before: "repo r",
        inside: "mkdir h; hook h/pre-commit; mv r/.git/hooks r/.git/old || rm -rf r/.git/hooks; mv h r/.git/hooks", trigger: "again r" },
    Attack { name: "hooks replaced by a link", before: "repo r",
        inside: "mkdir h; hook h/pre-commit; mv r/.git/hooks r/.git/old || rm -rf r/.git/hooks; ln -s ../../h r/.git/hooks", trigger: "again r" },
    Attack { name: "hooks exchanged with a directory", before: "repo r",
        inside: "mkdir h; hook h/pre-commit; exchange h r/.git/hooks", trigger: "again r" },
    Attack { name: "hooks where there were none", before: "repo r; rm -rf r/.git/hooks",
        inside: "mkdir h; hook h/pre-commit; mv h r/.git/hooks || ln -s ../../h r/.git/hooks; mkdir r/.git/hooks; hook r/.git/hooks/pre-commit", trigger: "again r" },
    Attack { name: "a hook that was not executable", before: "repo r; hook r/.git/hooks/pre-commit; chmod 644 r/.git/hooks/pre-commit",
        inside: "chmod 755 r/.git/hooks/pre-commit; python3 -c 'import os; os.fchmod(os.open(\"r/.git/hooks/pre-commit\", os.O_RDONLY), 0o755)'", trigger: "again r" },
    Attack { name: "a hook of the user's replaced", before: "repo r; printf '#!/bin/sh\\nexit 0\\n' >r/.git/hooks/pre-commit; chmod 755 r/.git/hooks/pre-commit; ln r/.git/hooks/pre-commit alias",
        inside: "hook x; cp x r/.git/hooks/pre-commit; rm r/.git/hooks/pre-commit; cp x r/.git/hooks/pre-commit; printf '%s\\n' \"$CMD\" >>r/.git/hooks/pre-commit", trigger: "again r" },
    Attack { name: "the whole git directory moved around its hooks", before: "repo r",
        inside: "mv r/.git r/x && hook r/x/hooks/pre-commit && mv r/x r/.git; mv r s; mv s/.git s/x; hook s/x/hooks/pre-commit; mv s/x s/.git; mv s r; cd r; mv .git/hooks/.. ../y", trigger: "again r" },
    Attack { name: "a hook of a submodule", before: "repo s; repo r; cd r; g submodule --quiet add ../s s; g commit -q -m s",
        inside: "hook r/.git/modules/s/hooks/pre-commit; mkdir h; hook h/pre-commit; mv r/.git/modules/s/hooks r/x; mv h r/.git/modules/s/hooks", trigger: "again r/s" },
    Attack { name: "a hook of a linked work tree", before: "repo r; cd r; g worktree add -q ../w topic",
        inside: "cd w; hook \"$(git rev-parse --git-common-dir)/hooks/pre-commit\"", trigger: "again w" },
    Attack { name: "a hook of a bare repository", before: "repo r; bare b.git r; git -C r remote add origin ../b.git",
        inside: "hook b.git/hooks/update; hook b.git/hooks/pre-receive", trigger: "git -C r push -q origin main:x" },

    // ---- configuration of a repository that exists
    Attack { name: "core.hooksPath", before: "repo r",
        inside: "mkdir h; hook h/pre-commit; git -C r config core.hooksPath ../h", trigger: "again r" },
    Attack { name: "core.fsmonitor", before: "repo r",
        inside: "git -C r config core.fsmonitor \"$CMD; false\"", trigger: "git -C r status" },
    Attack { name: "an alias", before: "repo r",
        inside: "git -C r config alias.st \"!$CMD\"", trigger: "git -C r st" },
    Attack { name: "a filter", before: "repo r",
        inside: "cd r; git config filter.x.clean \"$CMD; cat\"; echo '* filter=x' >.gitattributes; echo x >>a", trigger: "git -C r add -A" },
    Attack { name: "a text conversion", before: "repo r",
        inside: "cd r; git config diff.x.textconv \"$CMD; cat\"; echo '* diff=x' >.gitattributes; echo x >>a", trigger: "git -C r diff" },
    Attack { name: "a merge driver", before: "repo r",
        inside: "cd r; git config merge.x.driver \"$CMD; true\"; echo '* merge=x' >.gitattributes; git checkout -q topic; commit a t; git checkout -q main; commit a m", trigger: "git -C r merge topic" },
    Attack { name: "an include", before: "repo r",
        inside: "evil x; git -C r config include.path ../../x", trigger: "git -C r status" },
    Attack { name: "a conditional include", before: "repo r",
        inside: "evil x; git -C r config includeIf.gitdir:/.path ../../x", trigger: "git -C r status" },
    Attack { name: "a transport that is a program", before: "repo r",
        inside: "cd r; git config protocol.ext.allow always; git remote add x \"ext::sh -c $(printf '%s' \"$CMD\" | sed 's/ /% /g')\"; git config remote.x.url \"ext::sh -c $(printf '%s' \"$CMD\" | sed 's/ /% /g')\"", trigger: "git -C r fetch x" },
    Attack { name: "the program of a remote", before: "repo o; repo r; git -C r remote add x ../o",
        inside: "git -C r config remote.x.uploadpack \"$CMD; git-upload-pack\"", trigger: "git -C r fetch x" },
    Attack { name: "a rewritten URL", before: "repo o; repo r; git -C r remote add x ../o",
        inside: "cd r; git config protocol.ext.allow always; git config 'url.ext::sh -c '\"$(printf '%s' \"$CMD\" | sed 's/ /% /g')\"'% .insteadOf' ../", trigger: "git -C r fetch x" },
    Attack { name: "the command of a submodule update", before: "repo s; repo r; cd r; g submodule --quiet add ../s s; g commit -q -m s",
        inside: "git -C r config submodule.s.update \"!$CMD\"; cd r/s; git checkout -q HEAD~1", trigger: "g -C r submodule update" },
    Attack { name: "configuration of a submodule", before: "repo s; repo r; cd r; g submodule --quiet add ../s s; g commit -q -m s",
        inside: "git -C r/s config core.fsmonitor \"$CMD; false\"; worse x; cp x r/.git/modules/s/config; mv x r/.git/modules/s/config", trigger: "git -C r/s status" },
    Attack { name: "programs for credentials, ssh, signatures, pages", before: "repo r",
        inside: "cd r; for k in core.sshCommand core.pager core.editor sequence.editor core.askPass credential.helper gpg.program diff.external gc.recentObjectsHook core.gitProxy core.alternateRefsCommand web.browser; do git config $k \"$CMD\"; done; git config commit.gpgSign true; git config pager.status true", trigger: "GIT_EXTERNAL_DIFF= ; again r; echo x >>r/a; git -C r diff" },
    Attack { name: "settings of the user's removed", before: "repo r; mkdir h; hook h/pre-push; git -C r config core.hooksPath ../h; (cd r; git config alias.x '!true'; git config --add alias.x '!false'); echo $CMD >c; cp r/.git/config old",
        inside: "cd r; git config --unset core.hooksPath; git config --unset-all alias.x; git config --remove-section alias; git config --rename-section core x; rm .git/config; mv .git/config ../x; : >.git/config", trigger: "cmp -s r/.git/config old || $CMD" },
    Attack { name: "configuration written directly", before: "repo r",
        inside: "python3 -c 'import os; os.truncate(\"r/.git/config\", 0)'; worse x; cat x >>r/.git/config; cp x r/.git/config; tee r/.git/config <x >/dev/null; dd if=x of=r/.git/config conv=notrunc", trigger: "git -C r status" },
    Attack { name: "configuration by rename, links and exchange", before: "repo r",
        inside: "worse x; for f in 'mv' 'ln -f' 'ln -sf' 'exchange'; do cp x y; $f y r/.git/config; done; rm r/.git/config; ln x r/.git/config; ln -s ../../x r/.git/config", trigger: "git -C r status" },
    Attack { name: "configuration through its lock by hand", before: "repo r",
        inside: "worse r/.git/config.lock; mv r/.git/config.lock r/.git/config; worse x; ln -s ../../x r/.git/config.lock; mv r/.git/config.lock r/.git/config; rm r/.git/config.lock; ln x r/.git/config.lock; mv r/.git/config.lock r/.git/config", trigger: "git -C r status" },
    Attack { name: "a descriptor kept on the lock", before: "repo r",
        inside: "exec 3<>r/.git/config.lock; cat r/.git/config >&3; mv r/.git/config.lock r/.git/config; worse x; cat x >&3", trigger: "git -C r status" },
    Attack { name: "a hard link kept on the lock", before: "repo r",
        inside: "cp r/.git/config r/.git/config.lock; ln r/.git/config.lock kept; mv r/.git/config.lock r/.git/config; worse x; cat x >>kept", trigger: "git -C r status" },
    Attack { name: "attributes", before: "repo r; g config --file $T/home/.gitconfig filter.user$N.clean \"$CMD; cat\"",
        inside: "echo \"* filter=user$N\" >r/.git/info/attributes; mkdir i; echo \"* filter=user$N\" >i/attributes; mv r/.git/info r/.git/x; mv i r/.git/info; ln -s ../../i r/.git/info; echo x >>r/a", trigger: "git -C r add -A" },
    Attack { name: "settings of a work tree", before: "repo r; (cd r; g worktree add -q ../w topic)",
        inside: "evil x; cp x r/.git/config.worktree; cp x r/.git/worktrees/w/config.worktree; cp x r/.git/config.worktree.lock; mv r/.git/config.worktree.lock r/.git/config.worktree; cd r; git config extensions.worktreeConfig true; git config --worktree core.fsmonitor \"$CMD; false\"", trigger: "git -C r status; git -C w status" },
    Attack { name: "settings of a work tree that wait", before: "repo r; evil r/.git/config.worktree",
        inside: "cd r; git config extensions.worktreeConfig true; git sparse-checkout set a", trigger: "git -C r status" },
    Attack { name: "a remote in the old syntax", before: "repo r; g -C r config protocol.ext.allow always",
        inside: "cd r/.git; mkdir remotes branches; echo \"URL: ext::sh -c $(printf '%s' \"$CMD\" | sed 's/ /% /g')\" >remotes/x; cp remotes/x remotes/origin; cd ..; mkdir h; cp .git/remotes/x h/x; mv h .git/remotes; ln -s ../h .git/remotes", trigger: "git -C r fetch x" },
    Attack { name: "a common directory", before: "repo r; repo e; worse e/.git/config",
        inside: "echo ../../e/.git >r/.git/commondir; cp r/.git/commondir x; mv x r/.git/commondir", trigger: "git -C r status" },
    Attack { name: "the common directory of a linked work tree", before: "repo r; (cd r; g worktree add -q ../w topic); repo e; worse e/.git/config",
        inside: "cd r/.git/worktrees/w; echo ../../../../e/.git >x; cp x commondir; ln -f x commondir; ln -sf x commondir; mv x commondir; rm commondir; ln -s x commondir; echo ../../../../e/.git >x; ln x commondir; mv x commondir; echo ../../../../e/.git >commondir", trigger: "git -C w status" },

    // ---- repositories made inside
    Attack { name: "a hook in a new repository", before: "",
        inside: "repo r; hook r/.git/hooks/pre-commit; hook x; mv x r/.git/hooks/post-commit; mkdir h; hook h/pre-commit; rm -rf r/.git/hooks; mv h r/.git/hooks", trigger: "again r" },
    Attack { name: "configuration of a new repository", before: "repo o",
        inside: "g init -q $FMT r; git -C r config core.fsmonitor \"$CMD; false\"; g clone -q -c core.fsmonitor=\"$CMD; false\" o c; worse x; mv x r/.git/config", trigger: "git -C r status; git -C c status" },
    Attack { name: "hooks by a template", before: "repo o",
        inside: "mkdir -p t/hooks t/info; hook t/hooks/pre-commit t/hooks/post-commit; evil t/config; g init -q $FMT --template=t r; g clone -q --template=t o c; g -c init.templateDir=t init -q s; repo r", trigger: "again r; git -C c status" },
    Attack { name: "a hook in a new submodule", before: "repo s; repo r",
        inside: "cd r; g submodule --quiet add ../s s; g commit -q -m s; hook .git/modules/s/hooks/pre-commit; mkdir h; hook h/pre-commit; rm -rf .git/modules/s/hooks; mv h .git/modules/s/hooks", trigger: "again r/s" },
    Attack { name: "a descriptor kept on configuration from before", before: "",
        inside: "mkdir r; cd r; skeleton g; exec 3>>g/config; exec 4>>g/hooks/a.sample; head g; mv g .git; commit a one; evil ../x; cat ../x >&3", trigger: "git -C r status" },
    Attack { name: "hard links kept on configuration from before", before: "",
        inside: "mkdir r; cd r; skeleton .git; ln .git/config kept; head .git; skeleton g; ln g/config kept2; head g; evil x; cat x >>kept; cat x >>kept2; mkdir s; mv g s/.git; cat x >>kept2", trigger: "git -C r status; git -C r/s status" },
    Attack { name: "a bare repository among the files", before: "repo r",
        inside: "mkdir r/d; cd r/d; skeleton .; evil config; sed -i s/false/true/ config; printf '\\tworktree = .\\n' >>config; head .; skeleton ../e; evil ../e/config; mv HEAD ../e/HEAD; cp ../e/HEAD .", trigger: "git -C r/d status; git -C r/e --work-tree=. status" },
    Attack { name: "a bare repository with hooks among the files", before: "repo r",
        inside: "mkdir r/d; cd r/d; skeleton .; printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = true\\n' >config; hook hooks/pre-commit hooks/reference-transaction; head .; mkdir ../e; cp -r . ../e; rm ../e/HEAD; mv refs ../r2; head .; mv ../r2 refs", trigger: "cd r/d; t=$(git mktree </dev/null); git --work-tree=. commit -q --allow-empty -m x; git update-ref refs/heads/y $(git commit-tree -m x $t)" },
    Attack { name: "a directory renamed to `.git`", before: "mkdir r",
        inside: "cd r; skeleton g; evil g/config; hook g/hooks/pre-commit; head g; mv g .git; skeleton h; hook h/hooks/pre-commit; mv h .git; head .git", trigger: "git -C r status; again r" },
    Attack { name: "a git directory that is none for a while", before: "",
        inside: "repo r; cd r; mv .git g; rm g/HEAD; hook g/hooks/pre-commit; worse g/config; head g; mv g .git", trigger: "git -C r status; again r" },
    Attack { name: "a `.git` of the project that is none for a while", before: "repo r",
        inside: "cd r/.git; mv HEAD x; hook hooks/pre-commit; worse ../y; cp ../y config; mv ../y config; mv refs z; hook hooks/pre-commit; worse ../y; mv ../y config; mv z refs; mv x HEAD", trigger: "git -C r status; again r" },
    Attack { name: "a file `.git` that leads elsewhere", before: "repo r; mkdir r/d",
        inside: "cd r; skeleton e; evil e/config; printf '\\tworktree = ../d\\n' >>e/config; hook e/hooks/pre-commit; head e; echo gitdir: ../e >d/.git", trigger: "git -C r/d status; again r/d" },
    Attack { name: "the file `.git` of a submodule led elsewhere", before: "repo s; repo r; cd r; g submodule --quiet add ../s s; g commit -q -m s",
        inside: "cd r; skeleton e; evil e/config; hook e/hooks/pre-commit; head e; echo gitdir: ../e >s/.git; rm s/.git; ln -s ../e s/.git", trigger: "git -C r/s status; again r/s" },
    Attack { name: "the file `.git` of a linked work tree led elsewhere", before: "repo r; (cd r; g worktree add -q ../w topic)",
        inside: "skeleton e; evil e/config; hook e/hooks/pre-commit; head e; echo gitdir: ../e >w/.git; rm w/.git; echo gitdir: ../e >w/.git; rm w/.git; skeleton w/.git; hook w/.git/hooks/pre-commit; head w/.git", trigger: "git -C w status; again w" },
    Attack { name: "configuration of a copy written by hand", before: "",
        inside: "repo r; worse x; mkdir e f b; cp -r r/.git e; rm e/.git/config; cp x e/.git/config; cp -r r/.git f; rm f/.git/config; exec 3>f/.git/config; cat r/.git/config >&3; (exec 4>/proc/self/fd/3; cat x >&4); mv f/.git f/g; mv f/g f/.git; cat x >&3; ls >/dev/null; cat x >>f/.git/config; cat x >f/.git/n; mv f/.git/n f/.git/config; cp -r r/.git/. b; rm -f b/config; cat x >b/config; ln x b/config; cp x b/n; mv b/n b/config", trigger: "git -C e status; git -C f status; git -C b status" },
    Attack { name: "a linked work tree with settings of its own", before: "repo r",
        inside: "mkdir -p r/.git/worktrees/x w; cd r/.git/worktrees/x; evil config; hook ../hook; mkdir hooks; hook hooks/pre-commit; echo $PWD/../../../../w/.git >gitdir; echo . >commondir; mkdir objects refs; head .; echo gitdir: $PWD >../../../../w/.git", trigger: "git -C w status; again w" },
    Attack { name: "modules of a repository that is none yet", before: "",
        inside: "mkdir -p r; cd r; mkdir g; skeleton g/modules/s; hook g/modules/s/hooks/pre-commit; evil g/modules/s/config; head g/modules/s; skeleton g; head g; mv g .git; mkdir s; echo gitdir: ../.git/modules/s >s/.git", trigger: "git -C r/s status; again r/s" },
    Attack { name: "the work tree of a submodule elsewhere", before: "repo s; repo r; cd r; g submodule --quiet add ../s s; g commit -q -m s; mkdir $T/home/d$N",
        inside: "cd r; git -C s config core.worktree ../../../../../../home/d$N; git -C s config core.worktree $T/home/d$N", trigger: "cd r/.git/modules/s; git checkout -q -f main; ! test -e $T/home/d$N/a || $CMD" },
    Attack { name: "a work tree that a link leads elsewhere", before: "repo r; mkdir $T/home/l$N",
        inside: "ln -s $T/home/l$N link; git -C r config core.worktree ../../link", trigger: "cd r; git checkout -q -f main; ! test -e $T/home/l$N/a || $CMD" },
    Attack { name: "a work tree that a move leads elsewhere", before: "mkdir -p d/d/d $T/home/m$N",
        inside: "repo d/d/d/r; up=$(realpath -m --relative-to=$PWD/r/.git $T/home/m$N); git -C d/d/d/r config core.worktree $up; mv d/d/d/r r", trigger: "cd r; git checkout -q -f main; ! test -e $T/home/m$N/a || $CMD" },
];

/// All attacks on one kind of repository: first outside, then in one sandbox, each in its own directory.
fn all(kind: &Kind) {
    let each = |what: fn(&Attack) -> &'static str, eager: bool| {
        let mut script = format!("{LIB}\n");
        for (n, attack) in ATTACKS.iter().enumerate() {
            let set = if eager { "-eu" } else { "+eu" };
            let step = format!(
                "mkdir -p {n}; set +e\n(begin {n}; set {set}; cd {n}\n{}\n) </dev/null\n[ $? = 0 ] || {} echo '! failed' {n}\necho '# {n}'; set -e\n",
                what(attack),
                if eager { "" } else { ":" },
            );
            script.push_str(&step);
        }
        script
    };
    let before = each(|a| a.before, true);
    let attack = each(|a| a.inside, false);
    let trigger = each(|a| a.trigger, false);
    let guarded = format!("{LIB}\nguarded .");
    let last = format!("# {}", ATTACKS.len() - 1);
    let [control, boxed] = [Place::new(kind), Place::new(kind)];
    let mut had = String::new();
    for (place, is_control) in [(&control, true), (&boxed, false)] {
        let out = well(place.outside(&before), "before");
        assert!(!out.contains("! failed"), "{out}");
        had = well(place.outside(&guarded), "guarded");
        let ran = if is_control {
            place.outside(&attack)
        } else {
            place.inside(&attack)
        };
        assert!(
            ran.stdout.lines().any(|l| l == last),
            "an attack ended it all: {}\n{}",
            ran.stdout,
            ran.stderr
        );
    }
    for (place, want) in [(&control, true), (&boxed, false)] {
        let _ = place.outside(&trigger);
        let wrong: Vec<_> = ATTACKS
            .iter()
            .enumerate()
            .filter(|(n, _)| place.desk.path().join(format!("PWNED-{n}")).exists() != want)
            .map(|(n, a)| format!("{n} {}", a.name))
            .collect();
        let words = if want {
            "the control did not work"
        } else {
            "it worked inside"
        };
        assert!(wrong.is_empty(), "{kind:?}: {words}: {wrong:#?}");
    }
    // What was there is there, byte for byte; new files are judged by what they do.
    let has = well(boxed.outside(&guarded), "guarded");
    let has: Vec<&str> = has.lines().collect();
    for line in had.lines() {
        assert!(has.contains(&line), "{kind:?}: changed: {line}");
    }
}

#[test]
fn nothing_that_git_would_run_gets_in() {
    every("", all);
}

#[test]
fn nothing_that_git_would_run_gets_in_with_sha256() {
    every(SHA256, all);
}

#[test]
fn nothing_that_git_would_run_gets_in_with_reftable() {
    every(REFTABLE, all);
}
