//! The proxies over real sockets, against origins that these tests start. Names resolve through a table; every address check is
//! the product's own, so names that lead to 127.0.0.1 need `allow_private` here as everywhere.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::dial::Lookup;
use super::*;
use crate::policy::host_rule::HostRule;
use crate::policy::{AllProxy, Layer, NetworkPolicy, Origin, Ruled, UserProxies};
use crate::report::Violation;

mod catch;
mod forms;
mod limits;
mod refusals;
mod retry;
mod single;
mod socks;
mod tunnels;
mod upstream;

/// Long enough for a loaded machine; a hanging proxy fails instead of blocking the suite.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Default)]
pub(super) struct Recorder {
    violations: Mutex<Vec<Violation>>,
    warnings: Mutex<Vec<String>>,
}

impl Sink for Recorder {
    fn violation(&self, v: Violation) {
        self.violations.lock().unwrap().push(v);
    }
    fn warn(&self, text: &str) {
        self.warnings.lock().unwrap().push(text.to_owned());
    }
}

/// A resolver with a table; counts what it is asked.
#[derive(Default)]
struct Table {
    names: HashMap<&'static str, Vec<IpAddr>>,
    asked: Mutex<Vec<String>>,
}

impl Resolve for Table {
    fn lookup<'a>(&'a self, name: &'a str, _port: u16) -> Lookup<'a> {
        self.asked.lock().unwrap().push(name.to_owned());
        let found = self.names.get(name).cloned();
        let hangs = name == "slow.test";
        Box::pin(async move {
            if hangs {
                std::future::pending::<()>().await;
            }
            found.ok_or_else(|| io::Error::other("Name not known"))
        })
    }
}

pub(super) struct Fixture {
    set: Option<ProxySet>,
    pub(super) addr: SocketAddr,
    sink: Arc<Recorder>,
    table: Arc<Table>,
}

pub(super) fn network(allowed: &[&str], denied: &[&str]) -> NetworkPolicy {
    let origin = |line: usize| Origin {
        layer: Layer::Spec,
        file: Some("/w/spec.toml".into()),
        line: u32::try_from(line + 1).ok(),
    };
    NetworkPolicy {
        mode: NetworkMode::Filtered,
        baseline: false,
        allowed: allowed
            .iter()
            .enumerate()
            .map(|(i, text)| Ruled {
                value: match text.strip_prefix("private ") {
                    Some(text) => HostRule::parse_allow(text, true).unwrap(),
                    None => HostRule::parse_allow(text, false).unwrap(),
                },
                origin: origin(i),
            })
            .collect(),
        denied: denied
            .iter()
            .enumerate()
            .map(|(i, text)| Ruled {
                value: HostRule::parse_deny(text).unwrap().0.remove(0),
                origin: origin(allowed.len() + i),
            })
            .collect(),
        all_proxy: AllProxy::Http,
        allow_local_binding: false,
        transparent_ports: None,
        user_proxies: UserProxies::default(),
        unix_sockets: Vec::new(),
        all_unix_sockets: None,
        access_log: None,
        off_by: None,
        managed_only: None,
        hint_file: None,
    }
}

pub(super) fn fixture(allowed: &[&str], denied: &[&str]) -> Fixture {
    fixture_of(&network(allowed, denied), |_| {})
}

pub(super) fn fixture_of(policy: &NetworkPolicy, change: impl FnOnce(&mut ProxyConfig)) -> Fixture {
    fixture_with(policy, Limits::default(), change)
}

fn fixture_with(
    policy: &NetworkPolicy,
    limits: Limits,
    change: impl FnOnce(&mut ProxyConfig),
) -> Fixture {
    let local = || vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let table = Arc::new(Table {
        names: HashMap::from([
            ("allowed.test", local()),
            ("api.allowed.test", local()),
            ("loop.test", local()),
            ("xn--bcher-kva.test", local()),
            ("meta.test", vec!["169.254.169.254".parse().unwrap()]),
            ("priv.test", vec!["10.77.0.5".parse().unwrap()]),
            (
                "mixed.test",
                vec![
                    "203.0.113.10".parse().unwrap(),
                    "127.0.0.1".parse().unwrap(),
                ],
            ),
            ("empty.test", vec![]),
        ]),
        asked: Mutex::default(),
    });
    let sink = Arc::new(Recorder::default());
    let mut config = ProxyConfig {
        identify: None,
        admit: None,
        access: None,
        egress: EgressPolicy::new(policy),
        upstream: Chain::default(),
        user_ports: vec![],
        listeners: vec![listener],
        forwards: vec![],
        catch: None,
        token: None,
        hint_file: None,
    };
    change(&mut config);
    let set = ProxySet::start_with(
        config,
        Arc::clone(&sink) as Arc<dyn Sink>,
        Arc::clone(&table) as Arc<dyn Resolve>,
        limits,
    )
    .unwrap();
    Fixture {
        set: Some(set),
        addr,
        sink,
        table,
    }
}

