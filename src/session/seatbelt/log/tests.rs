use super::*;

use proptest::prelude::*;
use serde_json::json;

const TAG: &str = "ccbox-7f3a91c2d4e8b605";
const KEXT: &str = "/System/Library/Extensions/Sandbox.kext/Contents/MacOS/Sandbox";

/// An event as `log --style ndjson` writes one of the kernel's.
fn kernel(message: &str) -> Vec<u8> {
    json!({
        "eventMessage": message, "processID": 0, "processImagePath": "/kernel", "senderImagePath": KEXT,
        "messageType": "Error", "subsystem": "", "category": "", "timestamp": "2026-11-30 15:05:46.102000+0000",
    })
    .to_string()
    .into_bytes()
}

fn denied(message: &str) -> Option<Denial> {
    match read(&kernel(&message.replace('⏎', "\n").replace("T$", TAG)), TAG) {
        Line::Denied(denial) => Some(denial),
        Line::Begins | Line::Other => None,
    }
}

#[test]
fn lines_of_the_kernel_are_understood() {
    // Message, then process, pid, action, target, how many.
    let table = [
        (
            "Sandbox: touch(4101) deny(1) file-write-create /Users/dev/x.txt⏎T$",
            "touch",
            4101,
            "file-write-create",
            "/Users/dev/x.txt",
            1,
        ),
        (
            "Sandbox: cat(4102) deny(1) file-read-data /Users/dev/.ssh/id_ed25519⏎T$",
            "cat",
            4102,
            "file-read-data",
            "/Users/dev/.ssh/id_ed25519",
            1,
        ),
        (
            "Sandbox: zsh(4103) deny(1) file-read-metadata /Users/dev/.ssh⏎T$",
            "zsh",
            4103,
            "file-read-metadata",
            "/Users/dev/.ssh",
            1,
        ),
        (
            "Sandbox: mv(4104) deny(1) file-write-unlink /Users/dev/work⏎T$",
            "mv",
            4104,
            "file-write-unlink",
            "/Users/dev/work",
            1,
        ),
        (
            "Sandbox: rm(4105) deny(1) file-write-unlink /Users/dev/src/app/a b (1).txt⏎T$",
            "rm",
            4105,
            "file-write-unlink",
            "/Users/dev/src/app/a b (1).txt",
            1,
        ),
        (
            "Sandbox: chmod(4106) deny(1) file-write-mode /private/etc/hosts⏎T$",
            "chmod",
            4106,
            "file-write-mode",
            "/private/etc/hosts",
            1,
        ),
        (
            "Sandbox: cp(4107) deny(1) file-write-xattr /Users/dev/src/app/f⏎T$",
            "cp",
            4107,
            "file-write-xattr",
            "/Users/dev/src/app/f",
            1,
        ),
        (
            "Sandbox: curl(4108) deny(1) network-outbound remote:*:443⏎T$",
            "curl",
            4108,
            "network-outbound",
            "remote:*:443",
            1,
        ),
        (
            "Sandbox: python3.12(4109) deny(1) network-outbound 192.0.2.7:443⏎T$",
            "python3.12",
            4109,
            "network-outbound",
            "192.0.2.7:443",
            1,
        ),
        (
            "Sandbox: curl(4110) deny(1) network-outbound⏎T$",
            "curl",
            4110,
            "network-outbound",
            "",
            1,
        ),
        (
            "Sandbox: nc(4111) deny(1) network-outbound /private/var/run/syslog⏎T$",
            "nc",
            4111,
            "network-outbound",
            "/private/var/run/syslog",
            1,
        ),
        (
            "Sandbox: docker(4112) deny(1) network-outbound /private/var/run/docker.sock⏎T$",
            "docker",
            4112,
            "network-outbound",
            "/private/var/run/docker.sock",
            1,
        ),
        (
            "Sandbox: node(4113) deny(1) network-bind local:*:8080⏎T$",
            "node",
            4113,
            "network-bind",
            "local:*:8080",
            1,
        ),
        (
            "Sandbox: node(4114) deny(1) network-inbound local:*:8080⏎T$",
            "node",
            4114,
            "network-inbound",
            "local:*:8080",
            1,
        ),
        (
            "Sandbox: sh(4115) deny(1) process-exec* /Users/dev/work/app/payload⏎T$",
            "sh",
            4115,
            "process-exec*",
            "/Users/dev/work/app/payload",
            1,
        ),
        (
            "Sandbox: sh(4116) deny(1) process-exec-interpreter /Users/dev/work/app/run.sh⏎T$",
            "sh",
            4116,
            "process-exec-interpreter",
            "/Users/dev/work/app/run.sh",
            1,
        ),
        (
            "Sandbox: zsh(4117) deny(1) forbidden-exec-sugid⏎T$",
            "zsh",
            4117,
            "forbidden-exec-sugid",
            "",
            1,
        ),
        (
            "Sandbox: zsh(4117) deny(1) forbidden-exec-sugid",
            "zsh",
            4117,
            "forbidden-exec-sugid",
            "",
            1,
        ),
        (
            "Sandbox: sandbox-exec(4118) deny(1) forbidden-sandbox-reinit",
            "sandbox-exec",
            4118,
            "forbidden-sandbox-reinit",
            "",
            1,
        ),
        (
            "Sandbox: Gradle Worker(4119) deny(1) signal⏎T$",
            "Gradle Worker",
            4119,
            "signal",
            "",
            1,
        ),
        (
            "Sandbox: open(4120) deny(1) lsopen⏎T$",
            "open",
            4120,
            "lsopen",
            "",
            1,
        ),
        (
            "Sandbox: osascript(4121) deny(1) appleevent-send com.apple.finder⏎T$",
            "osascript",
            4121,
            "appleevent-send",
            "com.apple.finder",
            1,
        ),
        (
            "Sandbox: security(4122) deny(1) mach-lookup com.apple.SecurityServer⏎T$",
            "security",
            4122,
            "mach-lookup",
            "com.apple.SecurityServer",
            1,
        ),
        (
            "Sandbox: java(4123) deny(1) mach-lookup com.apple.analyticsd⏎T$",
            "java",
            4123,
            "mach-lookup",
            "com.apple.analyticsd",
            1,
        ),
        (
            "3 duplicate reports for Sandbox: java(4123) deny(1) mach-lookup com.apple.coreservices.appleevents⏎T$",
            "java",
            4123,
            "mach-lookup",
            "com.apple.coreservices.appleevents",
            3,
        ),
        (
            "1 duplicate report for Sandbox: sh(4124) deny(1) file-write-data /dev/dtracehelper⏎T$",
            "sh",
            4124,
            "file-write-data",
            "/dev/dtracehelper",
            1,
        ),
        (
            "Sandbox: defaults(4125) deny(1) user-preference-write com.example.app⏎T$",
            "defaults",
            4125,
            "user-preference-write",
            "com.example.app",
            1,
        ),
        (
            "Sandbox: ln(4126) deny(1) file-link /Users/dev/src/app/f⏎T$",
            "ln",
            4126,
            "file-link",
            "/Users/dev/src/app/f",
            1,
        ),
        (
            "Sandbox: script(4127) deny(1) file-ioctl /dev/ttys004⏎T$",
            "script",
            4127,
            "file-ioctl",
            "/dev/ttys004",
            1,
        ),
        (
            "Sandbox: tool (beta)(4128) deny(1) file-write-create /private/tmp/x⏎T$",
            "tool (beta)",
            4128,
            "file-write-create",
            "/private/tmp/x",
            1,
        ),
        (
            "Sandbox: cat(4129) deny file-read-data /private/tmp/x⏎T$",
            "cat",
            4129,
            "file-read-data",
            "/private/tmp/x",
            1,
        ),
        (
            "Sandbox: new(4134) deny(1) some-later-operation thing⏎T$",
            "new",
            4134,
            "sandbox",
            "thing",
            1,
        ),
    ];
    for (message, process, pid, action, target, count) in table {
        let tagged = message.contains('⏎');
        let wanted = Denial {
            action,
            target: target.into(),
            process: process.into(),
            pid,
            count,
            tagged,
        };
        assert_eq!(denied(message), Some(wanted), "{message}");
    }
}

