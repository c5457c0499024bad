//! The access log: complete, as documented, private, and without anything that a connection carries.

use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use serde_json::Value;

use super::lab::{CA, Desk, Lab};

/// Names in the first column of the table in docs/access-log.md.
fn documented() -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/access-log.md");
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text.lines().filter(|l| l.starts_with("| `"));
    rows.flat_map(|row| {
        let names = row.split('|').nth(1).unwrap().split(',');
        names
            .map(|n| n.trim().trim_matches('`').to_owned())
            .collect::<Vec<_>>()
    })
    .collect()
}

/// Every line, after a look at its shape.
fn lines(desk: &Desk<'_>) -> Vec<Value> {
    let known = documented();
    let text = desk.read("access.log");
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect();
    for line in &lines {
        let fields = line.as_object().unwrap();
        for name in fields.keys() {
            assert!(known.contains(name), "`{name}` is not documented: {line}");
        }
        for name in ["time", "session_id", "front", "target", "decision"] {
            assert!(line[name].is_string(), "{name}: {line}");
        }
        assert_eq!(line["schema"], 1, "{line}");
        match line["decision"].as_str().unwrap() {
            "deny" => assert!(
                line["rule"].is_string() && line["reason"].is_string(),
                "{line}"
            ),
            "allow" if line["error"].is_null() && line["front"] != "unix" => {
                assert!(
                    line["up"].is_u64() && line["down"].is_u64() && line["ms"].is_u64(),
                    "{line}"
                );
            }
            _ => {}
        }
    }
    lines
}

fn find<'a>(lines: &'a [Value], front: &str, target: &str, decision: &str) -> &'a Value {
    let is = |l: &&Value| l["front"] == front && l["target"] == target && l["decision"] == decision;
    let mut found = lines.iter().filter(is);
    let one = found.next();
    one.unwrap_or_else(|| panic!("no {front} {decision} {target} in {lines:#?}"))
}

#[test]
fn every_way_has_its_lines_and_no_secret() {
    let lab = Lab::start();
    let script = format!(
        "curl -sS -m5 -o /dev/null -u u:SEKRET2 -H 'Authorization: Bearer SEKRET4' 'http://allowed.test/p?key=SEKRET3'
        curl -sS -m5 -o /dev/null -d abcde http://allowed.test/
        curl -sS -m5 -o /dev/null --cacert {CA} 'https://allowed.test/q?key=SEKRET5'
        curl -sS -m5 -o /dev/null 'http://u:SEKRET6@denied.test/p?key=SEKRET7'
        curl -sS -m5 -o /dev/null https://denied.test/
        curl -sS -m5 -o /dev/null --proxy $CCBOX_SOCKS_PROXY http://allowed.test/
        curl -sS -m5 -o /dev/null --proxy $CCBOX_SOCKS_PROXY http://denied.test/
        curl -sS -m5 -o /dev/null http://allowed.test:7999/
        unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY all_proxy
        curl -sS -m5 -o /dev/null --cacert {CA} https://allowed.test/
        curl -sS -m5 -o /dev/null http://denied.test/
        cat ../access.log; true"
    );
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        let network = "transparent_ports = [80, 443]\naccess_log = \"access.log\"";
        let spec = desk.spec(&["allowed.test"], network);
        let out = desk
            .with_spec(&spec, &["--session", "s-1"], &["sh", "-c", &script])
            .env("API_TOKEN", "SEKRET1")
            .output()
            .success();
        let all = lines(&desk);
        assert!(all.iter().all(|l| l["session_id"] == "s-1"), "{all:#?}");
        let get = find(&all, "http", "allowed.test:80", "allow");
        assert!(
            get["down"].as_u64() > Some(0) && get["rule"].is_string(),
            "{get}"
        );
        assert!(
            all.iter().any(|l| l["front"] == "http" && l["up"] == 5),
            "{all:#?}"
        );
        let tls = find(&all, "http", "allowed.test:443", "allow");
        assert_eq!(tls["sni"], "allowed.test", "{tls}");
        assert!(
            tls["address"].is_string() && tls["up"].as_u64() > Some(100),
            "{tls}"
        );
        for (front, target) in [
            ("http", "denied.test:80"),
            ("http", "denied.test:443"),
            ("socks", "denied.test:80"),
            ("dns", "denied.test"),
        ] {
            let line = find(&all, front, target, "deny");
            assert_eq!(line["reason"], "not-allowed", "{line}");
            out.names_denied(target);
        }
        find(&all, "socks", "allowed.test:80", "allow");
        find(&all, "caught", "allowed.test:443", "allow");
        let dead = find(&all, "http", "allowed.test:7999", "allow");
        assert!(dead["error"].is_string(), "{dead}");
        // A program asks for addresses of both families; that is one line.
        let asked = |l: &&Value| l["front"] == "dns" && l["decision"] == "deny";
        assert_eq!(all.iter().filter(asked).count(), 1, "{all:#?}");
        let text = desk.read("access.log");
        for secret in ["SEKRET", "key=", "Bearer", "/p", "/q"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
        assert!(!out.stderr.contains("SEKRET"), "{out}");
        assert!(!out.stdout.contains("schema"), "hidden inside: {out}");
        let log = desk.outer.join("access.log");
        assert_eq!(std::fs::metadata(&log).unwrap().mode() & 0o7777, 0o600);
    }
}

