//! Whole calls as on macOS, with stand-ins for its programs: what `ccbox run` asks of them and what it makes of their answers.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, ExitCode, Output, Stdio};

use ccbox::cli::Machine;
use ccbox::host::Platform;
use ccbox::session::seatbelt::Tools;

use crate::Case;
use crate::support::{Dir, eventually, exe, kill, shell_code, spawn_group, stderr, stdout};

pub(crate) const CASES: &[Case] = &[
    ("a call on macOS runs through sandbox-exec", whole),
    ("a call on macOS ends as its command does", ends),
    ("the proxies of macOS want the token of their run", token),
    ("temporary files of a run on macOS go with it", scratch),
    ("denials on macOS are told as on Linux", denials),
    ("the log of macOS is searched once after a failure", search),
    ("denials that nobody can read are said to be unseen", blind),
    ("a profile that macOS rejects is an own failure", rejected),
    ("root on macOS is refused", root),
    (
        "inside a sandbox of ccbox nothing is sandboxed twice on macOS",
        nested,
    ),
    ("what is only printed for macOS runs nothing", printed),
    ("the probe of macOS tries a real denial", probe),
    (
        "directories that cannot be made on macOS are announced",
        unmade,
    ),
    ("no sandbox on macOS and `--sandbox on`", lowered),
    ("an open network on macOS has no proxies", open),
];

/// As `/usr/bin/sandbox-exec`.
const SANDBOX_EXEC: &str = r#"#!/bin/sh
here=$(dirname "$0")
echo run >>"$here/runs"
printf '%s\n' "$1" "$3" "$4" "$5" >"$here/asked"
[ "$1" = -f ] && cat "$2" >"$here/profile" || printf '%s' "$2" >"$here/profile"
if [ -e "$here/answer" ]; then
    code=$(head -n 1 "$here/answer"); tail -n +2 "$here/answer" >&2; exit "$code"
fi
shift 3
exec "$@"
"#;

/// As `/usr/bin/log`: the lines of `stream` or `show`, each a message of the kernel; `TAG` is that of the run.
const LOG: &str = r#"#!/bin/sh
here=$(dirname "$0")
[ "$1" = stream ] && echo 'Filtering the log data using "x"'
echo "$1" >>"$here/logs"
tag=$(printf '%s' "$*" | grep -o 'ccbox-[0-9a-f]*' | head -n 1)
if [ -e "$here/$1" ]; then
    while IFS= read -r line; do
        printf '{"processID":0,"senderImagePath":"/x/Sandbox","eventMessage":"%s"}\n' "$line" | sed "s/TAG/$tag/"
    done <"$here/$1"
fi
[ "$1" = show ] || exec sleep 4310
"#;

/// `mac HERE UID …`: a call of ccbox on a machine whose programs are in HERE.
pub(crate) fn main(args: &[OsString]) -> ExitCode {
    let here = Path::new(&args[0]);
    let machine = Machine {
        platform: Platform::Macos,
        tools: Tools {
            sandbox_exec: here.join("sandbox-exec"),
            log: here.join("log"),
        },
        uid: args[1].to_str().unwrap().parse().unwrap(),
    };
    let mut words = vec![OsString::from("ccbox")];
    words.extend_from_slice(&args[2..]);
    ccbox::cli::main_on(&words, &machine)
}

/// A machine, a project and a home.
struct Mac {
    dir: Dir,
}

impl Mac {
    fn new() -> Self {
        let dir = Dir::new();
        for name in ["tools", "home", "proj", "temp"] {
            std::fs::create_dir(dir.0.join(name)).unwrap();
        }
        let mac = Self { dir };
        for (name, text) in [("sandbox-exec", SANDBOX_EXEC), ("log", LOG)] {
            mac.put(name, text);
            let path = mac.dir.0.join("tools").join(name);
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        mac
    }

    fn put(&self, name: &str, text: &str) {
        std::fs::write(self.dir.0.join("tools").join(name), text).unwrap();
    }

    /// What a stand-in wrote down.
    fn seen(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.0.join("tools").join(name)).unwrap_or_default()
    }

    fn proj(&self) -> std::path::PathBuf {
        self.dir.0.join("proj").canonicalize().unwrap()
    }

