//! Everything that could lead a connection past its name: odd questions, other addresses, other ports, other words.

use super::lab::Lab;

/// Names, addresses, ports and words that should lead to `denied.test`, to private addresses, or to a port that a name is not allowed at.
const ASTRAY: &str = r#"
import socket, ssl, struct, sys
SERVER = [l.split()[1] for l in open("/etc/resolv.conf") if l.startswith("nameserver")][0]
LONG = b"a" * 63
def label(*parts): return b"".join(bytes([len(p)]) + p for p in parts) + b"\0"
def message(question, count=1, flags=0x0100): return struct.pack(">6H", 7, flags, count, 0, 0, 0) + question
def question(name, kind=1, family=1): return name + struct.pack(">HH", kind, family)
DENIED, ALLOWED = label(b"denied", b"test"), label(b"allowed", b"test")
questions = [message(question(DENIED, kind)) for kind in (1, 5, 12, 16, 28, 33, 64, 65, 255)]
questions += [message(question(name)) for name in (
    label(b"DENIED", b"TEST"), label(b"denied.test"), label(b"allowed.test"), label(b"allowed", b"test\0", b"denied", b"test"),
    label(b"denied", b"test", b"allowed.test"), label(b"allowed", b"test", b"denied", b"test"), label(b"x", b"denied", b"test"),
    label(b"203", b"0", b"113", b"11"), label(b"203.0.113.11"), label(b"0xcb00710b"), label(b"3405803787"), label(b"\xff\xfe"),
    label(LONG, LONG, LONG, LONG[:61]), label(LONG, LONG, LONG, LONG), label(), label(b"denied\r\n", b"test"), label(b"xn--", b"test"),
    # Pointers: to themselves, to each other, forwards, to the header, behind a label.
    b"\xc0\x0c", b"\xc0\x0e\xc0\x0c", b"\xc0\x12" + DENIED, b"\xc0\x00", b"\x07allowed\xc0\x0c", b"\x40" + DENIED, b"\x80" + DENIED)]