/// What is refused without a proxy (caught by name, by TLS name, by address, by protocol), by the name server over both of its
/// transports, and at a Unix socket: one line each, and one violation, however often it comes.
#[test]
fn every_refusal_has_its_line() {
    let lab = Lab::start();
    let script = format!(
        "unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY all_proxy
        curl -sS -m5 -o /dev/null http://allowed.test/
        for n in 1 2 3; do curl -sS -m5 -o /dev/null -H 'Host: denied.test' 'http://allowed.test/p?key=SEKRET'; done
        curl -sS -m5 -o /dev/null --cacert {CA} --connect-to denied.test:443:allowed.test:443 https://denied.test/
        curl -sS -m5 -o /dev/null http://priv.test/
        curl -sS -m5 -o /dev/null --http2-prior-knowledge http://api.allowed.test/
        curl -sS -m5 -o /dev/null http://bad.allowed.test/
        python3 ../ask.py"
    );
    let ask = r"
import os, socket, struct
name = b''.join(bytes([len(p)]) + p for p in (b'overtcp', b'evil', b'test')) + b'\0'
query = b'\x12\x34\x01\0\0\x01\0\0\0\0\0\0' + name + b'\0\x01\0\x01'
s = socket.create_connection(('127.0.0.1', 53), 5)
s.sendall(struct.pack('>H', len(query)) + query)
print(s.recv(600)[5] & 15)
for path in ('/opt/lab/agent.sock', '../o.sock', '../o.sock'):
    s = socket.socket(socket.AF_UNIX)
    try: s.connect(path); print(s.recv(20))
    except OSError as e: print(e.errno)
";
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        desk.write("ask.py", ask);
        let socket = desk.outer.join("o.sock");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&socket, all).unwrap();
        let network = "denied_domains = [\"bad.allowed.test\"]\naccess_log = \"access.log\"\nallow_unix_sockets = [\"/opt/lab/agent.sock\"]";
        let spec = desk.spec(&["allowed.test", "*.allowed.test", "priv.test"], network);
        let out = desk
            .with_spec(&spec, &[], &["sh", "-c", &script])
            .output()
            .success();
        assert_eq!(out.stdout, "3\nb'SOCK-REACHED\\n'\n13\n13\n", "{out}");
        let all = lines(&desk);
        let refused = format!("{}/o.sock", desk.inner);
        for (front, target, times, reason) in [
            ("caught", "denied.test:80", 3, "not-allowed"),
            ("caught", "denied.test:443", 1, "not-allowed"),
            ("caught", "priv.test:80", 1, "private-address"),
            ("caught", "api.allowed.test:80", 1, "not-allowed"),
            ("dns", "bad.allowed.test", 1, "denied"),
            ("dns", "overtcp.evil.test", 1, "not-allowed"),
            ("unix", &refused, 2, "not-allowed"),
        ] {
            let line = find(&all, front, target, "deny");
            assert_eq!(line["reason"], reason, "{line}");
            let same = |l: &&Value| l["target"] == target && l["decision"] == "deny";
            assert_eq!(all.iter().filter(same).count(), times, "{target}: {all:#?}");
            // One violation, and how often it came.
            let told = format!("ccbox: denied network-outbound {target} [");
            assert_eq!(out.stderr.matches(&told).count(), 1, "{target}: {out}");
            if times > 1 {
                let again = format!("ccbox: {times} times: network-outbound {target}");
                assert!(out.stderr.contains(&again), "{again}: {out}");
            }
        }
        find(&all, "caught", "allowed.test:80", "allow");
        find(&all, "unix", "/opt/lab/agent.sock", "allow");
        // Nothing else is told, and every refusal of the log is a violation.
        assert_eq!(
            all.iter().filter(|l| l["decision"] == "deny").count(),
            10,
            "{all:#?}"
        );
        assert_eq!(out.stderr.matches("ccbox: denied ").count(), 7, "{out}");
        assert!(!desk.read("access.log").contains("SEKRET"));
    }
}

