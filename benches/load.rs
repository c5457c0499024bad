//! The proxies under load: one stream and new connections per second, each in turns with a direct connection from the same
//! machine and with a relay that only copies; and what 200 tunnels at once take of memory.
//!
//! `cargo bench --bench load [-- --guard] [-- ROUNDS]` (as root, who may look at ccbox's memory)
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark ends by panicking and prints rates"
)]
#![allow(missing_docs, reason = "a program")]

#[allow(dead_code, reason = "the other benchmarks use the rest")]
mod common;
#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../tests/lab/lab.rs"]
mod lab;
#[path = "load/relay.rs"]
mod relay;

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{Spread, verdict};
use lab::{Caller, Lab};

const GIB: u64 = 1 << 30;
const ADDRESS: &str = "203.0.113.10:9000";
const TARGET: &str = "allowed.test:9000";
const RELAY: &str = "127.0.0.1:9001";
const SPLICER: &str = "127.0.0.1:9002";
/// Clients that connect as fast as they can, and for how long.
const CLIENTS: usize = 16;
const STORM: Duration = Duration::from_secs(1);
/// Each keeps a port of the relays for a minute (TIME_WAIT), and to one destination there are 28,000.
const MOST: u64 = 1000;
const TUNNELS: usize = 200;
/// Enough that a tunnel has its pipe.
const EACH: u64 = 1 << 20;

/// A tunnel takes at most this many times as long as the direct connection: 1 / 0.6.
const BUDGET_TIMES: f64 = 1.0 / 0.6;
/// Of the CPU time of a plain copy.
const BUDGET_CPU: f64 = 0.5;
/// Direct connections per second over those through the proxy: 1 / 0.35.
const BUDGET_CONNECTIONS: f64 = 1.0 / 0.35;
const BUDGET_MIB: f64 = 8.0;

/// The origin: sends as many bytes as each client asks for, as often as it asks.
fn serve() -> ! {
    let listener = TcpListener::bind(ADDRESS).unwrap();
    let block: &[u8] = vec![b'x'; 1 << 18].leak();
    loop {
        let (mut client, _) = listener.accept().unwrap();
        std::thread::spawn(move || {
            let mut count = [0; 8];
            while client.read_exact(&mut count).is_ok() {
                let mut left = u64::from_be_bytes(count);
                while left > 0 {
                    let step = left.min(block.len() as u64);
                    let part = &block[..usize::try_from(step).unwrap()];
                    if client.write_all(part).is_err() {
                        return;
                    }
                    left -= step;
                }
            }
        });
    }
}

/// A connection to the origin, through the proxy where the environment names one.
fn connect(proxy: Option<&str>) -> std::io::Result<TcpStream> {
    let Some(proxy) = proxy else {
        return TcpStream::connect(ADDRESS);
    };
    let mut stream = TcpStream::connect(proxy)?;
    stream.write_all(format!("CONNECT {TARGET} HTTP/1.1\r\nHost: {TARGET}\r\n\r\n").as_bytes())?;
    let (mut head, mut some) = (Vec::new(), [0; 512]);
    while !head.ends_with(b"\r\n\r\n") {
        // The origin says nothing before it is asked, so nothing comes behind the head.
        let n = stream.read(&mut some)?;
        head.extend_from_slice(&some[..n]);
        assert!(n > 0, "{}", String::from_utf8_lossy(&head));
    }
    assert!(
        head.starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&head)
    );
    Ok(stream)
}

fn receive(stream: &mut TcpStream, count: u64, block: &mut [u8]) -> std::io::Result<()> {
    stream.write_all(&count.to_be_bytes())?;
    let mut left = count;
    while left > 0 {
        let got = stream.read(block)?;
        if got == 0 {
            return Err(std::io::Error::other(format!(
                "{left} of {count} bytes missing"
            )));
        }
        left -= got as u64;
    }
    Ok(())
}