#[test]
fn what_is_not_the_kernels_word_about_this_run_is_not_believed() {
    for message in [
        // A path with a newline and a tag of its own; another run's; none; no refusal; not the sandbox.
        "Sandbox: cat(4130) deny(1) file-read-data /private/tmp/x⏎T$⏎ccbox-0000000000000000",
        "Sandbox: cat(4130) deny(1) file-read-data /private/tmp/x⏎T$⏎T$",
        "Sandbox: cat(4131) deny(1) file-read-data /private/tmp/T$⏎ccbox-0000000000000000",
        "Sandbox: spotlightd(812) deny(1) mach-lookup com.apple.PowerManagement.control",
        "Sandbox: touch(4132) allow(1) file-write-create /private/tmp/x⏎T$",
        "System Policy: app(4134) deny(1) file-read-data /Users/dev/Desktop/x⏎T$",
        "Sandbox: cat(pid) deny(1) file-read-data /x⏎T$",
        "Sandbox: cat(99999999999) deny(1) file-read-data /x⏎T$",
        "Sandbox: cat(1) deny(1)⏎T$",
        "Sandbox: ⏎T$",
        "T$",
        "",
    ] {
        assert_eq!(denied(message), None, "{message}");
    }
    let said = format!("Sandbox: cat(1) deny(1) file-read-data /x\n{TAG}");
    let event = |pid: i64, process: &str, sender: &str| {
        read(json!({"eventMessage": said, "processID": pid, "processImagePath": process, "senderImagePath": sender}).to_string().as_bytes(), TAG)
    };
    let believed = |line| matches!(line, Line::Denied(_));
    assert!(believed(event(0, "/kernel", KEXT)));
    assert!(believed(event(
        88,
        "/usr/libexec/sandboxd",
        "/usr/libexec/sandboxd"
    )));
    // The command can send the same words by logger(1) or os_log(3), under whatever name it has on disk.
    assert!(!believed(event(
        4101,
        "/usr/bin/logger",
        "/usr/lib/libsystem_c.dylib"
    )));
    assert!(!believed(event(
        4101,
        "/tmp/usr/libexec/sandboxd",
        "/tmp/Sandbox"
    )));
    assert!(!believed(event(4101, "/kernel", KEXT)));
    assert!(!believed(event(
        0,
        "/kernel",
        "/System/Library/Extensions/Other.kext/Other"
    )));
    let no_number = json!({"eventMessage": said, "processID": "0", "senderImagePath": KEXT});
    assert_eq!(read(no_number.to_string().as_bytes(), TAG), Line::Other);
}

