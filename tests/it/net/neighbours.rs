//! Cases of our own beside the known kinds of failure: who may be reached, what passes whole, what TLS says.

use super::lab::{CA, Caller, Lab};
use super::{client, client_outside};

/// No variable, no proxy.
const BARE: &str = "unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY all_proxy";

fn python(script: &str) -> [&str; 3] {
    ["/usr/bin/python3", "-c", script]
}

fn sh(script: &str) -> [&str; 3] {
    ["sh", "-c", script]
}

/// Beside addresses instead of names: every form that SOCKS has on the wire, and what carries another address inside. A star means
/// public hosts.
#[test]
fn socks_addresses_are_judged_by_where_they_lead() {
    let script = r"
import ipaddress, os, socket, urllib.parse
u = urllib.parse.urlparse(os.environ['CCBOX_SOCKS_PROXY'])
def ask(kind, address, port):
    s = socket.create_connection((u.hostname, u.port), 5); s.settimeout(5)
    s.sendall(b'\x05\x01\x00'); s.recv(2)
    s.sendall(b'\x05\x01\x00' + bytes([kind]) + address + port.to_bytes(2, 'big'))
    answer = s.recv(10)
    return answer[1] if len(answer) > 1 else -1
print('good', ask(1, ipaddress.ip_address('203.0.113.10').packed, 80), ask(4, ipaddress.ip_address('2001:db8::10').packed, 80),
    ask(4, ipaddress.ip_address('::ffff:203.0.113.10').packed, 80))
for text in ('127.0.0.1', '127.255.255.254', '0.0.0.0', '0.1.2.3', '255.255.255.255', '224.0.0.1', '240.0.0.1', '10.77.0.5', '100.64.0.1',
    '169.254.169.254', '198.18.0.1', '::', '::1', '::ffff:127.0.0.1', '::ffff:0.0.0.0', '::ffff:10.77.0.5', '::127.0.0.1', '64:ff9b::7f00:1',
    '64:ff9b::a4d:5', '64:ff9b:1::1', '2002:7f00:1::', '2001:0:7f00:1::', 'fe80::1', 'fec0::1', 'fd00:ec2::254', 'ff02::1', '4000::1'):
    packed = ipaddress.ip_address(text).packed
    print(text, ask(1 if len(packed) == 4 else 4, packed, 9099))
print('port', ask(1, ipaddress.ip_address('203.0.113.10').packed, 0), ask(3, b'\x0callowed.test', 0))
";
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let out = desk.boxed(&["*"], &python(script)).output().success();
    let lines: Vec<&str> = out.stdout.lines().collect();
    assert_eq!(lines[0], "good 0 0 0", "{out}");
    let (last, refused) = lines[1..].split_last().unwrap();
    assert_eq!(*last, "port 1 1", "{out}");
    assert_eq!(refused.len(), 27, "{out}");
    for line in refused {
        assert!(line.ends_with(" 2"), "not allowed: {line}\n{out}");
    }
    let hits = lab.hits_of("CONN");
    assert_eq!(hits, ["CONN allowed 80", "CONN six 80", "CONN allowed 80"]);
    assert_eq!(lab.hits_of("LOOPBACK"), Vec::<String>::new());
}

/// Beside letter case and trailing dots: look-alikes, full-width letters, foreign dots, two dots, Punycode of what is no such name.
#[test]
fn look_alikes_are_other_names() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let bad = [
        // Cyrillic letters, as they are and in Punycode.
        "\u{430}llowed.test",
        "xn--llowed-2qf.test",
        "allowed.test..",
        "allowed..test",
        ".allowed.test",
        "allowed.test.evil.test",
        "allowed.test\u{3002}evil.test",
        "allowed\u{ad}evil.test",
        "allowed.test\u{0}",
        "allowed.test%2eevil.test",
        "allowed.test:80@denied.test",
        "denied.test#.allowed.test",
        "denied.test?.allowed.test",
        "denied.test\\.allowed.test",
        "xn--a.allowed.test",
        "-.evil.test",
    ];
    let good = [
        "ALLOWED.test.",
        "\u{ff41}llowed\u{3002}test",
        "\u{ff21}LLOWED\u{ff0e}test",
    ];
    let script = r"
