use super::*;
use std::io::Read;
use std::os::fd::OwnedFd;

fn v(target: &str) -> Violation {
    Violation {
        action: "network-outbound",
        target: target.into(),
        process: Some("curl".into()),
        pid: Some(7),
        rule: "not on the allow list".into(),
        hint: Some(format!("[network] allowed_domains = [\"{target}\"]")),
    }
}

/// What a reporter wrote to stderr while `f` ran.
fn said(verbosity: Verbosity, detail: bool, f: impl FnOnce(&Reporter)) -> String {
    let (mut r, w) = io::pipe().unwrap();
    let reporter = Reporter::new(Box::new(w), verbosity, Colour::Never, detail);
    f(&reporter);
    drop(reporter);
    let mut text = String::new();
    r.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn silent_when_nothing_happened() {
    for q in [Verbosity::Quiet, Verbosity::Normal] {
        assert_eq!(
            said(q, true, |r| {
                r.verbose("enforced: x");
                r.finish();
            }),
            ""
        );
    }
}

#[test]
fn a_denial_and_its_hint_once_and_a_count_at_the_end() {
    let text = said(Verbosity::Normal, false, |r| {
        for _ in 0..3 {
            r.violation(v("evil.example"));
        }
        r.violation(v("other.example"));
        r.finish();
    });
    assert_eq!(
        text,
        "ccbox: denied network-outbound evil.example [curl 7]: not on the allow list\n\
         ccbox: hint: [network] allowed_domains = [\"evil.example\"]\n\
         ccbox: denied network-outbound other.example [curl 7]: not on the allow list\n\
         ccbox: hint: [network] allowed_domains = [\"other.example\"]\n\
         ccbox: 3 times: network-outbound evil.example [curl]\n"
    );
}

#[test]
fn quiet_drops_denials_but_nothing_else() {
    let text = said(Verbosity::Quiet, false, |r| {
        r.violation(v("evil.example"));
        r.violation(v("evil.example"));
        r.notice("n");
        r.loud_notice("l");
        r.status("sandbox DISABLED by --sandbox off");
        r.warn("w");
        r.finish();
    });
    assert_eq!(
        text,
        "ccbox: notice: l\nccbox: sandbox DISABLED by --sandbox off\nccbox: warning: w\n"
    );
}

/// However many different denials come, the lines are few, and those that stay unsaid are counted.
#[test]
fn a_storm_of_denials_ends_with_a_count() {
    let text = said(Verbosity::Normal, false, |r| {
        for i in 0..5000 {
            r.violation(v(&format!("h{i}.example")));
        }
        r.violation(v("h0.example"));
        r.finish();
    });
    let lines: Vec<&str> = text.lines().filter(|l| !l.contains("hint:")).collect();
    let (shown, rest) = lines.split_at(lines.len() - 3);
    assert!(
        shown
            .iter()
            .all(|l| l.starts_with("ccbox: denied network-outbound h"))
    );
    let held = 5000 - shown.len();
    assert_eq!(
        rest,
        [
            "ccbox: 4096 different denials: further ones are only counted, --events has them all",
            &format!("ccbox: {held} further denials not shown; --events has them all"),
            "ccbox: 2 times: network-outbound h0.example [curl]",
        ]
    );
}

/// At the end, too: few lines, and no word about what was never shown.
#[test]
fn what_came_again_is_told_in_few_lines() {
    let text = said(Verbosity::Normal, false, |r| {
        for _ in 0..3 {
            for i in 0..100 {
                r.violation(v(&format!("h{i}.example")));
            }
        }
        r.finish();
    });
    let shown = text.lines().filter(|l| l.contains(" denied ")).count();
    let again = text.lines().filter(|l| l.contains(" times: ")).count();
    assert!(shown >= 40 && again == 40, "{text}");
    let held = format!("ccbox: {} further denials not shown", 300 - 3 * shown);
    assert!(text.contains(&held), "{held}: {text}");
    let more = format!("ccbox: {} more of the denials above", shown - 40);
    assert_eq!(text.contains(&more), shown > 40, "{text}");
}

#[derive(Debug, thiserror::Error)]
#[error("spec.toml:3:1: unknown key `protcted`")]
struct Broken;
impl Failure for Broken {
    fn hint(&self) -> Option<String> {
        Some("did you mean `protected_paths`".into())
    }
    fn detail(&self) -> Option<String> {
        Some("3 | protcted = []\n  | ^^^^^^^^".into())
    }
}

#[test]
fn an_error_is_one_line_and_its_detail_is_for_terminals() {
    let one = "ccbox: error: spec.toml:3:1: unknown key `protcted`; hint: did you mean `protected_paths`\n";
    assert_eq!(said(Verbosity::Quiet, false, |r| r.error(&Broken)), one);
    assert_eq!(
        said(Verbosity::Normal, true, |r| r.error(&Broken)),
        format!("{one}  3 | protcted = []\n    | ^^^^^^^^\n")
    );
}

#[test]
fn a_stderr_that_nobody_reads_or_that_is_closed_holds_nothing_up() {
    let (r, w) = io::pipe().unwrap();
    let reporter = Reporter::new(Box::new(w), Verbosity::Normal, Colour::Never, false);
    let t = Instant::now();
    for _ in 0..200 {
        reporter.notice(&"x".repeat(2000));
    }
    assert!(t.elapsed() < Duration::from_secs(2), "{:?}", t.elapsed());
    drop(r);
    reporter.notice("gone");
    reporter.error(&Broken);
    reporter.finish();
}

#[test]
fn events_carry_every_distinct_denial_and_totals() {
    let (mut r, w) = io::pipe().unwrap();
    let (reader, err) = io::pipe().unwrap();
    let reporter = Reporter::new(Box::new(err), Verbosity::Quiet, Colour::Never, false);
    reporter.stream_events(File::from(OwnedFd::from(w)), "s-9".into());
    let collect = std::thread::spawn(move || {
        let mut text = String::new();
        r.read_to_string(&mut text).unwrap();
        text
    });
    for i in 0..100 {
        reporter.violation(v(&format!("h{i}.example")));
    }
    reporter.violation(v("h0.example"));
    reporter.error(&Broken);
    reporter.finish();
    drop(reporter);
    drop(reader);
    let lines: Vec<serde_json::Value> = collect
        .join()
        .unwrap()
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(lines.len(), 102);
    assert!(
        lines
            .iter()
            .all(|l| l["schema"] == 1 && l["session_id"] == "s-9")
    );
    assert_eq!(lines[100]["type"], "error");
    assert_eq!(lines[100]["exit_code"], 125);
    assert_eq!(lines[101]["target"], "h0.example");
    assert_eq!(lines[101]["count"], 2);
}
