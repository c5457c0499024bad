//! `ccbox connect` without ssh around it: a relay as netcat is one (PT-5).

use super::lab::{CCBOX, Caller, Lab};

/// Both directions, both ends, and a reader that has enough; nothing is said then.
#[test]
fn it_relays_and_ends_quietly() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let connect = format!("{CCBOX} connect allowed.test");
    let script = format!(
        "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | {connect} 80 | tail -n 1; echo ${{PIPESTATUS[*]}}
        head -c 3000000 /dev/zero | {connect} 7000 | grep -c 'GOT 3000000 '; echo ${{PIPESTATUS[*]}}
        {connect} 7000 <&- | grep -c 'GOT 0 '
        printf 'GET /big?100000000 HTTP/1.0\\r\\n\\r\\n' | {connect} 80 | head -c 4; echo \" ${{PIPESTATUS[*]}}\""
    );
    let out = desk
        .boxed(&["allowed.test"], &["bash", "-c", &script])
        .output()
        .success();
    let lines: Vec<&str> = out.stdout.lines().collect();
    assert!(lines[0].starts_with("ORIGIN allowed"), "{out}");
    assert_eq!(
        &lines[1..],
        ["0 0 0", "1", "0 0 0", "1", "HTTP 0 0 0"],
        "{out}"
    );
    assert_eq!(out.stderr, "", "{out}");
}

/// Each refusal is one line and 125. Which line the spec takes, the run that refused it says, and nobody else.
#[test]
fn refusals_say_what_the_spec_takes() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    for (host, port, words, hint) in [
        (
            "denied.test",
            "22",
            "refused denied.test:22",
            "[\"denied.test:22\"]",
        ),
        (
            "denied.test",
            "443",
            "refused denied.test:443",
            "[\"denied.test\"]",
        ),
        ("::1", "22", "refused [::1]:22", "[\"[::1]:22\"]"),
        ("a b", "22", "refused a b:22", ""),
        ("\x1b[31m", "22", "refused \\x1b[31m:22", ""),
        (
            "allowed.test",
            "81",
            "cannot connect to allowed.test:81",
            "",
        ),
        ("allowed.test", "0", "`0`", ""),
        ("allowed.test", "65536", "`65536`", ""),
        ("", "22", "", ""),
    ] {
        let argv = [CCBOX, "connect", "--", host, port];
        let out = desk.boxed(&["allowed.test"], &argv).output();
        assert_eq!((out.code, out.stdout.as_str()), (Some(125), ""), "{out}");
        let own: Vec<&str> = out
            .stderr
            .lines()
            .filter(|l| l.starts_with("ccbox: error: "))
            .collect();
        assert_eq!(own.len(), 1, "{out}");
        assert!(own[0].contains(words), "`{words}`: {out}");
        assert!(!own[0].contains("allowed_domains"), "{out}");
        assert!(out.stderr.contains(hint), "`{hint}`: {out}");
        assert!(!own[0].contains("os error"), "{out}");
    }
}
