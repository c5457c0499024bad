//! A command that is refused as fast as it can: few lines, true counts, and nobody else waits.

use std::time::{Duration, Instant};

use crate::support::{Box, require_sandbox};

use super::{in_own_network, own_lines};

/// Refusals of one kind, each with another name, from several processes; meanwhile one process works and says how long its calls took.
const WORK: &str = r"
import os, socket, subprocess, sys, time
STORMS = {
    'create': '''
import os, sys
for i in range(5000):
    try: os.open('%s%d.pem' % (sys.argv[1], i), os.O_WRONLY | os.O_CREAT)
    except PermissionError: continue
    print('made')
''',
    'read-only': '''
import os, sys
for i in range(5000):
    try: os.mkdir('../%s%d' % (sys.argv[1], i))
    except OSError: continue
    print('made')
''',
    'connect': '''
import socket, sys
for i in range(5000):
    s = socket.socket()
    try: s.connect(('192.0.2.9', 10000 + int(sys.argv[1]) * 5000 + i))
    except OSError: s.close(); continue
    print('made')
''',
}
running = [subprocess.Popen(['python3', '-c', STORMS[sys.argv[1]], str(n)]) for n in range(4)]
slowest, rounds = 0, 0
while any(p.poll() is None for p in running):
    start = time.monotonic()
    os.close(os.open('mine', os.O_WRONLY | os.O_CREAT))
    os.unlink('mine')
    slowest, rounds = max(slowest, time.monotonic() - start), rounds + 1
print('slowest', slowest, 'rounds', rounds)
";

fn storm(kind: &str) {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().spec(
        "[[bind_mounts]]\nhost_path = \"@T@\"\nread_only = true\n[[bind_mounts]]\nhost_path = \"@T@/ws\"\n",
    );
    let script =
        format!("ccbox('python3', '-c', {WORK:?}, '{kind}', options=('--events', '../events'))");
    let start = Instant::now();
    let ran = in_own_network(&b, &script);
    let took = start.elapsed();
    let words: Vec<&str> = ran.stdout.split_whitespace().collect();
    let ["slowest", slowest, "rounds", rounds] = words[..] else {
        panic!("{}\n{}", ran.stdout, ran.stderr);
    };
    // Twenty thousand refusals; whoever works beside them is answered in between. Wide margins, for a machine that is busy.
    assert!(took < Duration::from_mins(1), "{took:?}");
    assert!(slowest.parse::<f64>().unwrap() < 2.0, "{slowest}");
    assert!(rounds.parse::<u32>().unwrap() > 20, "{rounds}");
    // Forty lines and ten a second, each perhaps with a hint, and the counts.
    let most = 2 * (40 + 10 * usize::try_from(took.as_secs()).unwrap() + 10) + 43;
    let lines = own_lines(&ran);
    assert!(lines.len() <= most, "{} lines in {took:?}", lines.len());
    let denied = lines.iter().filter(|l| l.contains(" denied ")).count();
    assert!(denied >= 40, "{denied}");
    let held: usize = lines
        .iter()
        .find_map(|l| {
            l.strip_prefix("ccbox: ")?
                .strip_suffix(" further denials not shown; --events has them all")
        })
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(denied + held, 20_000);
    // Nothing is lost for who reads the events.
    let events = std::fs::read_to_string(b.path().join("events")).unwrap();
    let told = events
        .lines()
        .filter(|l| l.contains("\"violation\""))
        .count();
    assert_eq!(told, 20_000);
}

#[test]
fn a_storm_of_refused_names() {
    storm("create");
}

#[test]
fn a_storm_in_a_read_only_place() {
    storm("read-only");
}

#[test]
fn a_storm_of_connections() {
    storm("connect");
}

/// The same thing again and again is one line and its count.
#[test]
fn the_same_refusal_again_and_again_is_one_line() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let script = "import os
for i in range(20000):
    try: os.open('a.pem', os.O_WRONLY | os.O_CREAT)
    except PermissionError: pass";
    let ran = b.run(&["python3", "-c", script]);
    let lines = own_lines(&ran);
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[0].contains(" denied file-write-create "), "{lines:?}");
    assert!(lines[1].starts_with("ccbox: hint: "), "{lines:?}");
    assert!(lines[2].starts_with("ccbox: 20000 times: "), "{lines:?}");
}