import os, socket, sys, urllib.parse
u = urllib.parse.urlparse(os.environ['CCBOX_SOCKS_PROXY'])
for text in eval(open('../names').read()):
    name = text.encode()
    s = socket.create_connection((u.hostname, u.port), 5); s.settimeout(5)
    s.sendall(b'\x05\x01\x00'); s.recv(2)
    s.sendall(b'\x05\x01\x00\x03' + bytes([len(name)]) + name + b'\0\x50')
    answer = s.recv(10); code = answer[1] if len(answer) > 1 else -1
    h = socket.create_connection((u.hostname, u.port), 5); h.settimeout(5)
    h.sendall(b'CONNECT ' + name + b':80 HTTP/1.1\r\n\r\n')
    line = h.recv(4096).split(b'\r\n')[0]
    print(code, line[9:12].decode() or 'closed')
";
    let all: Vec<String> = good
        .iter()
        .chain(&bad)
        .map(|name| {
            let escaped = name
                .chars()
                .map(|c| format!("\\U{:08x}", u32::from(c)))
                .collect::<Vec<_>>()
                .concat();
            format!("'{escaped}'")
        })
        .collect();
    desk.write("names", format!("[{}]", all.join(", ")));
    let out = desk
        .boxed(&["allowed.test", "*.allowed.test"], &python(script))
        .output()
        .success();
    let got: Vec<&str> = out.stdout.lines().collect();
    assert_eq!(got.len(), good.len() + bad.len(), "{out}");
    for (line, name) in got.iter().zip(&good) {
        // What is not ASCII is no CONNECT target (RFC 9110 §7.2), and a name for SOCKS.
        let wanted = if name.is_ascii() { "0 200" } else { "0 400" };
        assert_eq!(*line, wanted, "{name}: {out}");
    }
    for (line, name) in got[good.len()..].iter().zip(&bad) {
        assert!(
            !line.starts_with("0 ") && !line.ends_with(" 200"),
            "{name:?} {line}: {out}"
        );
    }
    assert!(
        !lab.hits()
            .iter()
            .any(|h| h.contains("denied") || h.starts_with("DNS")),
        "{:?}",
        lab.hits()
    );
}

/// Beside look-ups as a way out: what a question can carry (long names, many labels, other types and classes, several questions, over
/// TCP and in pieces) stays here, and an allowed wildcard is looked up when it is dialled, not when it is asked for.
#[test]
fn no_question_carries_data_out() {
    let script = r"
import random, socket, struct
def name(labels): return b''.join(bytes([len(l)]) + l for l in labels) + b'\0'
def query(wire, kind=1, count=1, klass=1): return b'\x12\x34\x01\0' + struct.pack('>HHHH', count, 0, 0, 0) + (wire + struct.pack('>HH', kind, klass)) * max(count, 1)
secret = [b's' * 63, b'e' * 63, b'c' * 63]
messages = [query(name(secret + [b'evil', b'test'])), query(name(secret + [b'allowed', b'test'])), query(name([b'x'] * 120 + [b'allowed', b'test'])),
    query(name([b'a.b', b'allowed', b'test'])), query(name([b'a\0b', b'allowed', b'test'])), query(name([b'secret', b'allowed', b'test']), 16),
    query(name([b'secret', b'allowed', b'test']), 255), query(name([b'secret', b'allowed', b'test']), 1, 2), query(name([b'secret', b'allowed', b'test']), 1, 1, 3),
    query(name([b'y' * 64])), query(name(secret + [b'z' * 63])), query(b'\xc0\x0c'), query(name([b'secret', b'evil', b'test']), 12), b'', b'\0' * 12, b'\xff' * 512]
random.seed(1); messages += [random.randbytes(random.randrange(600)) for _ in range(200)]
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.connect(('127.0.0.1', 53)); u.settimeout(1)
for m in messages: u.send(m)
for m in messages[:16]:
    t = socket.create_connection(('127.0.0.1', 53), 5)
    for byte in struct.pack('>H', len(m)) + m[:300]: t.send(bytes([byte]))
    t.close()
while True:
    try: u.recv(600)
    except OSError: break
u.send(query(name([b'api', b'allowed', b'test'])))
answer = u.recv(600); print(answer[3] & 15, socket.inet_ntoa(answer[-4:]).startswith('198.18.'))
for n in range(20):
    found = socket.getaddrinfo('data%d.allowed.test' % n, 80, socket.AF_INET, socket.SOCK_STREAM)
    assert found[0][4][0].startswith('198.18.')
";
    let lab = Lab::start();
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        lab.forget_hits();
        let out = desk
            .boxed(&["*.allowed.test"], &python(script))
            .output()
            .success();
        assert_eq!(out.stdout, "0 True\n", "{out}");
        assert_eq!(lab.hits_of("DNS"), Vec::<String>::new());
    }
}