/// Does what each line of standard input says, and answers with a line.
fn client() {
    let proxy = std::env::var("HTTPS_PROXY").ok();
    let proxy = proxy
        .as_deref()
        .map(|url| url.trim_start_matches("http://"));
    let mut held = Vec::new();
    for line in std::io::stdin().lines() {
        let start = Instant::now();
        let figure = match line.unwrap().as_str() {
            "stream" => {
                let mut block = vec![0; 1 << 18];
                let mut stream = connect(proxy).unwrap();
                receive(&mut stream, GIB, &mut block).unwrap_or_else(|e| panic!("{proxy:?}: {e}"));
                start.elapsed().as_secs_f64()
            }
            "storm" => storm(proxy),
            "hold" => {
                held.extend((0..TUNNELS).map(|_| connect(proxy).unwrap()));
                let mut block = vec![0; 1 << 16];
                for stream in &mut held {
                    receive(stream, EACH, &mut block).unwrap();
                }
                held.len() as f64
            }
            other => panic!("{other}"),
        };
        println!("{figure}");
        std::io::stdout().flush().unwrap();
    }
}

/// New connections per second, each good for one byte.
fn storm(proxy: Option<&str>) -> f64 {
    let (begun, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while start.elapsed() < STORM && begun.fetch_add(1, Ordering::Relaxed) < MOST {
                    let mut stream = connect(proxy).unwrap();
                    receive(&mut stream, 1, &mut [0; 16]).unwrap();
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64()
}

/// A program that ends with the benchmark.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A client, and the program on its way whose cost counts.
struct Way {
    child: Running,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Way {
    fn start(command: &lab::LabCommand) -> Self {
        let mut child = command
            .to_command()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self {
            child: Running(child),
            input,
            output,
        }
    }

    fn ask(&mut self, what: &str) -> f64 {
        writeln!(self.input, "{what}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim()
            .parse()
            .expect("a figure; what went wrong is above")
    }
}

/// Processes below `root` whose executable has this name.
fn below(root: u32, name: &str) -> Vec<u32> {
    let mut parents = HashMap::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|n| n.parse::<u32>().ok())
        else {
            continue;
        };
        let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
        let parent = status.lines().find_map(|l| l.strip_prefix("PPid:"));
        if let Some(parent) = parent.and_then(|p| p.trim().parse::<u32>().ok()) {
            parents.insert(pid, parent);
        }
    }
    let is_below = |mut pid: u32| {
        while let Some(parent) = parents.get(&pid) {
            if *parent == root {
                return true;
            }
            pid = *parent;
        }
        false
    };
    let named = |pid: &u32| {
        let exe = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        exe.file_name().is_some_and(|n| n == name)
    };
    parents
        .keys()
        .copied()
        .filter(|pid| is_below(*pid) && named(pid))
        .collect()
}

/// Seconds on a processor so far, all threads.
fn cpu(pids: &[u32]) -> f64 {
    let mut nanoseconds = 0;
    for pid in pids {
        for task in fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten() {
            let text = fs::read_to_string(task.path().join("schedstat")).unwrap();
            nanoseconds += text.split(' ').next().unwrap().parse::<u64>().unwrap();
        }
    }
    nanoseconds as f64 / 1e9
}

fn pss_mib(pids: &[u32]) -> f64 {
    let one = |pid: &u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))
            .expect("readable, which needs root: ccbox is not dumpable");
        let line = text.lines().find_map(|l| l.strip_prefix("Pss:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
    };
    pids.iter().map(one).sum()
}

/// One round of one way.
#[derive(Clone, Copy)]
struct Sample {
    seconds: f64,
    cpu: f64,
    connections: f64,
}

fn measure() -> ExitCode {
    let rounds: usize = std::env::args().find_map(|a| a.parse().ok()).unwrap_or(5);
    let me = std::env::current_exe().unwrap();
    let lab = Lab::with(&[], &[("bench", &me)]);
    let desk = lab.desk(Caller::User);
    let _origin = Running(
        lab.outside(&me, &["serve"])
            .stdin(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let bench = |mode: &'static str| ["/opt/lab/bin/bench", mode];
    let start = |mode| {
        let command = desk.control(&bench(mode));
        let mut command = command.to_bare_command();
        Running(command.stdin(Stdio::piped()).spawn().unwrap())
    };
    let (relay, splicer) = (start("relay"), start("splices"));
    let wait = [ADDRESS, RELAY, SPLICER].map(|at| {
        let at = at.replace(':', "/");
        format!("until (exec 3<>/dev/tcp/{at}) 2>/dev/null; do sleep 0.02; done")
    });
    desk.control(&["timeout", "5", "bash", "-c", &wait.join("; ")])
        .output()
        .success();
    let mut direct = Way::start(&desk.control(&bench("client")));
    let through = |relay: &str| {
        let client = desk.control(&bench("client"));
        Way::start(&client.env("HTTPS_PROXY", format!("http://{relay}")))
    };
    let (mut copy, mut bare) = (through(RELAY), through(SPLICER));
    let mut tunnel = Way::start(&desk.boxed(&["allowed.test"], &bench("client")));
    // The first connection compiles the rules and wakes everybody up.
    for way in [&mut direct, &mut copy, &mut bare, &mut tunnel] {
        way.ask("storm");
    }
    let (of_copy, of_bare) = ([relay.0.id()], [splicer.0.id()]);
    let of_tunnel = below(tunnel.child.0.id(), "ccbox");
    assert!(!of_tunnel.is_empty());
    let sample = |way: &mut Way, pids: &[u32]| {
        let before = cpu(pids);
        let seconds = way.ask("stream");
        let cpu = cpu(pids) - before;
        let connections = way.ask("storm");
        Sample {
            seconds,
            cpu,
            connections,
        }
    };
    let mut all: Vec<[Sample; 4]> = Vec::new();
    for n in 0..rounds {
        let mut taken: [Option<Sample>; 4] = [None; 4];
        for step in 0..4 {
            let which = (n + step) % 4;
            let (way, pids) = match which {
                0 => (&mut direct, &[][..]),
                1 => (&mut copy, &of_copy[..]),
                2 => (&mut bare, &of_bare[..]),
                _ => (&mut tunnel, &of_tunnel[..]),
            };
            taken[which] = Some(sample(way, pids));
        }
        all.push(taken.map(Option::unwrap));
    }
    let before = pss_mib(&of_tunnel);
    tunnel.ask("hold");
    let memory = pss_mib(&of_tunnel) - before;
    report(&all, memory)
}

fn report(all: &[[Sample; 4]], memory: f64) -> ExitCode {
    let spread =
        |of: &dyn Fn(&[Sample; 4]) -> f64| Spread::of(&all.iter().map(of).collect::<Vec<_>>());
    println!(
        "{} rounds    one stream      CPU of the proxy   new connections",
        all.len()
    );
    for (which, name) in [
        (0, "direct"),
        (1, "plain copy"),
        (2, "bare splice"),
        (3, "CONNECT"),
    ] {
        let rate = spread(&|s| 1024.0 / s[which].seconds).p50;
        let cpu = spread(&|s| s[which].cpu).p50;
        let connections = spread(&|s| s[which].connections).p50;
        println!("{name:11} {rate:6.0} MiB/s     {cpu:6.3} s/GiB       {connections:8.0} /s");
    }
    let times = spread(&|s| s[3].seconds / s[0].seconds);
    let copied = spread(&|s| s[1].seconds / s[0].seconds);
    let slower = spread(&|s| s[0].connections / s[3].connections);
    let copied_slower = spread(&|s| s[0].connections / s[1].connections);
    let bare_cpu = spread(&|s| s[2].cpu / s[1].cpu);
    println!(
        "CPU of a bare splice over a plain copy: {:.2} times",
        bare_cpu.p50
    );
    println!(
        "of direct: one stream {:.2} × (plain copy {:.2} ×), new connections {:.2} × (plain copy {:.2} ×)",
        1.0 / times.p50,
        1.0 / copied.p50,
        1.0 / slower.p50,
        1.0 / copied_slower.p50
    );
    let cpu = spread(&|s| s[3].cpu / s[1].cpu);
    let verdicts = [
        verdict(
            "time of a tunnel over direct",
            times.p50,
            BUDGET_TIMES,
            "times",
        ),
        verdict(
            "CPU of a tunnel over a plain copy",
            cpu.p50,
            BUDGET_CPU,
            "times",
        ),
        verdict(
            "direct connections over tunnels",
            slower.p50,
            BUDGET_CONNECTIONS,
            "times",
        ),
        verdict("memory of 200 tunnels", memory, BUDGET_MIB, "MiB"),
    ];
    if verdicts.iter().all(|v| *v == ExitCode::SUCCESS) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn main() -> ExitCode {
    common::without_inherited_descriptors();
    match std::env::args().nth(1).as_deref() {
        Some("serve") => serve(),
        Some("relay") => {
            relay::copy();
            ExitCode::SUCCESS
        }
        Some("splices") => {
            relay::splices();
            ExitCode::SUCCESS
        }
        Some("client") => {
            client();
            ExitCode::SUCCESS
        }
        _ => measure(),
    }
}
