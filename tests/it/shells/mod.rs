//! Shell mode: ccbox in the place of a program's shell.

mod terminal;

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Box, CCBOX, Ran, program, require_sandbox};

/// A workspace with shell mode in it, under its other name.
fn with_shell() -> (Box, PathBuf) {
    let b = Box::new();
    let shell = b.ws().join("ccbox-sh");
    symlink(CCBOX, &shell).unwrap();
    (b, shell)
}

/// A program of the caller's, in the workspace, with the environment of a call and ccbox on its PATH.
fn outside(b: &Box, name: &str, args: &[&str]) -> Ran {
    let model = b.ccbox(&["sh"]);
    let mut command = Command::new(program(name));
    let bin = Path::new(CCBOX).parent().unwrap().display();
    command
        .args(args)
        .current_dir(b.ws())
        .env_clear()
        .envs(model.get_envs().filter_map(|(k, v)| Some((k, v?))))
        .env("PATH", format!("{bin}:/usr/local/bin:/usr/bin:/bin"));
    Ran::of(&mut command)
}

#[test]
fn it_is_a_shell_under_three_names() {
    if !require_sandbox() {
        return;
    }
    let (b, shell) = with_shell();
    let text = "echo $CCBOX $0 $1 \"$2\"; exit 3";
    b.call(&["-c", text, "zero", "a", "b c"])
        .expect(3, "1 zero a b c\n", "");
    b.call(&["sh", "-c", text, "zero", "a", "b c"])
        .expect(3, "1 zero a b c\n", "");
    let named = |args: &[&str]| {
        let mut call = b.ccbox(&[""; 0]);
        let mut named = Command::new(&shell);
        named.args(args).current_dir(b.ws()).env_clear().envs(
            call.env("X", "")
                .get_envs()
                .filter_map(|(k, v)| Some((k, v?))),
        );
        Ran::of(&mut named)
    };
    named(&["-c", text, "zero", "a", "b c"]).expect(3, "1 zero a b c\n", "");
    // What follows the shell's own options, and how it ends, is the shell's.
    b.call(&["-ec", "false; echo not"]).expect(1, "", "");
    b.call(&["-c", "kill -9 $$"]).expect(137, "", "");
    assert_eq!(b.call(&["-c"]).code, 2);
    std::fs::write(b.ws().join("script"), "echo script $1\n").unwrap();
    named(&["script", "x"]).expect(0, "script x\n", "");
    b.call(&["sh", "script", "x"]).expect(0, "script x\n", "");
    // The rules are those of any call without a given spec.
    let denied = b.call(&["-c", "echo x > ~/x"]);
    assert_eq!(denied.code, 2);
    assert!(
        denied.stderr.contains("ccbox: denied file-write-create"),
        "{}",
        denied.stderr
    );
    assert!(!b.path().join("home/x").exists());
}

#[test]
fn the_variable_names_its_spec() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().spec("[[bind_mounts]]\nhost_path = \"@T@/ws\"\nread_only = true\n");
    let b = {
        let spec = b.path().join("spec.toml");
        b.env("CCBOX_SPEC", spec)
    };
    let denied = b.call(&["-c", "echo x > made"]);
    assert_eq!(denied.code, 2, "{}", denied.stderr);
    assert!(!b.ws().join("made").exists());
}

const MAKEFILE: &str = "SHELL = ccbox\n.SHELLFLAGS = -ec\n.ONESHELL:\nall: sub other\n\tx=one\n\techo $$x inside=$$CCBOX\n\
    \tfalse || echo went on\nsub:\n\t@$(MAKE) --no-print-directory -C lower\nother:\n\t@echo other > other.txt\n\
    bad:\n\techo x > $(HOME)/outside\n\techo not reached\n.PHONY: all sub other bad\n";