/// Beside plain HTTP and CONNECT: several requests on one connection are judged one by one, and nothing comes after a refusal.
#[test]
fn pipelined_requests_are_judged_one_by_one() {
    let script = r"
import os, socket, urllib.parse
u = urllib.parse.urlparse(os.environ['http_proxy'])
s = socket.create_connection((u.hostname, u.port), 5); s.settimeout(10)
get = lambda host, path: b'GET http://%s/%s HTTP/1.1\r\nHost: allowed.test\r\n\r\n' % (host, path)
s.sendall(get(b'allowed.test', b'1') + get(b'api.allowed.test', b'2') + get(b'denied.test', b'3') + get(b'allowed.test', b'4'))
data = b''
while part := s.recv(65536): data += part
print(data.count(b'HTTP/1.1 200'), data.count(b'HTTP/1.1 403'), data.count(b'HTTP/1.1 '))
";
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let allow = ["allowed.test", "api.allowed.test"];
    let out = desk.boxed(&allow, &python(script)).output().success();
    assert_eq!(out.stdout, "2 1 3\n", "{out}");
    out.names_denied("denied.test:80");
    assert!(
        !lab.hits()
            .iter()
            .any(|h| h.contains("denied") || h.contains("/4")),
        "{:?}",
        lab.hits()
    );
}

/// Beside chunked bodies: sizes that two parsers read differently do not hide a second request, by the proxy, in a tunnel, and caught.
#[test]
fn chunks_hide_no_request() {
    let script = r"
import os, socket, sys, urllib.parse
u = urllib.parse.urlparse(os.environ['http_proxy'])
evil = b'POST /evil HTTP/1.1\r\nHost: denied.test\r\nContent-Length: 0\r\n\r\n'
bodies = [b'0x1\r\nA\r\n0\r\n\r\n', b'-1\r\nA\r\n0\r\n\r\n', b'+1\r\nA\r\n0\r\n\r\n', b'1 \r\nA\r\n0\r\n\r\n', b' 1\r\nA\r\n0\r\n\r\n', b'1\nA\n0\n\n',
    b'10000000000000001\r\nA\r\n0\r\n\r\n', b'1\r\nAB\r\n0\r\n\r\n', b'1;a=\r\nA\r\n0\r\n\r\n', b'1;\nA\r\n0\r\n\r\n', b'1\r\nA\r\n0\r\nX: y\r\nContent-Length: 9\r\n\r\n',
    b'g\r\n\r\n', b'\r\n', b'1\r\r\nA\r\n0\r\n\r\n']
for way in ('proxy', 'tunnel', 'caught'):
    for n, body in enumerate(bodies):
        if way == 'caught': s = socket.create_connection(('allowed.test', 80), 5)
        else: s = socket.create_connection((u.hostname, u.port), 5)
        s.settimeout(12)
        if way == 'tunnel':
            s.sendall(b'CONNECT allowed.test:80 HTTP/1.1\r\n\r\n'); s.recv(4096)
        target = b'http://allowed.test/up' if way == 'proxy' else b'/up'
        head = b'POST ' + target + b' HTTP/1.1\r\nHost: allowed.test\r\nTransfer-Encoding: chunked\r\n\r\n'
        s.sendall(head + body + evil)
        s.shutdown(socket.SHUT_WR)
        data = b''
        try:
            while part := s.recv(65536): data += part
        except OSError: pass
        print(way, n, data[9:12].decode() or 'closed')
";
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let out = desk
        .boxed(&["allowed.test"], &python(script))
        .output()
        .success();
    let lines: Vec<&str> = out.stdout.lines().collect();
    assert_eq!(lines.len(), 42, "{out}");
    for (n, line) in lines.iter().enumerate() {
        let code = line.rsplit(' ').next().unwrap();
        // An extension and a trailer are in order; what is cut or no number is not.
        assert!(
            ["200", "400", "502", "closed"].contains(&code),
            "{line}: {out}"
        );
        let sound = [8, 10].contains(&(n % 14));
        assert!(!sound || code == "200", "{line}: {out}");
        let broken = [0, 1, 2, 6, 11, 12].contains(&(n % 14));
        assert!(!broken || code != "200", "{line}: {out}");
    }
    assert!(
        !lab.hits()
            .iter()
            .any(|h| h.contains("/evil") || h.contains("denied")),
        "{:?}",
        lab.hits()
    );
}

