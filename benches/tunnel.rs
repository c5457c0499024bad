//! Throughput: one CONNECT stream out of a sandbox against a direct connection from the same network namespace, in turns.
//!
//! `cargo bench --bench tunnel [-- --guard] [-- ROUNDS]` (as root or where unprivileged namespaces are allowed)
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark ends by panicking"
)]
#![allow(missing_docs, reason = "a program")]

mod common;
#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../tests/lab/lab.rs"]
mod lab;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ExitCode, Stdio};
use std::time::{Duration, Instant};

use lab::{Caller, Lab};

const BYTES: u64 = 1 << 30;
const ADDRESS: &str = "203.0.113.10:9000";
const TARGET: &str = "allowed.test:9000";
/// A tunnel may take at most this many times as long as the direct connection.
const BUDGET_TIMES: f64 = 2.0;

/// The origin: sends as many bytes as each client asks for.
fn serve() -> ! {
    let listener = TcpListener::bind(ADDRESS).unwrap();
    let block = vec![b'x'; 1 << 18];
    loop {
        let (mut client, _) = listener.accept().unwrap();
        let mut count = [0; 8];
        if client.read_exact(&mut count).is_err() {
            continue;
        }
        let mut left = u64::from_be_bytes(count);
        while left > 0 {
            let step = left.min(block.len() as u64);
            let part = &block[..usize::try_from(step).unwrap()];
            if client.write_all(part).is_err() {
                break;
            }
            left -= step;
        }
    }
}

/// The client, through the proxy where the environment names one. Prints MiB/s.
fn pull() {
    let mut stream = match std::env::var("HTTPS_PROXY") {
        Err(_) => TcpStream::connect(TARGET).unwrap(),
        Ok(url) => {
            let mut stream =
                TcpStream::connect(url.trim_start_matches("http://").trim_end_matches('/'))
                    .unwrap();
            write!(
                stream,
                "CONNECT {TARGET} HTTP/1.1\r\nHost: {TARGET}\r\n\r\n"
            )
            .unwrap();
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") {
                stream.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            assert!(
                head.starts_with(b"HTTP/1.1 200"),
                "{}",
                String::from_utf8_lossy(&head)
            );
            stream
        }
    };
    stream.write_all(&BYTES.to_be_bytes()).unwrap();
    let start = Instant::now();
    let (mut left, mut block) = (BYTES, vec![0; 1 << 18]);
    while left > 0 {
        let got = stream.read(&mut block).unwrap();
        assert!(got > 0, "cut short");
        left -= got as u64;
    }
    #[allow(clippy::cast_precision_loss, reason = "a rate to print")]
    let mib = (BYTES >> 20) as f64;
    println!("{:.0}", mib / start.elapsed().as_secs_f64());
}

/// Ends the origin with the benchmark.
struct Origin(Child);

impl Drop for Origin {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn measure() -> ExitCode {
    let rounds = std::env::args().find_map(|a| a.parse().ok()).unwrap_or(7);
    let me = std::env::current_exe().unwrap();
    let lab = Lab::with(&[], &[("bench", &me)]);
    let _origin = Origin(
        lab.outside(&me, &["serve"])
            .stdin(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let desk = lab.desk(Caller::User);
    let wait = format!(
        "until (exec 3<>/dev/tcp/{}) 2>/dev/null; do sleep 0.02; done",
        ADDRESS.replace(':', "/")
    );
    desk.control(&["timeout", "5", "bash", "-c", &wait])
        .output()
        .success();
    let argv = ["/opt/lab/bin/bench", "pull"];
    let rate = |command: lab::LabCommand| -> f64 {
        command.output().success().stdout.trim().parse().unwrap()
    };
    let (mut direct, mut tunnel, mut times) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..rounds {
        let pair = if n % 2 == 0 {
            let d = rate(desk.control(&argv));
            (d, rate(desk.boxed(&["allowed.test"], &argv)))
        } else {
            let t = rate(desk.boxed(&["allowed.test"], &argv));
            (rate(desk.control(&argv)), t)
        };
        direct.push(pair.0);
        tunnel.push(pair.1);
        times.push(pair.0 / pair.1);
        std::thread::sleep(Duration::from_millis(50));
    }
    let t = common::Spread::of(&times);
    println!("{rounds} rounds of {} MiB     p50", BYTES >> 20);
    println!(
        "direct               {:7.0} MiB/s",
        common::Spread::of(&direct).p50
    );
    println!(
        "one CONNECT stream   {:7.0} MiB/s",
        common::Spread::of(&tunnel).p50
    );
    println!(
        "tunnel / direct      {:7.2} (median of the rounds), {:.2} (best)",
        1.0 / t.p50,
        1.0 / t.min
    );
    common::verdict("time of a tunnel over direct", t.p50, BUDGET_TIMES, "times")
}

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("serve") => serve(),
        Some("pull") => {
            pull();
            ExitCode::SUCCESS
        }
        _ => measure(),
    }
}