questions += [message(question(ALLOWED) + question(DENIED), 2), message(question(DENIED) + question(ALLOWED), 2), message(question(DENIED), 0),
    message(question(DENIED), 65535), message(question(DENIED, 1, 3)), message(question(DENIED, 1, 255)), message(question(DENIED), 1, 0x8180),
    message(question(DENIED), 1, 0x2800), message(question(ALLOWED) + b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\xcb\x00\x71\x0b"), b"", b"\0" * 11]
targets = set()
def ask(data, tcp=False):
    try:
        if tcp:
            s = socket.create_connection((SERVER, 53), 1)
            s.sendall(struct.pack(">H", len(data)) + data); answer = s.recv(4096)[2:]
        else:
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.2)
            s.sendto(data, (SERVER, 53)); answer = s.recv(4096)
        s.close()
    except OSError: return None
    # Whatever address is in the answer.
    if len(answer) > 16 and answer[6:8] == b"\0\1": targets.add(socket.inet_ntoa(answer[-4:]))
    return answer
INSIDE = SERVER == "127.0.0.1"
for data in questions if INSIDE else questions[:1]:
    ask(data); ask(data, True)
for name in "loop.test", "priv.test", "meta.test", "mixed.test", "api.allowed.test", "allowed.test":
    try: targets.update(a[4][0] for a in socket.getaddrinfo(name, 80, socket.AF_INET, socket.SOCK_STREAM))
    except OSError: pass
if INSIDE:
    # The names of a run are used up; nobody's address goes to somebody else.
    full = 0
    for n in range(17000):
        answer = ask(message(question(label(b"n%d" % n, b"wild", b"test"))))
        full += answer is not None and answer[3] & 15 == 2
        if full > 20: break
    print("full", full > 20)
    targets = {t for t in targets if not t.startswith("198.18.") or struct.unpack(">I", socket.inet_aton(t))[0] & 0xffff < 32}
targets = {"203.0.113.10", "203.0.113.11"} if not INSIDE else targets | {"198.18.0.0", "198.18.64.1", "198.18.255.255", "198.19.255.255", "203.0.113.11", "::ffff:203.0.113.11", "10.77.0.5", "169.254.169.254",
    "::ffff:10.77.0.5", "127.0.0.1", "127.0.0.2", "::1", "::ffff:198.18.0.1", "0.0.0.0", "2001:db8::10"} | {"198.18.0.%d" % n for n in range(1, 12)}
WORDS = [b"GET /astray HTTP/1.1\r\nHost: denied.test\r\nConnection: close\r\n\r\n", b"GET http://denied.test/astray HTTP/1.1\r\nHost: denied.test\r\n\r\n",
    b"GET /astray HTTP/1.1\r\nHost: api.allowed.test\r\n\r\n", b"CONNECT denied.test:80 HTTP/1.1\r\nHost: denied.test:80\r\n\r\nGET /astray HTTP/1.1\r\nHost: denied.test\r\n\r\n",
    b"GET /astray HTTP/1.0\r\n\r\n", b"\x05\x01\x00\x05\x01\x00\x03\x0bdenied.test\x00\x50GET /astray HTTP/1.0\r\n\r\n",
    b"\x04\x01\x00\x50\xcb\x00\x71\x0b\0GET /astray HTTP/1.0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\nGET http://denied.test/astray HTTP/1.1\r\nHost: denied.test\r\n\r\n"]
insecure = ssl._create_unverified_context()
def tried(target, port, words=None, name=None):
    try:
        with socket.create_connection((target, port), 2) as s:
            s.settimeout(2)
            if name: s = insecure.wrap_socket(s, server_hostname=name)
            s.sendall(words or WORDS[0]); s.shutdown(socket.SHUT_WR)
            while s.recv(4096): pass
    except (OSError, ValueError): pass
for target in sorted(targets):
    for words in WORDS if target.startswith(("198.18.0.", "203.")) else WORDS[:1]: tried(target, 80, words)
    for name in "denied.test", "priv.test", "xn--denied.test": tried(target, 443, None, name)
    tried(target, 22); tried(target, 8080)
print("astray")
"#;

#[test]
fn nothing_else_is_reached_by_an_address_of_the_range() {
    // Not at port 22, so that nothing may come there.
    const ALLOW: [&str; 8] = [
        "allowed.test:80",
        "allowed.test:443",
        "api.allowed.test:443",
        "loop.test",
        "priv.test",
        "meta.test",
        "mixed.test",
        "*.wild.test",
    ];
    const SERVERS: [&str; 4] = ["denied", "denied.test", "meta", "priv"];
    const WORDS: [&str; 5] = [
        "host=denied.test",
        "host=api.allowed.test",
        "xn--denied",
        "LOOPBACK",
        "TRAP",
    ];
    // A question that has left the host is about a name that may be dialled.
    let asked = |name: &str| {
        name.ends_with(".wild.test") || ALLOW.iter().any(|r| name == r.split(':').next().unwrap())
    };
    let strays = |hits: &[String]| -> Vec<String> {
        let is_stray = |hit: &&String| {
            let second = hit.split(' ').nth(1).unwrap();
            SERVERS.contains(&second)
                || WORDS.iter().any(|w| hit.contains(w))
                || hit.starts_with("DNS") && !asked(second)
        };
        hits.iter().filter(is_stray).cloned().collect()
    };
    let lab = Lab::start();
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        lab.forget_hits();
        let spec = desk.spec(&ALLOW, "");
        let out = desk
            .with_spec(&spec, &[], &["/usr/bin/python3", "-B", "-c", ASTRAY])
            .output()
            .success();
        assert_eq!(out.stdout, "full True\nastray\n", "{out}");
        let hits = lab.hits();
        assert_eq!(strays(&hits), Vec::<String>::new());
        // What is allowed was reached meanwhile, under its own name.
        let reached = |hit: &String| hit.starts_with("HTTP allowed GET /astray host=allowed.test");
        assert!(hits.iter().any(reached), "{hits:?}");

        lab.forget_hits();
        let out = desk
            .control(&["/usr/bin/python3", "-B", "-c", ASTRAY])
            .output()
            .success();
        assert_eq!(out.stdout, "astray\n", "{out}");
        let hits = strays(&lab.hits());
        for start in [
            "HTTP denied GET /astray host=denied.test",
            "SNI denied.test",
        ] {
            assert!(
                hits.iter().any(|h| h.starts_with(start)),
                "control: {start}"
            );
        }
        assert!(
            hits.iter().any(|h| h.contains("host=api.allowed.test")),
            "control"
        );
    }
}