/// PR-13 and semantics 46: one shell for a whole recipe, a make below it whose own shell is ccbox, the job server.
#[test]
fn make_runs_its_recipes_in_it() {
    if !require_sandbox() {
        return;
    }
    let (b, _) = with_shell();
    std::fs::write(b.ws().join("Makefile"), MAKEFILE).unwrap();
    std::fs::create_dir(b.ws().join("lower")).unwrap();
    let lower =
        "SHELL = ccbox\nall: a b\na b:\n\t@echo $@ $$CCBOX > ../lower-$@\n.PHONY: all a b\n";
    std::fs::write(b.ws().join("lower/Makefile"), lower).unwrap();
    let made = outside(&b, "make", &["-s", "-j3", "all"]);
    made.expect(0, "one inside=1\nwent on\n", "");
    let read = |name: &str| std::fs::read_to_string(b.ws().join(name)).unwrap();
    assert_eq!(
        (read("lower-a"), read("lower-b")),
        ("a 1\n".into(), "b 1\n".into())
    );
    assert_eq!(read("other.txt"), "other\n");
    let bad = outside(&b, "make", &["-s", "bad"]);
    assert_eq!((bad.code, bad.stdout.as_str()), (2, ""), "{}", bad.stderr);
    assert!(
        bad.stderr.contains("ccbox: denied file-write-create"),
        "{}",
        bad.stderr
    );
    assert!(!b.path().join("home/outside").exists());
    // The default flags, and a make that is inside as a whole.
    let plain = MAKEFILE.replace(".SHELLFLAGS = -ec\n.ONESHELL:\n", "");
    let plain = plain.replace(
        "\tx=one\n\techo $$x inside=$$CCBOX\n",
        "\techo inside=$$CCBOX\n",
    );
    std::fs::write(b.ws().join("Makefile"), plain).unwrap();
    outside(&b, "make", &["-s", "all"]).expect(0, "inside=1\nwent on\n", "");
    outside(
        &b,
        "env",
        &["ccbox", "run", "--", "make", "-s", "-j2", "all"],
    )
    .expect(0, "inside=1\nwent on\n", "");
    // Another shell, with a spec.
    let bash = "SHELL = ccbox\n.SHELLFLAGS = run --spec ../spec.toml -- bash -o pipefail -c\nall:\n\t@false | true || echo pipe $$CCBOX\n";
    std::fs::write(b.ws().join("Makefile"), bash).unwrap();
    let b = b.workspace_spec();
    outside(&b, "make", &["-s", "all"]).expect(0, "pipe 1\n", "");
}

#[test]
fn npm_runs_its_scripts_in_it() {
    if !require_sandbox() {
        return;
    }
    let (b, shell) = with_shell();
    let package = r#"{"name":"x","version":"1.0.0","scripts":{"build":"echo inside=$CCBOX > out; echo x > ~/outside"}}"#;
    std::fs::write(b.ws().join("package.json"), package).unwrap();
    let shell = shell.to_str().unwrap();
    let ran = outside(
        &b,
        "npm",
        &[
            "run",
            "--silent",
            "--offline",
            "--no-update-notifier",
            "--script-shell",
            shell,
            "build",
        ],
    );
    assert_eq!(
        std::fs::read_to_string(b.ws().join("out")).unwrap_or_default(),
        "inside=1\n",
        "{ran:?}"
    );
    assert_ne!(ran.code, 0);
    assert!(ran.stderr.contains("ccbox: denied"), "{}", ran.stderr);
    assert!(!b.path().join("home/outside").exists());
}

#[test]
fn python_and_node_take_it_as_their_shell() {
    if !require_sandbox() {
        return;
    }
    let (b, shell) = with_shell();
    let shell = shell.to_str().unwrap();
    let python = format!(
        "import subprocess\nfor shell in ({shell:?}, {CCBOX:?}):\n    r = subprocess.run('echo in=$CCBOX; echo x > ~/outside', shell=True, executable=shell, capture_output=True, text=True)\n    \
         print(r.returncode, r.stdout.strip(), 'denied' in r.stderr)\n"
    );
    outside(&b, "python3", &["-c", &python]).expect(0, "2 in=1 True\n2 in=1 True\n", "");
    let node = format!(
        "const {{execSync, spawnSync}} = require('child_process');\nprocess.stdout.write(execSync('echo in=$CCBOX', {{shell: {shell:?}}}));\n\
         const r = spawnSync('echo x > ~/outside', {{shell: {CCBOX:?}}});\nconsole.log(r.status, String(r.stderr).includes('denied'));\n"
    );
    outside(&b, "node", &["-e", &node]).expect(0, "in=1\n2 true\n", "");
    assert!(!b.path().join("home/outside").exists());
}

#[test]
fn scripts_name_it_in_their_first_line() {
    if !require_sandbox() {
        return;
    }
    let (b, shell) = with_shell();
    let script = |name: &str, text: &str| {
        let path = b.ws().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let body = "echo \"$CCBOX $1\"; (echo x > ~/outside) 2>/dev/null || echo closed\n";
    for (name, first) in [
        ("env", "#!/usr/bin/env -S ccbox sh".to_owned()),
        (
            "run",
            "#!/usr/bin/env -S ccbox run -q -- bash -u".to_owned(),
        ),
        ("named", format!("#!{}", shell.display())),
    ] {
        let path = script(name, &format!("{first}\n{body}"));
        let ran = outside(&b, "env", &[&path, "a b"]);
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (0, "1 a b\nclosed\n"),
            "{}",
            ran.stderr
        );
    }
    let python = script(
        "python",
        "#!/usr/bin/env -S ccbox run -- python3\nimport os, sys\nprint(os.environ['CCBOX'], sys.argv[1:])\n",
    );
    outside(&b, "env", &[&python, "a b"]).expect(0, "1 ['a b']\n", "");
    assert!(!b.path().join("home/outside").exists());
}