impl Fixture {
    fn dial(&self) -> TcpStream {
        dial(self.addr)
    }

    /// Sends all, ends the sending side, reads to the end.
    fn exchange(&self, request: &[u8]) -> Vec<u8> {
        let mut s = self.dial();
        s.write_all(request).unwrap();
        s.shutdown(Shutdown::Write).unwrap();
        read_to_end(&mut s)
    }

    fn exchange_text(&self, request: &str) -> String {
        String::from_utf8(self.exchange(request.as_bytes())).unwrap()
    }

    /// `target: rule | hint` of each violation so far.
    fn violations(&self) -> Vec<String> {
        let list = self.sink.violations.lock().unwrap();
        list.iter()
            .map(|v| {
                assert_eq!(v.action, "network-outbound");
                let hint = v.hint.as_deref().unwrap_or("-");
                format!("{}: {} | {hint}", v.target, v.rule)
            })
            .collect()
    }

    fn warnings(&self) -> Vec<String> {
        self.sink.warnings.lock().unwrap().clone()
    }

    fn asked(&self) -> Vec<String> {
        self.table.asked.lock().unwrap().clone()
    }
}

pub(super) fn dial(addr: SocketAddr) -> TcpStream {
    let s = TcpStream::connect(addr).unwrap();
    s.set_read_timeout(Some(PATIENCE)).unwrap();
    s.set_write_timeout(Some(PATIENCE)).unwrap();
    s
}

/// Everything up to the end; a reset after the answer is no concern of these tests.
fn read_to_end(s: &mut TcpStream) -> Vec<u8> {
    let mut out = Vec::new();
    let mut buffer = vec![0; 65536];
    loop {
        match s.read(&mut buffer) {
            Ok(0) => return out,
            Ok(n) => out.extend(&buffer[..n]),
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return out,
            Err(e) => panic!("{e} after {} bytes", out.len()),
        }
    }
}

/// Reads until the given bytes have arrived, and returns everything up to and with them.
fn read_until(s: &mut TcpStream, end: &[u8]) -> String {
    let mut out = Vec::new();
    let mut byte = [0];
    while !out.ends_with(end) {
        let n = s.read(&mut byte).unwrap();
        assert_eq!(
            n,
            1,
            "ended before {:?}: {:?}",
            String::from_utf8_lossy(end),
            String::from_utf8_lossy(&out)
        );
        out.push(byte[0]);
    }
    String::from_utf8(out).unwrap()
}

fn head(s: &mut TcpStream) -> String {
    read_until(s, b"\r\n\r\n")
}

/// A server that hands each connection, with its number, to a function on a thread of its own.
pub(super) struct Server {
    pub(super) port: u16,
    accepted: Arc<AtomicUsize>,
}

impl Server {
    pub(super) fn start(serve: impl Fn(TcpStream, usize) + Send + Sync + 'static) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), serve)
    }

    fn on(listener: TcpListener, serve: impl Fn(TcpStream, usize) + Send + Sync + 'static) -> Self {
        let port = listener.local_addr().unwrap().port();
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        let serve = Arc::new(serve);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let n = count.fetch_add(1, Ordering::SeqCst);
                let serve = Arc::clone(&serve);
                std::thread::spawn(move || serve(stream, n));
            }
        });
        Self { port, accepted }
    }

    fn connections(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Answers each request with its own head as the body, over kept-alive connections.
    pub(super) fn echo_heads() -> Self {
        Self::start(|mut s, _| {
            while let Some(head) = try_head(&mut s) {
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: X-Gone\r\nX-Gone: 1\r\nKeep-Alive: timeout=9\r\nX-Kept: 1\r\n\r\n{head}",
                    head.len()
                );
                if s.write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
        })
    }

    /// Says something first, reads to the end, says how much that was: what git and friends do.
    pub(super) fn banner() -> Self {
        Self::start(|mut s, _| {
            let _ = s.write_all(b"BANNER\n");
            let data = read_to_end(&mut s);
            let sum = data
                .iter()
                .fold(0_u64, |a, b| a.wrapping_mul(31) + u64::from(*b));
            let _ = s.write_all(format!("GOT {} {sum}\n", data.len()).as_bytes());
        })
    }
}

/// A request head, or nothing at the end of the connection.
fn try_head(s: &mut TcpStream) -> Option<String> {
    let mut out = Vec::new();
    let mut byte = [0];
    while !out.ends_with(b"\r\n\r\n") {
        match s.read(&mut byte) {
            Ok(1) => out.push(byte[0]),
            _ => return None,
        }
    }
    String::from_utf8(out).ok()
}

/// Bytes in which a lost, doubled or swapped piece shows.
fn pattern(len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| ((i % 251) ^ (i / 251 % 256)).to_le_bytes()[0])
        .collect()
}

fn checksum(data: &[u8]) -> String {
    let sum = data
        .iter()
        .fold(0_u64, |a, b| a.wrapping_mul(31) + u64::from(*b));
    format!("GOT {} {sum}\n", data.len())
}
