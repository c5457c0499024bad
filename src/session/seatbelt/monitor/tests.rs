use super::*;

use std::io::Write;
use std::os::unix::fs::PermissionsExt;

const TAG: &str = "ccbox-0123456789abcdef";

#[derive(Default)]
struct Told {
    denials: Mutex<Vec<Denial>>,
    blind: Mutex<Vec<String>>,
}

impl Witness for Told {
    fn denied(&self, denial: Denial) {
        self.denials.lock().unwrap().push(denial);
    }
    fn blind(&self, why: &str) {
        self.blind.lock().unwrap().push(why.to_owned());
    }
}

impl Told {
    fn targets(&self) -> Vec<String> {
        let denials = self.denials.lock().unwrap();
        denials
            .iter()
            .map(|d| format!("{} {}", d.action, d.target))
            .collect()
    }
}

fn event(pid: i32, what: &str) -> String {
    let line = serde_json::json!({
        "eventMessage": format!("Sandbox: tool({pid}) deny(1) {what}\n{TAG}"),
        "processID": 0, "senderImagePath": "/System/Library/Extensions/Sandbox.kext/Contents/MacOS/Sandbox",
    });
    format!("{line}\n")
}

/// A `log` that brings `stream` or `show`, and notes what it was asked.
fn fake(dir: &Path, stream: &str, show: &str) -> PathBuf {
    std::fs::write(dir.join("stream.out"), stream).unwrap();
    std::fs::write(dir.join("show.out"), show).unwrap();
    let path = dir.join("log");
    let mut file = std::fs::File::create(&path).unwrap();
    writeln!(
        file,
        "#!/bin/sh\nprintf '%s\\n' \"$*\" >>{0}/asked\ncat {0}/\"$1\".out\n[ \"$1\" = show ] || exec sleep 60",
        dir.display()
    )
    .unwrap();
    drop(file);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn run(stream: &str, show: &str, failed: bool) -> (Arc<Told>, String) {
    let dir = tempfile::tempdir().unwrap();
    let log = fake(dir.path(), stream, show);
    let told = Arc::new(Told::default());
    let monitor = Monitor::start(&log, TAG, told.clone());
    monitor.settle();
    if !failed {
        // What has come by the end of a command that succeeds is told.
        let until = Instant::now() + Duration::from_secs(5);
        while told.denials.lock().unwrap().is_empty()
            && Instant::now() < until
            && !stream.is_empty()
        {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    monitor.finish(failed);
    (
        told,
        std::fs::read_to_string(dir.path().join("asked")).unwrap_or_default(),
    )
}

const BEGINS: &str = "Filtering the log data using \"x\"\n";

#[test]
fn the_stream_is_told_without_noise_and_bare_connections() {
    let stream = [
        BEGINS.to_owned(),
        event(7, "network-outbound"),
        event(7, "network-outbound remote:*:443"),
        event(8, "network-outbound"),
        event(7, "mach-lookup com.apple.analyticsd"),
        event(7, "file-write-create /x"),
        event(9, "file-write-create /x"),
        "not json\n".to_owned(),
        format!("{}\n", "y".repeat(3 * LONGEST)),
        event(7, "file-write-create /after"),
    ]
    .concat();
    let (told, asked) = run(&stream, "", true);
    assert_eq!(
        told.targets(),
        [
            "network-outbound remote:*:443",
            "file-write-create /x",
            "file-write-create /x",
            "file-write-create /after",
            "network-outbound "
        ]
    );
    assert!(!asked.contains("show"), "{asked}");
    assert!(
        asked.starts_with("stream --style ndjson --predicate ((processID == 0"),
        "{asked}"
    );
    assert!(told.blind.lock().unwrap().is_empty());
}

#[test]
fn the_log_is_searched_once_after_a_failure_without_news() {
    let found = event(7, "file-write-create /early");
    let (told, asked) = run(BEGINS, &found, true);
    assert_eq!(told.targets(), ["file-write-create /early"]);
    assert_eq!(
        asked
            .lines()
            .filter(|l| l.starts_with("show --last 10s"))
            .count(),
        1,
        "{asked}"
    );
    let (told, asked) = run(BEGINS, &found, false);
    assert!(told.targets().is_empty() && !asked.contains("show"));
    let (told, asked) = run(
        &[BEGINS.to_owned(), event(7, "signal")].concat(),
        &found,
        true,
    );
    assert_eq!(told.targets(), ["signal "]);
    assert!(!asked.contains("show"), "{asked}");
}

#[test]
fn refusals_without_a_tag_count_for_processes_of_the_run_only() {
    let bare = |pid: i32| {
        let line = serde_json::json!({
            "eventMessage": format!("Sandbox: zsh({pid}) deny(1) forbidden-exec-sugid"),
            "processID": 0, "senderImagePath": "/x/Sandbox",
        });
        format!("{line}\n")
    };
    let me = i32::try_from(std::process::id()).unwrap();
    let (told, _) = run(
        &[BEGINS.to_owned(), bare(1), bare(me), bare(-1)].concat(),
        "",
        true,
    );
    assert_eq!(
        told.denials
            .lock()
            .unwrap()
            .iter()
            .map(|d| d.pid)
            .collect::<Vec<_>>(),
        [me]
    );
}

#[test]
fn a_run_goes_on_without_a_log() {
    let told = Arc::new(Told::default());
    let monitor = Monitor::start(Path::new("/nonexistent/log"), TAG, told.clone());
    monitor.settle();
    assert_eq!(monitor.pid(), None);
    monitor.finish(true);
    let blind = told.blind.lock().unwrap();
    assert_eq!(
        *blind,
        ["cannot start `/nonexistent/log`: no such file or directory"]
    );
}

#[test]
fn lines_have_a_limit_and_an_end() {
    let mut got = Vec::new();
    let text = [
        &b"a\n\n"[..],
        &vec![b'x'; LONGEST],
        b"\nb\n",
        &vec![b'y'; LONGEST + 1],
        b"\n",
        &vec![b'z'; 5 * LONGEST],
        b"\nc",
    ]
    .concat();
    lines(&text[..], |line| {
        got.push((line.len(), line.first().copied()));
        true
    });
    assert_eq!(
        got,
        [
            (1, Some(b'a')),
            (0, None),
            (LONGEST, Some(b'x')),
            (1, Some(b'b')),
            (1, Some(b'c'))
        ]
    );
}