/// Beside WebSocket through the proxy: on a caught connection and through SOCKS, frames both ways.
#[test]
fn websockets_pass_without_the_proxy() {
    let script = r"
import os, socket, struct, sys, urllib.parse
if sys.argv[1] == 'socks':
    u = urllib.parse.urlparse(os.environ['CCBOX_SOCKS_PROXY'])
    s = socket.create_connection((u.hostname, u.port), 5)
    s.sendall(b'\x05\x01\x00'); s.recv(2); s.sendall(b'\x05\x01\x00\x03\x0callowed.test\0\x50'); s.recv(10)
else: s = socket.create_connection(('allowed.test', 80), 5)
s.settimeout(10)
s.sendall(b'GET /ws HTTP/1.1\r\nHost: allowed.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n')
d = b''
while b'first' not in d: d += s.recv(4096)
for n in range(100):
    s.sendall(b'\x81\x04pi%02d' % n); d = b''
    while b'pi%02d' % n not in d: d += s.recv(4096)
print('echoed')
";
    let lab = Lab::start();
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        let argv = |way| ["/usr/bin/python3", "-c", script, way];
        for command in [
            desk.control(&argv("direct")),
            desk.boxed(&["allowed.test"], &argv("direct")),
            desk.boxed(&["allowed.test"], &argv("socks")),
        ] {
            assert_eq!(command.output().success().stdout, "echoed\n");
        }
    }
}

/// Beside half-close: a client that resets, and one that goes away, take nothing of the others with them.
#[test]
fn a_client_that_goes_away_is_alone() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let script = r"
import os, socket, struct, subprocess, urllib.parse
u = urllib.parse.urlparse(os.environ['http_proxy'])
steady = socket.create_connection((u.hostname, u.port), 5); steady.settimeout(10)
steady.sendall(b'CONNECT allowed.test:7000 HTTP/1.1\r\n\r\n')
for n in range(60):
    s = socket.create_connection((u.hostname, u.port), 5)
    s.sendall([b'CONNECT allowed.test:7000 HTTP/1.1\r\n\r\nxx', b'POST http://allowed.test/up HTTP/1.1\r\nContent-Length: 99\r\n\r\nx',
        b'GET http://allowed.test/big?9000000 HTTP/1.1\r\n\r\n', b'CONNECT allowed.test:80 HTTP/1.1\r\n\r\nGET / HT'][n % 4])
    if n % 4 in (0, 2, 3) and n % 3: s.recv(10)
    if n % 2: s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    s.close()
steady.sendall(b'still'); steady.shutdown(socket.SHUT_WR)
d = b''
while part := steady.recv(4096): d += part
print(b'GOT 5' in d, subprocess.run(['curl', '-s', '-m5', 'http://allowed.test/'], capture_output=True, text=True).stdout[:14])
";
    let out = desk
        .boxed(&["allowed.test"], &python(script))
        .output()
        .success();
    assert_eq!(out.stdout, "True ORIGIN allowed\n", "{out}");
}

/// Beside the origin's certificate: a client that sends no name, one that sends another, and old versions of TLS, without the proxy
/// and through it.
#[test]
fn tls_without_a_name_is_refused_where_there_is_one() {
    let lab = Lab::start();
    let ask = |options: &str| {
        format!(
            "echo | timeout 10 openssl s_client {options} -CAfile {CA} 2>&1 | grep -m1 -c 'BEGIN CERTIFICATE'"
        )
    };
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        for (options, passes) in [
            ("-connect allowed.test:443 -servername allowed.test", true),
            (
                "-connect allowed.test:443 -servername ALLOWED.test -tls1_2",
                true,
            ),
            ("-connect allowed.test:443 -noservername", false),
            ("-connect allowed.test:443 -servername denied.test", false),
            (
                "-connect allowed.test:443 -servername api.allowed.test",
                false,
            ),
            // Who may reach an address may reach it without a name.
            ("-connect 203.0.113.10:443 -noservername", true),
            (
                "-proxy ${http_proxy#http://} -connect allowed.test:443 -servername allowed.test -alpn h2,http/1.1",
                true,
            ),
            (
                "-proxy ${http_proxy#http://} -connect allowed.test:443 -noservername",
                false,
            ),
        ] {
            let outside = ask(&options.replace("-proxy ${http_proxy#http://} ", ""));
            let control = desk.control(&sh(&outside)).output();
            assert_eq!(control.stdout, "1\n", "{options}: {control}");
            let allow = ["allowed.test", "api.allowed.test", "203.0.113.10"];
            let out = desk.boxed(&allow, &sh(&ask(options))).output();
            let wanted = if passes { "1\n" } else { "0\n" };
            assert_eq!(out.stdout, wanted, "{options}: {out}");
            assert_eq!(
                out.stderr.contains("ccbox: denied network-outbound"),
                !passes,
                "{options}: {out}"
            );
        }
    }
}

