//! Programs that are not executed (`exec.deny_writable`).

use std::os::unix::fs::PermissionsExt;

use crate::support::{Box, require_sandbox};

use super::{own_lines, without_pid};

const SPEC: &str = "[[bind_mounts]]\nhost_path = \"@T@/ws\"\n[exec]\ndeny_writable = true\n[network]\nmode = \"off\"\n";

fn script(b: &Box, name: &str, text: &str, mode: u32) {
    let path = b.ws().join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn set_up(spec: &str) -> Box {
    let b = Box::new().spec(spec);
    std::fs::create_dir(b.ws().join("dir")).unwrap();
    script(&b, "tool", "#!/bin/sh\necho ran\n", 0o755);
    script(&b, "plain", "#!/bin/sh\necho ran\n", 0o644);
    std::os::unix::fs::symlink("tool", b.ws().join("link")).unwrap();
    b
}

#[test]
fn a_program_that_is_not_executed_is_told_with_the_line_that_opens_it() {
    if !require_sandbox() {
        return;
    }
    let b = set_up(SPEC);
    // What cannot be executed outside either, and what is read and not executed, is not told.
    let call = "import os
def run(path, *how):
    try: os.execv(path, ['x']) if not how else os.execve(*how, ['x'], {})
    except OSError as e: print(e.errno)
run('./plain'); run('./dir'); run('./none'); run('./link'); run('', os.open('tool', os.O_RDONLY))
import subprocess
print(subprocess.run(['sh', './tool'], capture_output=True, text=True).stdout, end='')
";
    let ran = b.run(&["python3", "-c", call]);
    assert_eq!(ran.stdout, "13\n13\n2\n13\n13\nran\n", "{}", ran.stderr);
    let tool = b.ws().canonicalize().unwrap().join("tool");
    let lines: Vec<String> = own_lines(&ran).iter().map(|l| without_pid(l)).collect();
    let path = tool.display();
    assert_eq!(
        lines,
        [
            format!(
                "ccbox: denied process-exec {path} [python3]: exec.deny_writable: the command can write here"
            ),
            format!("ccbox: hint: exec_grant_roots = [\"{path}\"]"),
            format!("ccbox: 2 times: process-exec {path} [python3]"),
        ]
    );
    // With the line it runs.
    let line = lines[1].strip_prefix("ccbox: hint: ").unwrap();
    let b = set_up(&format!("{line}\n{SPEC}").replace(&b.path().display().to_string(), "@T@"));
    let ran = b.run(&["./link"]);
    ran.expect(0, "ran\n", "");
}

/// A script is refused for the program that reads it.
#[test]
fn an_interpreter_in_a_writable_place_is_named() {
    if !require_sandbox() {
        return;
    }
    let spec = format!("exec_grant_roots = [\"@T@/ws/bin\"]\n{SPEC}");
    let b = set_up(&spec);
    std::fs::create_dir(b.ws().join("bin")).unwrap();
    let tool = b.ws().canonicalize().unwrap().join("own-sh");
    std::fs::copy("/bin/sh", &tool).unwrap();
    script(&b, "bin/script", &format!("#!{}\n", tool.display()), 0o755);
    let ran = b.run(&["sh", "-c", "./bin/script"]);
    assert_eq!(ran.code, 126, "{}", ran.stderr);
    let lines = own_lines(&ran);
    assert!(
        lines[0].contains(&format!("process-exec {} [", tool.display())),
        "{lines:?}"
    );
}
