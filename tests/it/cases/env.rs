//! What the command's environment holds.

use super::cases;

/// EN-1: variables that load code into every program are dropped; `env.pass` brings one back.
#[test]
fn loader_and_interpreter_variables_do_not_pass() {
    for c in cases() {
        c.spec("", "", "[env]\npass = [\"RUBYOPT\"]\n");
        let script = "for v in LD_AUDIT LD_LIBRARY_PATH DYLD_INSERT_LIBRARIES NODE_OPTIONS BASH_ENV ENV PYTHONSTARTUP PERL5OPT GIT_SSH_COMMAND \
            GIT_EXTERNAL_DIFF JAVA_TOOL_OPTIONS PROMPT_COMMAND RUBYOPT GCONV_PATH PS4 ZDOTDIR GIT_EXEC_PATH; do export $v=/x; done
            export LD_PRELOAD=/x; $R env 2>/dev/null | grep -E '=/x$'; LD_PRELOAD= $R /proc/self/exe 2>/dev/null; env | grep -c '=/x$'";
        c.steps(script).prints("RUBYOPT=/x\n18\n");
    }
}

/// EN-2: a removed variable is in no process of the sandbox, and no command line in there names paths of the host.
#[test]
fn removed_variables_are_nowhere_inside() {
    for c in cases() {
        c.spec("", "", "[env]\nunset = [\"TOKEN\"]\n");
        let script = r#"export TOKEN=TOPSECRET
            cat > look.sh <<'X'
cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr "\0" "\n" | grep -c "TOPSECRE[T]"
readlink /proc/1/exe || echo closed
tr "\0" " " < /proc/1/cmdline | grep -c "$PWD"
X
            $R bash $T/look.sh; [ "$(bash look.sh | head -1)" -gt 0 ] && echo control"#;
        c.steps(script).prints("0\nclosed\n0\ncontrol\n");
    }
}

/// EN-3: helpers are found at fixed places and start with a clean environment.
#[test]
fn helpers_are_not_taken_from_path() {
    for c in cases() {
        c.spec("", "", "");
        let script = r#"mkdir -p ws/bin; for b in bwrap socat git sh rg unshare newuidmap sandbox-exec ssh nc; do
              printf '#!/bin/sh\necho $0 >> %s/HIJACK\nexit 1\n' $T > ws/bin/$b; chmod +x ws/bin/$b; done
            printf '#include <stdio.h>\n__attribute__((constructor)) static void f(void){FILE*o=fopen("%s/HIJACK","a");if(o)fputs("preload",o);}\n' $T > p.c
            gcc -shared -fPIC -o p.so p.c
            cd ws; export PATH=$PWD/bin:.:$PATH; LD_PRELOAD=$T/p.so /usr/bin/true; ls ../HIJACK; rm ../HIJACK
            C=$(command -v ccbox); for m in require on; do $C run --sandbox $m --spec $T/spec.toml -- /usr/bin/env > ../env; echo rc=$?; done
            ls ../HIJACK 2>/dev/null; grep -c "^PATH=$PWD/bin:.:" ../env"#;
        c.steps(script).prints("../HIJACK\nrc=0\nrc=0\n1\n");
    }
}

/// EN-4: temporary files work, whatever the caller's TMPDIR, and leave nothing.
#[test]
fn temporary_files_work_and_leave_nothing() {
    for c in cases() {
        c.spec("", "", "");
        let script = r#"mkdir mytmp; before=$(ls -A /tmp | wc -l)
            for d in $T/mytmp /nonexistent relative '' /etc $'/tmp/odd\nname'; do TMPDIR=$d TMPPREFIX=/nonexistent/zsh $R bash -c 'f=$(mktemp) && echo -n 1; cat <<X
2
X
python3 -c "import tempfile;tempfile.NamedTemporaryFile();print(3)"; sort -S1k -T "$TMPDIR" /etc/passwd >/dev/null && echo "4 $TMPDIR"; zsh -fc "cat <<X
5
X"'; done
            ls mytmp | wc -l"#;
        c.steps(script)
            .prints(&("12\n3\n4 /tmp\n5\n".repeat(6) + "0\n"));
    }
}

/// EN-5: ordinary variables arrive byte for byte.
#[test]
fn ordinary_variables_are_kept_exactly() {
    for c in cases() {
        c.spec("", "caches = \"none\"", "");
        let script = r"export A_NL=$'l1\nl2' A_EQ='a=b=c' A_EMPTY= A_U='ü' A_BYTE=$'\xff' TERM=xterm USER=me LANG=de_DE.UTF-8
            env -0 | grep -zavE '^(_|PWD|OLDPWD|SHLVL)=' | sort -z > a
            $R env -0 | grep -zavE '^(_|PWD|OLDPWD|SHLVL|.*[Pp][Rr][Oo][Xx][Yy].*|TMPDIR|CCBOX.*|GIT_SSH_COMMAND|JAVA_TOOL_OPTIONS)=' | sort -z > b
            cmp a b && echo same; $R sh -c 'echo $PWD'";
        c.steps(script)
            .prints(&format!("same\n{}/ws\n", c.t().display()));
    }
}

/// EN-6: without isolation the environment is scrubbed all the same, and one line says that nothing is isolated.
#[test]
fn backend_none_scrubs_and_says_so() {
    for c in cases() {
        c.spec("backend = \"none\"", "", "");
        let script = "BASH_ENV=/x NODE_OPTIONS=/x TOKEN=s $R sh -c 'env | grep -cE \"=/x$\"; touch '$T'/outside && echo wrote'; ls outside";
        let done = c.steps(script);
        done.prints("0\nwrote\noutside\n")
            .says(&["none", "nothing is isolated"]);
        assert_eq!(done.err.matches("ccbox:").count(), 1, "{}", done.err);
    }
}