/// Beside the caller's authority: git, Node and wget find it, each by its own variable or file, without the proxy as well.
#[test]
fn every_tool_finds_the_callers_authority() {
    let lab = Lab::start();
    let ca = std::fs::read(lab.outer("opt/lab/ca.pem")).unwrap();
    let script = format!(
        "git ls-remote https://allowed.test/r 2>&1 | grep -c -e 'certificate' -e 'verif'
         node -e 'require(\"https\").get(\"https://allowed.test/\", r => {{ console.log(r.statusCode); r.destroy(); }}).on(\"error\", e => console.log(e.code))'
         {BARE}; curl -s -m5 https://allowed.test/ | head -c 14; echo
         node -e 'fetch(\"https://allowed.test/\").then(r => console.log(r.status)).catch(e => console.log(e.cause && e.cause.code))'"
    );
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        desk.write("corp/ca.pem", &ca);
        let file = format!("{}/corp/ca.pem", desk.inner);
        let bound = desk
            .spec(&["allowed.test"], "")
            .replace("view = \"host\"", "view = \"bound\"");
        for command in [
            desk.control(&sh(&script)),
            desk.with_spec(&bound, &[], &sh(&script)),
        ] {
            let names = ["GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "CURL_CA_BUNDLE"];
            let command = names.into_iter().fold(command, |c, n| c.env(n, &file));
            let out = command.output().success();
            assert_eq!(out.stdout, "0\n200\nORIGIN allowed\n200\n", "{out}");
        }
        // Without them the same tools say that they trust nobody there.
        let out = desk.with_spec(&bound, &[], &sh(&script)).output().success();
        assert!(
            out.stdout.starts_with("1\nUNABLE_TO_") && !out.stdout.contains("ORIGIN"),
            "{out}"
        );
    }
}

/// Beside tunnels that are copied byte by byte: a ClientHello in pieces, one beyond the limit, and what only begins like one.
#[test]
fn a_hello_in_pieces_is_read_whole() {
    let script = r"
import socket, ssl, sys, time
def hello(name, pad):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT); context.check_hostname = False; context.verify_mode = ssl.CERT_NONE
    if pad: context.set_alpn_protocols(['p%03d' % n + 'x' * 200 for n in range(pad)])
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(into, out, server_hostname=name)
    try: tls.do_handshake()
    except ssl.SSLWantReadError: pass
    return out.read()
def say(data, piece):
    s = socket.create_connection(('allowed.test', 443), 5); s.settimeout(10)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        for at in range(0, len(data), piece):
            s.sendall(data[at:at + piece]); time.sleep(0.002)
        answer = s.recv(100)
    except OSError: return 'closed'
    # A record of the handshake, or an alert.
    return {22: 'hello', 21: 'alert'}.get(answer[0] if answer else 0, 'closed')
good, bad, large = hello('allowed.test', 0), hello('denied.test', 0), hello('allowed.test', 30)
print(say(good, 9), say(good, 700), say(large, 1400), say(bad, 9), say(bad, 5000))
print(say(good[:3] + b'\xff\xff' + good[5:] * 60, 5000), say(b'\x16' + b'x' * 400, 5000))
";
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let control = desk.control(&python(script)).output().success();
    assert!(
        control
            .stdout
            .starts_with("hello hello hello hello hello\n"),
        "{control}"
    );
    let out = desk
        .boxed(&["allowed.test"], &python(script))
        .output()
        .success();
    assert_eq!(
        out.stdout, "hello hello hello alert alert\nalert alert\n",
        "{out}"
    );
    assert!(
        !lab.hits_of("SNI")
            .iter()
            .skip(5)
            .any(|h| h.contains("denied")),
        "{:?}",
        lab.hits()
    );
}

/// Beside clients that know no proxy: a connection to port 0, to a port nobody named, and to the sandbox' own names fails at once.
#[test]
fn odd_ports_fail_at_once() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let args = [
        "direct",
        "allowed.test:0",
        "allowed.test:65535",
        "198.18.0.1:80",
        "0.0.0.0:80",
        "198.19.255.255:443",
        "denied.test:443",
    ];
    client_outside(&desk, &["direct", "allowed.test:80"])
        .output()
        .success();
    lab.forget_hits();
    let out = client(&desk, &["allowed.test"], &args).output().success();
    assert_eq!(out.stdout.matches(" fast").count(), args.len() - 1, "{out}");
    assert_eq!(lab.hits(), Vec::<String>::new());
}
