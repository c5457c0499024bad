//! Throughput: one CONNECT stream out of a sandbox against a direct connection from the same machine, in turns; and what
//! the proxy adds to the time of one short request.
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
use std::time::Instant;

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

/// Milliseconds that the proxy may add to a short request.
const BUDGET_LATENCY_MS: f64 = 10.0;

/// A connection to the origin, through the proxy where the environment names one.
fn connect() -> TcpStream {
    match std::env::var("HTTPS_PROXY") {
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
    }
}

fn receive(count: u64) {
    let mut stream = connect();
    stream.write_all(&count.to_be_bytes()).unwrap();
    let (mut left, mut block) = (count, vec![0; 1 << 18]);
    while left > 0 {
        let got = stream.read(&mut block).unwrap();
        assert!(got > 0, "cut short");
        left -= got as u64;
    }
}

/// Prints the rate of one long stream in MiB/s and the median time of a short one in ms.
fn pull() {
    let short: Vec<f64> = (0..100)
        .map(|_| {
            let start = Instant::now();
            receive(1);
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    let start = Instant::now();
    receive(BYTES);
    #[allow(clippy::cast_precision_loss, reason = "a rate to print")]
    let mib = (BYTES >> 20) as f64;
    println!(
        "{:.0} {:.3}",
        mib / start.elapsed().as_secs_f64(),
        common::Spread::of(&short).p50
    );
}

/// Ends the origin with the benchmark.
struct Origin(Child);

impl Drop for Origin {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One run of the client.
#[derive(Clone, Copy)]
struct Sample {
    rate: f64,
    latency: f64,
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
    let measure = |command: lab::LabCommand| -> Sample {
        let out = command.output().success();
        let (rate, latency) = out.stdout.trim().split_once(' ').unwrap();
        Sample {
            rate: rate.parse().unwrap(),
            latency: latency.parse().unwrap(),
        }
    };
    let direct = || measure(desk.control(&argv));
    let tunnel = || measure(desk.boxed(&["allowed.test"], &argv));
    let mut pairs = Vec::new();
    for n in 0..rounds {
        if n % 2 == 0 {
            let first = direct();
            pairs.push((first, tunnel()));
        } else {
            let first = tunnel();
            pairs.push((direct(), first));
        }
    }
    let spread = |of: &dyn Fn(&(Sample, Sample)) -> f64| {
        common::Spread::of(&pairs.iter().map(of).collect::<Vec<_>>())
    };
    let times = spread(&|(d, t)| d.rate / t.rate);
    let added = spread(&|(d, t)| t.latency - d.latency);
    println!(
        "{rounds} rounds            {} MiB in one stream   a short request",
        BYTES >> 20
    );
    for (name, rate, latency) in [
        ("direct", spread(&|p| p.0.rate), spread(&|p| p.0.latency)),
        ("CONNECT", spread(&|p| p.1.rate), spread(&|p| p.1.latency)),
    ] {
        println!(
            "{name:8}             {:8.0} MiB/s         {:8.2} ms",
            rate.p50, latency.p50
        );
    }
    println!(
        "tunnel / direct      {:8.2} (best {:.2})    {:+8.2} ms",
        1.0 / times.p50,
        1.0 / times.min,
        added.p50
    );
    let throughput = common::verdict(
        "time of a tunnel over direct",
        times.p50,
        BUDGET_TIMES,
        "times",
    );
    let latency = common::verdict("latency over direct", added.p50, BUDGET_LATENCY_MS, "ms");
    if throughput == ExitCode::SUCCESS {
        latency
    } else {
        throughput
    }
}

fn main() -> ExitCode {
    common::without_inherited_descriptors();
    match std::env::args().nth(1).as_deref() {
        Some("serve") => serve(),
        Some("pull") => {
            pull();
            ExitCode::SUCCESS
        }
        _ => measure(),
    }
}