    fn call_as(&self, uid: &str, args: &[&str]) -> Command {
        let mut c = Command::new(exe());
        c.arg("mac")
            .arg(self.dir.0.join("tools"))
            .arg(uid)
            .args(args);
        c.current_dir(self.proj()).stdin(Stdio::null());
        c.env_clear().envs([("PATH", "/usr/bin:/bin")]);
        c.env("HOME", self.dir.0.join("home"));
        c.env("TMPDIR", self.dir.0.join("temp"));
        c
    }

    fn call(&self, args: &[&str]) -> Command {
        self.call_as("1000", args)
    }

    fn sh(&self, options: &[&str], script: &str) -> Command {
        self.call(&[&["run"], options, &["--", "bash", "-c", script]].concat())
    }
}

#[track_caller]
fn ok(out: &Output) -> String {
    assert!(out.status.success(), "{}", stderr(out));
    stdout(out)
}

/// Everything a call without a spec gets: rules, tag, port, environment, events.
fn whole() {
    let mac = Mac::new();
    let out = mac
        .sh(
            &["-v", "--events", "../events"],
            "echo $HTTP_PROXY $CCBOX_BACKEND; echo x > made; pwd",
        )
        .env("LD_PRELOAD", "")
        .env("DYLD_INSERT_LIBRARIES", "/evil")
        .output()
        .unwrap();
    let text = ok(&out);
    let mut lines = text.lines();
    let proxy = lines.next().unwrap();
    let port = proxy.strip_suffix(" native").unwrap();
    let port = port.rsplit_once(':').unwrap().1;
    assert_eq!(lines.next(), mac.proj().to_str());
    assert_eq!(
        std::fs::read_to_string(mac.proj().join("made")).unwrap(),
        "x\n"
    );
    let profile = mac.seen("profile");
    assert!(
        profile.starts_with("(version 1)\n(allow default)\n"),
        "{profile}"
    );
    assert!(profile.contains(&format!("(remote ip \"localhost:{port}\")")));
    assert!(profile.contains(&format!("(subpath \"{}\")", mac.proj().display())));
    assert!(profile.contains(&format!("{}/.ssh\"", mac.dir.0.join("home").display())));
    let tagged = profile.matches("(with message \"ccbox-").count();
    assert!(tagged > 15 && tagged == profile.matches("(deny ").count());
    // The length decides which way it is handed over.
    let way = if profile.len() > 200 * 1024 {
        "-f"
    } else {
        "-p"
    };
    assert_eq!(mac.seen("asked").lines().next(), Some(way));
    assert!(stderr(&out).contains("sandbox ON (native, seatbelt)"));
    assert!(stderr(&out).contains("enforced: engine=seatbelt fs=profile net=proxy env"));
    assert!(stderr(&out).contains("DYLD_INSERT_LIBRARIES (injection)"));
    let events = std::fs::read_to_string(mac.dir.0.join("events")).unwrap();
    assert!(events.contains("\"engine\":\"seatbelt\"") && events.contains("\"exit_code\":0"));
    // Another run has another tag, port and token.
    let tag = |text: &str| text.split("ccbox-").nth(1).unwrap()[..16].to_owned();
    let again = mac.sh(&[], "echo $HTTP_PROXY native").output().unwrap();
    assert_ne!(ok(&again).lines().next(), Some(proxy));
    assert_ne!(tag(&mac.seen("profile")), tag(&profile));
    assert_eq!(stderr(&again), "");
}

fn ends() {
    let mac = Mac::new();
    for (script, code) in [("exit 7", 7), ("exit 71", 71), ("kill -TERM $$", 143)] {
        let out = mac.sh(&[], script).output().unwrap();
        assert_eq!(shell_code(out.status), code, "{}", stderr(&out));
    }
    for (name, code) in [("/no/such", 127), ("/etc/passwd", 126)] {
        let out = mac.call(&["run", "--", name]).output().unwrap();
        assert_eq!(out.status.code(), Some(code), "{}", stderr(&out));
        assert!(stderr(&out).contains(&format!("ccbox: error: cannot run `{name}`")));
    }
}