/// A tunnel to port 80 has a line for each of its requests; without one it was a connection all the same.
#[test]
fn tunnels_to_port_80_have_the_lines_of_their_requests() {
    let lab = Lab::start();
    let script = "curl -sS -m5 -p -o /dev/null http://allowed.test/p?key=SEKRET -d abc -o /dev/null http://allowed.test/
        curl -sS -m5 -p -o /dev/null -H 'Host: denied.test' http://allowed.test/
        python3 ../silent.py";
    let silent = r"
import os, socket, urllib.parse
u = urllib.parse.urlparse(os.environ['http_proxy'])
s = socket.create_connection((u.hostname, u.port), 5)
s.sendall(b'CONNECT api.allowed.test:80 HTTP/1.1\r\n\r\n'); print(s.recv(12)); s.close()
s = socket.create_connection((u.hostname, u.port), 5)
s.sendall(b'CONNECT api.allowed.test:80 HTTP/1.1\r\n\r\n'); print(s.recv(12)); s.sendall(b'GET / HT'); s.close()
";
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        desk.write("silent.py", silent);
        let allow = ["allowed.test", "api.allowed.test"];
        let spec = desk.spec(&allow, "access_log = \"access.log\"");
        let out = desk
            .with_spec(&spec, &[], &["sh", "-c", script])
            .output()
            .success();
        assert_eq!(out.stdout.matches("b'HTTP/1.1 200'").count(), 2, "{out}");
        let all = lines(&desk);
        let told: Vec<String> = all
            .iter()
            .map(|l| {
                let text = |name: &str| l[name].as_str().unwrap().to_owned();
                format!(
                    "{} {} {} {}",
                    text("front"),
                    text("target"),
                    text("decision"),
                    l["up"]
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                "http allowed.test:80 allow 3",
                "http allowed.test:80 allow 3",
                "http denied.test:80 deny null",
                "http api.allowed.test:80 allow 0",
                "http api.allowed.test:80 allow 0",
            ],
            "{out}"
        );
        assert!(!desk.read("access.log").contains("SEKRET"));
    }
}

/// A port of the host: a line when the connection has ended, and one where nobody listens.
#[test]
fn forwarded_ports_have_their_lines() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        let spec = desk.spec(
            &["localhost:9099", "127.0.0.1:9098"],
            "access_log = \"access.log\"",
        );
        let script = "curl -s -m3 'http://localhost:9099/p?key=SEKRET'; curl -s -m3 http://127.0.0.1:9098/; true";
        let out = desk
            .with_spec(&spec, &[], &["sh", "-c", script])
            .output()
            .success();
        assert!(out.stdout.contains("HOST-LOOPBACK"), "{out}");
        let all = lines(&desk);
        assert!(all.iter().all(|l| l["front"] == "forward"), "{all:#?}");
        let line = find(&all, "forward", "127.0.0.1:9099", "allow");
        assert_eq!(line["address"], "127.0.0.1:9099", "{line}");
        assert!(
            line["up"].as_u64() > Some(30) && line["down"].as_u64() > Some(10),
            "{line}"
        );
        let dead = find(&all, "forward", "127.0.0.1:9098", "allow");
        assert!(dead["error"].is_string(), "{dead}");
        assert!(!desk.read("access.log").contains("SEKRET"));
    }
}

#[test]
fn runs_share_a_log_and_append() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        let spec = desk.spec(&["allowed.test"], "access_log = \"access.log\"");
        desk.write("spec.toml", &spec);
        let script = format!(
            "for n in 1 2 3 4; do {} run --spec {}/spec.toml -- sh -c 'for i in 1 2 3 4 5 6 7 8 9 10; do curl -s -m5 -o /dev/null http://allowed.test/; done' & done; wait",
            super::lab::CCBOX,
            desk.inner
        );
        let out = desk.control(&["sh", "-c", &script]).output().success();
        let all = lines(&desk);
        assert_eq!(all.len(), 40, "{out} {all:#?}");
        let runs: BTreeSet<_> = all.iter().map(|l| l["session_id"].to_string()).collect();
        assert_eq!(runs.len(), 4);
    }
}

/// What the next reader would believe is not where the command could have written it.
#[test]
fn a_log_in_reach_of_the_command_is_refused() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        let refused = |log: &str, word: &str| {
            let spec = desk.spec(&[], &format!("access_log = {log:?}"));
            let out = desk.with_spec(&spec, &[], &["true"]).output();
            assert_eq!(out.code, Some(125), "{out}");
            assert!(out.stderr.contains(word), "{out}");
        };
        refused("ws/log", "where the command can write");
        refused("none/log", "make its directory first");
        symlink(desk.outer.join("target"), desk.outer.join("link")).unwrap();
        std::fs::create_dir(desk.outer.join("dir")).unwrap();
        refused("dir", "cannot open the access log");
        assert!(!desk.outer.join("target").exists());
        // The empty text is no log.
        let spec = desk.spec(&[], "access_log = \"\"");
        desk.with_spec(&spec, &[], &["true"]).output().success();
    }
}
