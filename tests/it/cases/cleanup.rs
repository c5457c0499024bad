//! Nothing is left, and nothing of the user's is taken away.

use super::cases;

const ABSENT: &str = "protected_paths = [\"ws/.bashrc\", \"ws/.gitconfig\", \"ws/.env\", \"ws/.vscode/settings.json\", \"ws/.idea/\", \"ws/x/y/z\"]";

/// CL-1: after a normal run.
#[test]
fn a_run_leaves_nothing() {
    for c in cases() {
        c.spec(ABSENT, "", "");
        let script = "git init -q ws; mkdir tmpd; find ws tmpd | sort > a; export TMPDIR=$T/tmpd; $R true; $R false; $R /nonexistent
            git -C ws status --porcelain; find ws tmpd | sort | diff a -";
        c.steps(script).prints("");
    }
}

/// CL-2: after ccbox or the command was killed; no process survives either.
#[test]
fn a_killed_run_leaves_nothing() {
    for c in cases() {
        c.raw_spec(&format!(
            "{ABSENT}\n[[bind_mounts]]\nhost_path = \"@T@/ws\"\n[filesystem]\nview = \"host\"\n"
        ));
        let script = "set -m; git init -q ws; N=61.$$; export XDG_RUNTIME_DIR=$T/rt TMPDIR=$T/tmpd; mkdir rt tmpd
            for s in TERM INT HUP KILL; do
              env -C ws ccbox run --spec $T/spec.toml -- sh -c \"touch ../up ../ws/.git/up; exec sleep $N\" & P=$!
              for i in $(seq 200); do [ -e ws/.git/up ] && break; sleep .02; done; rm ws/.git/up
              kill -$s $P; wait $P 2>/dev/null; done
            for i in $(seq 100); do pgrep -f \"sleep $N\" >/dev/null || break; sleep .05; done; pgrep -f \"sleep $N\"
            $R sh -c 'kill -KILL $PPID; kill -KILL -1; kill -KILL 0'; echo rc=$?
            git -C ws status --porcelain; find ws -size 0 -not -path '*/.git/*'; ls -A rt tmpd; pgrep -f $T/spec.toml
            # Control: a placeholder would be seen.
            : > ws/.env; git -C ws status --porcelain; find ws -size 0 -not -path '*/.git/*'";
        c.steps(script)
            .prints("rc=137\nrt:\n\ntmpd:\n?? .env\nws/.env\n");
    }
}

/// CL-3: during the run nothing stands in the workspace that was not there before.
#[test]
fn nothing_appears_while_a_run_goes_on() {
    for c in cases() {
        c.spec(ABSENT, "", "");
        let script = "git init -q ws; touch -d '1 hour ago' ws; M=$(stat -c %Y ws); find ws | sort > a; mkfifo go
            $R sh -c 'echo up; cat '$T'/go' > up & while ! grep -q up up; do sleep .02; done
            git -C ws status --porcelain; find ws | sort | diff a -; echo > go; wait; [ $M = $(stat -c %Y ws) ] && echo same";
        c.steps(script).prints("same\n");
    }
}

/// CL-5: an empty file of the user's, and one made during the run, stay.
#[test]
fn files_of_the_user_stay() {
    for c in cases() {
        c.spec("protected_paths = [\"ws/.env\", \"ws/.npmrc\"]", "", "");
        let script = ": > ws/.env; mkfifo go; $R sh -c 'echo up; cat '$T'/go' > up & while ! grep -q up up; do sleep .02; done
            echo mine > ws/.npmrc; echo > go; wait; ls -A ws; cat ws/.npmrc";
        c.steps(script).prints(".env\n.npmrc\nmine\n");
    }
}

/// CL-6: many runs leave no mounts, no namespaces and no files on the host, but for what was denied in the last twenty.
#[test]
fn many_runs_leave_no_trace() {
    for c in cases() {
        c.raw_spec(&format!(
            "{ABSENT}\n[[bind_mounts]]\nhost_path = \"@T@/ws\"\n[filesystem]\nview = \"host\"\n"
        ));
        let script = "export TMPDIR=$T; $R true; touch m f n; sort /proc/self/mountinfo > m; list() { find $T/.. -name denials -prune -o -print | sort; }; list > f; $COUNT > n
            for i in $(seq 50); do $R true || echo failed; $R sh -c 'touch .env; (sleep 9 &)' 2>/dev/null; done
            sort /proc/self/mountinfo | diff m -; list | diff f -; $COUNT | diff n -; pgrep -f $T/spec.toml; find /tmp/.ccbox-$(id -u)/lock -newer m; ls ~/.local/state/ccbox/denials | wc -l";
        if nix::unistd::geteuid().is_root() {
            // Alone in a process namespace the namespaces that are left can be counted.
            let alone = format!(
                "COUNT='lsns -n -o TYPE' unshare -pf --mount-proc $AS bash -c '{}'; $AS true",
                script.replace('\'', "'\\''")
            );
            c.root_steps(&alone).prints("20\n");
        } else {
            c.steps(&format!("COUNT=true; {script}")).prints("20\n");
        }
    }
}

/// CL-4, the part about caches: a later run does not break what an earlier one writes. The first holds the shared layer (it has said
/// `up`); every other one gets a layer of its own that goes with it.
#[test]
fn parallel_runs_do_not_break_each_others_caches() {
    for c in cases() {
        c.raw_spec(
            "network_enabled = false\n[[bind_mounts]]\nhost_path = \"@T@/ws\"\n[filesystem]\nallow_read = [\"~\"]\n",
        );
        let script = r"mkdir -p ~/.cache/d; for i in 1 2 3 4 5 6; do echo $i > ~/.cache/e$i; done
            $R sh -c 'touch up; for i in 1 2 3 4 5 6; do while [ ! -e go$i ]; do sleep .02; done; echo A >> ~/.cache/e$i || echo append
              mkdir ~/.cache/d/A$i || echo mkdir; echo n > ~/.cache/n; mv ~/.cache/n ~/.cache/d/A$i/ || echo mv; rm ~/.cache/e$i || echo rm; done
              ls ~/.cache' &
            while [ ! -e ws/up ]; do sleep .02; done
            for i in 1 2 3 4 5 6; do $R sh -c 'echo B > ~/.cache/B && cat ~/.cache/B' >> bs; touch ws/go$i; done; wait
            uniq -c bs | tr -d ' '; $R sh -c 'ls ~/.cache/d | wc -l'; ls ~/.cache; ls ~/.local/state/ccbox/caches/*/work | grep -c run-";
        c.steps(script)
            .prints("d\n6B\n6\nd\ne1\ne2\ne3\ne4\ne5\ne6\n0\n");
    }
}