/// Others of this host can reach the port, too.
fn token() {
    let mac = Mac::new();
    let ask = r#"
        port=${HTTP_PROXY##*:}
        login=${HTTP_PROXY#http://}; login=${login%@*}
        for host in 127.0.0.1 ::1; do
            for auth in "" "Proxy-Authorization: Basic $(printf %s "$login" | base64 -w0)"$'\r\n'; do
                exec 3<>/dev/tcp/$host/$port || { echo closed; continue; }
                printf 'GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n%s\r\n' "$auth" >&3
                head -n 1 <&3
            done
        done"#;
    let out = mac.sh(&[], ask).output().unwrap();
    let answers: Vec<String> = ok(&out)
        .lines()
        .map(|l| l.split(' ').nth(1).unwrap_or(l).to_owned())
        .collect();
    let one = ["407", "403"];
    let v6 = std::net::TcpListener::bind("[::1]:0").is_ok();
    let wanted = if v6 {
        [one, one].concat()
    } else {
        one.to_vec()
    };
    assert_eq!(answers[..wanted.len()], wanted[..], "{answers:?}");
    assert!(
        stderr(&out).contains("network-outbound evil.example"),
        "{}",
        stderr(&out)
    );
}

fn scratch() {
    let mac = Mac::new();
    let out = mac
        .sh(
            &[],
            "stat -c '%a %n' $TMPDIR; touch $TMPDIR/x; mkdir -m 0 $TMPDIR/y; echo $TMP",
        )
        .env("TMP", "/elsewhere")
        .output()
        .unwrap();
    let text = ok(&out);
    let (mode, dir) = text.lines().next().unwrap().split_once(' ').unwrap();
    let temp = mac.dir.0.join("temp").canonicalize().unwrap();
    assert!(
        mode == "700" && Path::new(dir).parent() == Some(&temp),
        "{text}"
    );
    assert_eq!(text.lines().nth(1), Some(dir));
    assert!(
        mac.seen("profile")
            .contains(&format!("(subpath \"{dir}\")"))
    );
    let left = || std::fs::read_dir(&temp).unwrap().count();
    assert_eq!(left(), 0);
    // Not so early that nothing was made.
    let mut run = spawn_group(mac.sh(&[], "touch ready; sleep 4311"));
    eventually("ready", || mac.proj().join("ready").exists());
    assert_eq!(left(), 1);
    kill(run.id(), libc::SIGKILL);
    run.wait().unwrap();
    eventually("it is gone", || left() == 0);
    // A refusal leaves nothing either.
    mac.put("answer", "65\nsandbox-exec: no\n");
    mac.sh(&[], "true").output().unwrap();
    assert_eq!(left(), 0);
}

fn denials() {
    let mac = Mac::new();
    let (home, proj) = (mac.dir.0.join("home").canonicalize().unwrap(), mac.proj());
    let (home, proj) = (home.display(), proj.display());
    let line = |what: &str| format!("Sandbox: tool (beta)(4128) deny(1) {what}\\nTAG\n");
    let told = [
        format!("file-read-data {home}/.ssh/id"),
        "file-write-create /usr/local/x".to_owned(),
        format!("file-write-create {proj}/.git/hooks/pre-commit"),
        format!("process-exec* {proj}/payload"),
        "network-outbound 192.0.2.7:443".to_owned(),
        "network-bind local:*:8080".to_owned(),
        "mach-lookup com.apple.SecurityServer".to_owned(),
        "lsopen".to_owned(),
        "network-outbound /private/var/run/docker.sock".to_owned(),
    ];
    let mut stream: String = told.iter().map(|what| line(what)).collect();
    stream += &line("mach-lookup com.apple.analyticsd");
    stream += "3 duplicate reports for ";
    stream += &line("signal");
    // Not of this run.
    stream += "Sandbox: evil(1) deny(1) file-write-create /forged\\nccbox-0000000000000000\n";
    stream += "Sandbox: evil(1) deny(1) file-write-create /forged\\nTAG\\nTAG\n";
    mac.put("stream", &stream);
    std::fs::write(
        mac.proj().join("spec.toml"),
        "[exec]\ndeny_writable = true\n[[bind_mounts]]\nhost_path = '.'\n",
    )
    .unwrap();
    let out = mac
        .sh(&["-f", "spec.toml"], "sleep 0.3; exit 1")
        .output()
        .unwrap();
    let said = stderr(&out);
    for what in &told {
        let (action, target) = what.split_once(' ').unwrap_or((what, ""));
        let start = format!("ccbox: denied {action} {target}");
        assert!(
            said.lines()
                .any(|l| l.starts_with(start.trim_end()) && l.contains("tool (beta)")),
            "{start}\n{said}"
        );
    }
    for hint in [
        format!("exec_grant_roots = [\"{proj}/payload\"]"),
        "[macos] keychain = \"allow\"".to_owned(),
        "[macos] allow_apple_events = true".to_owned(),
        "[network] allow_local_binding = true".to_owned(),
    ] {
        assert!(said.contains(&hint), "{hint}\n{said}");
    }
    assert!(
        !said.contains("analyticsd") && !said.contains("/forged"),
        "{said}"
    );
    assert!(
        said.lines()
            .any(|l| l.contains("signal") && l.contains('3')),
        "{said}"
    );
    // There were events, so nothing is searched.
    assert_eq!(mac.seen("logs"), "stream\n");
    let verbose = mac.sh(&["-v"], "sleep 0.3").output().unwrap();
    assert!(stderr(&verbose).contains("analyticsd"));
}

fn search() {
    let mac = Mac::new();
    mac.put(
        "show",
        "Sandbox: sh(5) deny(1) file-write-create /usr/late\\nTAG\n",
    );
    let good = mac.sh(&[], "true").output().unwrap();
    assert_eq!(
        (stderr(&good).as_str(), mac.seen("logs").as_str()),
        ("", "stream\n")
    );
    let bad = mac.sh(&[], "exit 1").output().unwrap();
    assert!(
        stderr(&bad).starts_with("ccbox: denied file-write-create /usr/late"),
        "{}",
        stderr(&bad)
    );
    assert_eq!(mac.seen("logs"), "stream\nstream\nshow\n");
}

fn blind() {
    let mac = Mac::new();
    std::fs::remove_file(mac.dir.0.join("tools/log")).unwrap();
    let out = mac.sh(&[], "echo ran").output().unwrap();
    assert_eq!(ok(&out), "ran\n");
    assert!(
        stderr(&out)
            .starts_with("ccbox: warning: what the sandbox refuses is not told: cannot start "),
        "{}",
        stderr(&out)
    );
}

fn rejected() {
    let mac = Mac::new();
    for (answer, words) in [
        (
            "65\nsandbox-exec: <input string>:9:1: unbound variable: frob\n",
            "macOS rejects the profile (sandbox-exec says: `<input string>:9:1: unbound variable: frob`)",
        ),
        (
            "71\nsandbox-exec: sandbox_apply: Operation not permitted\n",
            "already inside a sandbox, and macOS applies no second one",
        ),
        ("64\nusage: sandbox-exec\n", "macOS rejects the profile"),
        ("0\n", "sandbox-exec made no sandbox"),
    ] {
        mac.put("answer", answer);
        let out = mac.sh(&[], "touch ran").output().unwrap();
        assert_eq!(out.status.code(), Some(125));
        assert!(
            stderr(&out).starts_with(&format!("ccbox: error: {words}")),
            "{}",
            stderr(&out)
        );
        assert_eq!(stderr(&out).lines().count(), 1);
        assert!(!mac.proj().join("ran").exists());
    }
    std::fs::remove_file(mac.dir.0.join("tools/sandbox-exec")).unwrap();
    let out = mac.sh(&[], "touch ran").output().unwrap();
    assert_eq!(out.status.code(), Some(125));
    assert!(!mac.proj().join("ran").exists());
}

fn root() {
    let mac = Mac::new();
    let out = mac
        .call_as("0", &["run", "--", "touch", "ran"])
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(125));
    assert_eq!(
        stderr(&out),
        "ccbox: error: no sandbox on this host: macOS has no sandbox for root; hint: run it as an ordinary user\n"
    );
    assert!(!mac.proj().join("ran").exists() && mac.seen("runs").is_empty());
}

fn nested() {
    let mac = Mac::new();
    mac.put(
        "answer",
        "71\nsandbox-exec: sandbox_apply: Operation not permitted\n",
    );
    let run = |options: &[&str]| {
        let mut c = mac.sh(options, "echo ran");
        c.env("CCBOX_BACKEND", "native").output().unwrap()
    };
    assert_eq!(ok(&run(&[])), "ran\n");
    let given = run(&["-p", "mode = 'review'"]);
    assert_eq!(
        (given.status.code(), stdout(&given).as_str()),
        (Some(125), "")
    );
    // The word alone is nothing: the kernel applies a profile, so this is no sandbox.
    std::fs::remove_file(mac.dir.0.join("tools/answer")).unwrap();
    std::fs::remove_file(mac.dir.0.join("tools/runs")).unwrap();
    assert_eq!(ok(&run(&[])), "ran\n");
    assert_eq!(mac.seen("runs"), "run\nrun\n");
}

fn printed() {
    let mac = Mac::new();
    let dry = ok(&mac
        .call(&["run", "--dry-run", "--", "echo", "a b"])
        .output()
        .unwrap());
    assert!(dry.starts_with("/usr/bin/sandbox-exec -p "), "{dry}");
    assert!(
        dry.ends_with("-- echo 'a b'\n") && dry.contains("(allow default)"),
        "{dry}"
    );
    let text = ok(&mac.call(&["explain"]).output().unwrap());
    assert!(text.contains("/usr/bin/sandbox-exec"), "{text}");
    let profile = ok(&mac
        .call(&["profile", "--format", "seatbelt"])
        .output()
        .unwrap());
    assert!(profile.starts_with("(version 1)\n(allow default)\n"));
    assert!(mac.seen("runs").is_empty() && mac.seen("logs").is_empty());
}

fn probe() {
    let mac = Mac::new();
    let native = |out: &Output| {
        let found: serde_json::Value = serde_json::from_str(&ok(out)).unwrap();
        found["backends"][0].clone()
    };
    let good = native(&mac.call(&["probe", "--json"]).output().unwrap());
    assert_eq!(good["available"], true);
    assert_eq!(
        good["note"],
        "sandbox-exec (Seatbelt): namespace isolation, no kernel boundary"
    );
    assert!(
        mac.seen("profile")
            .contains("(deny file-write* (literal \"/ccbox-probe\"))")
    );
    mac.put(
        "answer",
        "71\nsandbox-exec: sandbox_apply: Operation not permitted\n",
    );
    let bad = native(&mac.call(&["probe", "--json"]).output().unwrap());
    assert_eq!(bad["available"], false);
    assert!(
        bad["reason"]
            .as_str()
            .unwrap()
            .starts_with("already inside a sandbox")
    );
    let root = native(&mac.call_as("0", &["probe", "--json"]).output().unwrap());
    assert_eq!(root["reason"], "macOS has no sandbox for root");
}

fn unmade() {
    let mac = Mac::new();
    let dir = mac.proj().join("new/deep");
    let protect = dir.join("keep");
    let out = mac
        .sh(&["--protect", protect.to_str().unwrap()], "true")
        .output()
        .unwrap();
    ok(&out);
    let top = mac.proj().join("new");
    assert_eq!(
        stderr(&out),
        format!(
            "ccbox: notice: the command cannot make `{}`, because something below is closed; make it outside if the command needs it\n",
            top.display()
        )
    );
    std::fs::create_dir_all(&dir).unwrap();
    let out = mac
        .sh(&["--protect", protect.to_str().unwrap()], "true")
        .output()
        .unwrap();
    assert_eq!(stderr(&out), "");
}

fn lowered() {
    let mac = Mac::new();
    mac.put("answer", "65\nsandbox-exec: no\n");
    let out = mac
        .sh(&["--sandbox", "on", "-q"], "echo ran $HTTP_PROXY")
        .output()
        .unwrap();
    assert_eq!(ok(&out), "ran\n");
    assert!(
        stderr(&out)
            .starts_with("ccbox: no OS-native sandbox on this host: macOS rejects the profile"),
        "{}",
        stderr(&out)
    );
}

fn open() {
    let mac = Mac::new();
    let out = mac
        .sh(&["--profile", "terminal"], "echo [$HTTP_PROXY] $TMPDIR")
        .output()
        .unwrap();
    assert!(ok(&out).starts_with("[] "), "{}", stdout(&out));
    assert!(!mac.seen("profile").contains("(deny network*"));
}