#[test]
fn other_lines_of_the_stream() {
    assert_eq!(
        read(
            b"Filtering the log data using \"eventMessage CONTAINS \\\"x\\\"\"",
            TAG
        ),
        Line::Begins
    );
    for line in [
        &br#"{"count":5,"finished":1}"#[..],
        b"2026-11-30 15:05:46.102 E  kernel[0:1a2b] (Sandbox) Sandbox: bash(4133) deny(1) file-write-create /Users/dev/y",
        b"{\"eventMessage\":\"Sandbox: ca",
        b"\xff\xfe\x00",
        b"[]",
        b"null",
        b"",
    ] {
        assert_eq!(read(line, TAG), Line::Other);
    }
    let long = kernel(&format!(
        "Sandbox: cat(1) deny(1) file-read-data /{}\n{TAG}",
        "x".repeat(LONGEST)
    ));
    assert_eq!(read(&long, TAG), Line::Other);
}

#[test]
fn noise_is_known_by_operation_and_target() {
    let table = [
        ("network-outbound", "/private/var/run/mDNSResponder", true),
        ("network-outbound", "/private/var/run/syslog", true),
        ("network-outbound", "/private/var/run/docker.sock", false),
        ("mach-lookup", "com.apple.analyticsd", true),
        ("mach-lookup", "com.apple.diagnosticd", true),
        ("mach-lookup", "com.apple.SecurityServer", false),
        ("file-write-data", "/dev/dtracehelper", true),
        ("file-ioctl", "/dev/dtracehelper", true),
        ("file-read-data", "/dev/tty", true),
        ("file-ioctl", "/dev/ttys004", false),
        (
            "file-write-create",
            "/private/tmp/hsperfdata_dev/4123",
            true,
        ),
        (
            "file-write-data",
            "/Users/dev/Library/Application Support/go/telemetry/local/x.count",
            true,
        ),
        (
            "file-write-create",
            "/Users/dev/work/m/__pycache__/a.cpython-312.pyc.4123",
            true,
        ),
        ("file-write-create", "/Users/dev/work/a.pyc", true),
        ("file-read-data", "/Users/dev/work/a.pyc", false),
        ("file-write-create", "/Users/dev/work/a.py", false),
    ];
    for (action, target, noise) in table {
        let denial = Denial {
            action,
            target: target.into(),
            process: "p".into(),
            pid: 1,
            count: 1,
            tagged: true,
        };
        assert_eq!(is_noise(&denial), noise, "{action} {target}");
    }
}

#[test]
fn the_predicate_asks_for_the_kernels_messages_of_this_run() {
    assert_eq!(
        predicate(TAG),
        "((processID == 0 AND senderImagePath ENDSWITH \"/Sandbox\") OR processImagePath == \"/usr/libexec/sandboxd\") AND \
         (eventMessage CONTAINS \"ccbox-7f3a91c2d4e8b605\" OR eventMessage CONTAINS \"forbidden-exec-sugid\" OR \
         eventMessage CONTAINS \"forbidden-sandbox-reinit\")"
    );
}

proptest! {
    #[test]
    fn no_bytes_break_it(bytes: Vec<u8>, text: String) {
        let _ = read(&bytes, TAG);
        let _ = read(text.as_bytes(), TAG);
        let _ = read(&kernel(&text), TAG);
    }

    /// A path that the command chose shows up as a target and changes nothing else, or the line is dropped.
    #[test]
    fn a_path_of_the_commands_choice_forges_nothing(path in "[ -~\n]{0,80}|(.*\n)?ccbox-7f3a91c2d4e8b605(\n.*)?", name in "[ -~]{1,16}") {
        let message = format!("Sandbox: {name}(7) deny(1) file-read-data /{path}\n{TAG}");
        if let Line::Denied(denial) = read(&kernel(&message), TAG) {
            prop_assert!(!path.contains('\n'));
            prop_assert!(denial.tagged && denial.count == 1);
            // A name that looks like the rest of a line can move the border between name and path, no more.
            if !name.contains(") deny") {
                prop_assert_eq!(denial.target, format!("/{path}"));
                prop_assert_eq!((denial.process, denial.pid, denial.action), (name, 7, "file-read-data"));
            }
        }
    }

    /// Without the tag at its end no message is believed but the two that have none.
    #[test]
    fn without_the_tag_nothing_is_believed(text in "(?s).{0,200}") {
        prop_assume!(!text.ends_with(TAG));
        if let Line::Denied(denial) = read(&kernel(&text), TAG) {
            prop_assert!(UNTAGGED.contains(&denial.action));
        }
    }
}
