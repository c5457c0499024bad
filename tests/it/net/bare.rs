//! Programs that know no proxy, with nothing set in their environment: each reaches the allowed host and not the refused one.

use std::path::Path;

use super::lab::{CA, Caller, Desk, Lab, Out};

/// Without the variables that ccbox sets; `env -u` executes, so the program itself is the one that asks.
const UNSET: &str = "env -u http_proxy -u https_proxy -u HTTP_PROXY -u HTTPS_PROXY -u ALL_PROXY -u all_proxy -u NODE_USE_ENV_PROXY \
    -u JAVA_TOOL_OPTIONS -u GIT_SSH_COMMAND -u npm_config_proxy -u npm_config_https_proxy";
/// The rules of [`each_reaches_what_is_allowed`]: one host at a port of the command's own, one at any.
const ALLOW: [&str; 3] = ["allowed.test", "six.test:7000", "git.test:22"];

/// Runs a line of the shell without proxies, outside and inside. Inside nothing reaches the refused host, and one line names it.
fn pair(lab: &Lab, desk: &Desk<'_>, line: &str) -> [Out; 2] {
    let line = line.replace("BARE", UNSET);
    let argv = ["sh", "-c", &line];
    let control = desk.control(&argv).env("NODE_EXTRA_CA_CERTS", CA).output();
    lab.forget_hits();
    let inside = desk
        .with_spec(&desk.spec(&ALLOW, ""), &[], &argv)
        .env("NODE_EXTRA_CA_CERTS", CA)
        .output()
        .success();
    let hits = lab.hits();
    assert!(
        !hits.iter().any(|h| h.contains("denied")),
        "{hits:?} {inside}"
    );
    let told = inside
        .stderr
        .matches("ccbox: denied network-outbound denied.test [")
        .count();
    assert_eq!(told, 1, "{inside}");
    [control.success(), inside]
}

fn words(out: &Out) -> Vec<&str> {
    out.stdout.split_whitespace().collect()
}

#[test]
fn node_fetches() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        desk.write(
            "f.js",
            "(async () => { for (const u of process.argv.slice(2)) {
                const t = Date.now();
                const said = await fetch(u).then(r => r.status, e => e.cause.code);
                console.log(said, Date.now() - t < 3000 ? 'fast' : 'SLOW');
            } })()",
        );
        let line =
            "BARE node ../f.js http://allowed.test/ https://allowed.test/ http://denied.test/";
        let [control, inside] = pair(&lab, &desk, line);
        assert_eq!(words(&control), ["200", "fast"].repeat(3), "{control}");
        let want = ["200", "fast", "200", "fast", "ENOTFOUND", "fast"];
        assert_eq!(words(&inside), want, "{inside}");
    }
}

#[test]
fn java_connects() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        desk.write(
            "N.java",
            "import java.net.*; import java.net.http.*;
            class N { public static void main(String[] urls) throws Exception { for (String u : urls) {
                try { System.out.println(((HttpURLConnection) new URL(u).openConnection()).getResponseCode()); }
                catch (Exception e) { System.out.println(e.getClass().getSimpleName()); }
                try { System.out.println(HttpClient.newHttpClient().send(HttpRequest.newBuilder(URI.create(u)).build(),
                    HttpResponse.BodyHandlers.ofString()).statusCode()); }
                catch (Exception e) { System.out.println(\"no\"); }
            } System.exit(0); } }",
        );
        let line = "BARE java ../N.java http://allowed.test/ http://denied.test/";
        let [control, inside] = pair(&lab, &desk, line);
        assert_eq!(words(&control), ["200"; 4], "{control}");
        let want = ["200", "200", "UnknownHostException", "no"];
        assert_eq!(words(&inside), want, "{inside}");
    }
}

/// A statically linked program with a transport of its own and Go's own resolver.
#[test]
fn a_static_go_program_connects() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        desk.write(
            "g.go",
            "package main
import (\"fmt\"; \"net/http\"; \"os\")
func main() {
    client := &http.Client{Transport: &http.Transport{}}
    for _, u := range os.Args[1:] {
        r, err := client.Get(u)
        if err != nil { fmt.Println(\"error\"); continue }
        fmt.Println(r.StatusCode)
    }
}
",
        );
        let build = [
            "sh",
            "-c",
            "cd .. && CGO_ENABLED=0 go build -o g g.go && ldd ./g 2>&1 | grep -c 'not a dynamic'",
        ];
        let made = desk
            .control(&build)
            .env("GOTOOLCHAIN", "local")
            .output()
            .success();
        assert_eq!(made.stdout, "1\n", "{made}");
        let [control, inside] = pair(
            &lab,
            &desk,
            "BARE ../g http://allowed.test/ http://denied.test/",
        );
        assert_eq!(words(&control), ["200", "200"], "{control}");
        assert_eq!(words(&inside), ["200", "error"], "{inside}");
    }
}

/// Sockets by hand: a port above 1023 of a host that only has IPv6, and both families for one name.
#[test]
fn sockets_connect() {
    let lab = Lab::start();
    let script = r"
import socket, sys
def banner(host, port, family=0):
    try:
        found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
        s = socket.create_connection(found[0][4][:2], 5)
        s.sendall(b'GET / HTTP/1.0\r\n\r\n'); s.shutdown(socket.SHUT_WR)
        print(s.makefile('rb').readline().split()[0].decode())
    except OSError as e: print(type(e).__name__)
banner('six.test', 7000)
banner('allowed.test', 80, socket.AF_INET)
banner('denied.test', 80)
";
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        desk.write("s.py", script);
        let [control, inside] = pair(&lab, &desk, "BARE /usr/bin/python3 ../s.py");
        assert_eq!(
            words(&control),
            ["BANNER", "HTTP/1.1", "HTTP/1.1"],
            "{control}"
        );
        assert_eq!(
            words(&inside),
            ["BANNER", "HTTP/1.0", "gaierror"],
            "{inside}"
        );
    }
}

/// Who insists on IPv6 has it, also for a host that has none.
#[test]
fn ipv6_alone_is_caught_as_well() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        let line = format!(
            "{UNSET} curl -6 -s -m5 http://allowed.test/; {UNSET} curl -6 -s -m5 http://denied.test/; echo $?"
        );
        let out = desk.boxed(&ALLOW, &["sh", "-c", &line]).output().success();
        assert!(
            out.stdout.starts_with("ORIGIN allowed host=allowed.test"),
            "{out}"
        );
        assert!(out.stdout.ends_with("\n6\n"), "{out}");
    }
}

#[test]
fn ssh_connects() {
    let lab = Lab::with_ssh();
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        let options = "-o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR";
        let line = format!(
            "BARE ssh {options} git@git.test true 2>&1; BARE ssh {options} git@denied.test true 2>&1; true"
        );
        let [control, inside] = pair(&lab, &desk, &line);
        // The server was spoken to, and takes no login.
        for out in [&control, &inside] {
            assert!(
                out.stdout.contains("git@git.test: Permission denied"),
                "{out}"
            );
        }
        assert!(
            inside
                .stdout
                .contains("Could not resolve hostname denied.test"),
            "{inside}"
        );
    }
}

/// A database client, which knows no proxy at all, at a port that a rule names.
#[test]
fn a_database_client_connects_at_a_named_port() {
    let lab = Lab::start();
    let psql = |host: &str| {
        format!("{UNSET} psql -w -h {host} -p 3306 -U me -c 'select 1' 2>&1 | head -n 1")
    };
    let script = format!("{}; {}", psql("allowed.test"), psql("denied.test"));
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        lab.forget_hits();
        let spec = desk.spec(&["allowed.test:3306"], "");
        let out = desk
            .with_spec(&spec, &[], &["sh", "-c", &script])
            .output()
            .success();
        let lines: Vec<&str> = out.stdout.lines().collect();
        // The trap takes the connection and says nothing.
        assert!(
            lines[0].contains("server closed the connection") || lines[0].contains("allowed.test"),
            "{out}"
        );
        assert!(
            lines[1].contains("could not translate host name \"denied.test\""),
            "{out}"
        );
        let hits = lab.hits();
        assert!(
            hits.iter().any(|h| h == "TRAP allowed port=3306"),
            "{hits:?} {out}"
        );
        assert!(!hits.iter().any(|h| h.contains("denied")), "{hits:?}");
    }
}

/// What asks a name server of its own, and what is not in the sandbox' range, leads nowhere; one that records saw no question but for
/// names that are allowed.
#[test]
fn no_question_leaves_for_a_name_that_is_not_allowed() {
    let lab = Lab::start();
    let script = r#"
import socket, subprocess
for name in "secret.evil.test", "denied.test", "x.y.denied.test", "localhost.evil.test", "dns.test":
    try: print(name, socket.getaddrinfo(name, 80, 0, socket.SOCK_STREAM)[0][4][0].startswith("198.18."))
    except OSError: print(name, "no")
query = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04leak\x04test\x00\x00\x01\x00\x01"
for server in "203.0.113.53", "127.0.0.53", "198.18.0.1", "8.8.8.8":
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.3)
    try: s.sendto(query, (server, 53)); s.recv(512); print("ANSWER", server)
    except OSError: pass
print(subprocess.run(["curl", "-s", "-m5", "-o", "/dev/null", "-w", "%{http_code}", "--noproxy", "*", "http://dns.test/"], capture_output=True, text=True).stdout)
"#;
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        desk.write("q.py", script);
        let argv = ["/usr/bin/python3", "../q.py"];
        let control = desk.control(&argv).output().success();
        assert!(control.stdout.contains("ANSWER 203.0.113.53"), "{control}");
        assert!(!lab.hits_of("DNS secret.evil.test").is_empty(), "control");
        lab.forget_hits();
        let out = desk.boxed(&["dns.test"], &argv).output().success();
        let want = "secret.evil.test no\ndenied.test no\nx.y.denied.test no\nlocalhost.evil.test no\ndns.test True\n200\n";
        assert_eq!(out.stdout, want, "{out}");
        let asked = lab.hits_of("DNS ");
        assert!(
            !asked.is_empty() && asked.iter().all(|h| h.starts_with("DNS dns.test")),
            "{asked:?}"
        );
        for name in [
            "secret.evil.test",
            "denied.test",
            "x.y.denied.test",
            "localhost.evil.test",
        ] {
            assert_eq!(
                out.stderr
                    .matches(&format!("network-outbound {name} [python3 "))
                    .count(),
                1,
                "{name}: {out}"
            );
        }
    }
}

/// The files a resolver reads agree, this machine's own name and `localhost` are its own, and nobody is told of them.
#[test]
fn names_of_this_machine_are_its_own() {
    let lab = Lab::start();
    let script = "grep -v '^#' /etc/resolv.conf; grep ^hosts: /etc/nsswitch.conf; grep -c 203 /etc/hosts
        for n in localhost \"$(uname -n)\"; do getent ahostsv4 \"$n\" | head -n 1 | cut -d' ' -f1; done
        /usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind((socket.gethostname(), 0)); s.listen()
c = socket.create_connection(s.getsockname(), 3); print(\"own\"); socket.getfqdn()
print([socket.getaddrinfo(\"allowed.test\", 80, socket.AF_INET, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG)[0][4][0]])'";
    for &caller in lab.callers() {
        for engine in ["builtin", "bwrap"] {
            let desk = lab.desk(caller);
            let spec = desk.spec(&["allowed.test"], "");
            let out = desk
                .with_spec(&spec, &["--engine", engine, "-v"], &["sh", "-c", script])
                .output()
                .success();
            let want = "nameserver 127.0.0.1\nsearch .\nhosts: files dns\n0\n127.0.0.1\n127.0.0.1\nown\n['198.18.0.2']\n";
            assert_eq!(out.stdout, want, "{out}");
            assert!(!out.stderr.contains("denied"), "{out}");
            assert!(out.stderr.contains(" net=proxy+caught "), "{out}");
        }
    }
}

/// Ports above 1023 are the command's own, also those that rules name; a named one is reached at the name's address all the same.
#[test]
fn named_ports_are_free_for_the_command() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let script = r#"
import socket
def listen(ip, port):
    s = socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET); s.bind((ip, port)); s.listen(); return s
def talk(host, port):
    with socket.create_connection((host, port), 5) as s:
        s.shutdown(socket.SHUT_WR); return s.makefile("rb").readline()[:6]
first = listen("0.0.0.0", 7000); first.close()
own = [listen("127.0.0.1", 7000), listen("::1", 7000)]
print(talk("allowed.test", 7000))
own.append(listen("0.0.0.0", 8000))
socket.create_connection(("127.0.0.1", 7000), 5); print("own")
try: socket.create_connection(("allowed.test", 7001), 5)
except ConnectionRefusedError: print("refused")
for s in own: s.close()
"#;
    let spec = desk.spec(
        &["allowed.test:7000", "*.wild.test:8000", "allowed.test:22"],
        "",
    );
    let out = desk
        .with_spec(&spec, &[], &["/usr/bin/python3", "-c", script])
        .output()
        .success();
    assert_eq!(out.stdout, "b'BANNER'\nown\nrefused\n", "{out}");
    // The one that is not caught is told by its name, and with the line that opens it.
    out.names_denied("allowed.test:7001");
    assert!(
        out.stderr
            .contains("allowed_domains = [\"allowed.test:7001\"]"),
        "{out}"
    );
}

/// A rule for an address opens the address, for the ports it says.
#[test]
fn an_address_that_a_rule_names_is_reached() {
    let lab = Lab::start();
    let script = r#"
import socket
own = "[2001:db8::10]"
for ip, port, host in ("203.0.113.10", 7000, own), ("203.0.113.10", 80, own), ("203.0.113.11", 80, own), ("2001:db8::10", 7000, own), ("2001:db8::10", 80, own), ("2001:db8::10", 80, "denied.test"):
    try:
        with socket.create_connection((ip, port), 5) as s:
            s.sendall(f"GET / HTTP/1.0\r\nHost: {host}\r\n\r\n".encode()); s.shutdown(socket.SHUT_WR)
            print(s.makefile("rb").readline()[:12])
    except OSError as e: print(type(e).__name__, e.errno)
"#;
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        let spec = desk.spec(
            &["203.0.113.10:7000", "[2001:db8::10]:80", "203.0.113.11:443"],
            "",
        );
        let out = desk
            .with_spec(&spec, &[], &["/usr/bin/python3", "-c", script])
            .output()
            .success();
        let lines: Vec<&str> = out.stdout.lines().collect();
        assert_eq!(lines[0], r"b'BANNER lab\r\n'", "{out}");
        // Over plain HTTP a refusal can be said.
        assert_eq!(lines[1..3], ["b'HTTP/1.0 403'"; 2], "{out}");
        assert!(lines[3].starts_with("Connection"), "{out}");
        assert_eq!(lines[4], "b'HTTP/1.0 200'", "{out}");
        assert_eq!(lines[5], "b'HTTP/1.0 403'", "{out}");
        for target in ["203.0.113.10:80", "203.0.113.11:80", "denied.test:80"] {
            out.names_denied(target);
        }
        // No way to names that are not allowed.
        assert!(
            !lab.hits().iter().any(|h| h.contains("denied")),
            "{:?}",
            lab.hits()
        );
    }
}

/// `transparent_ports = []` catches nothing: the files are the host's, and programs without a proxy have no network.
#[test]
fn an_empty_list_turns_it_off() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let script = format!("cat /etc/resolv.conf; {UNSET} curl -s -m5 http://allowed.test/; echo $?");
    let argv = ["sh", "-c", &script];
    let host =
        std::fs::read_to_string(Path::new("/proc/self/root/etc/resolv.conf")).unwrap_or_default();
    let out = desk
        .with_spec(
            &desk.spec(&["allowed.test"], "transparent_ports = []"),
            &["-v"],
            &argv,
        )
        .output()
        .success();
    assert!(
        !out.stdout.contains("nameserver 127.0.0.1\nsearch .") || host.contains("search ."),
        "{out}"
    );
    assert!(
        !out.stdout.ends_with("\n0\n") && !out.stdout.contains("ORIGIN"),
        "{out}"
    );
    assert!(out.stderr.contains(" net=proxy userns"), "{out}");
    // Off is off, also there.
    let off = "network_enabled = false\n".to_owned() + &desk.spec(&["allowed.test"], "");
    let out = desk
        .with_spec(
            &off,
            &[],
            &[
                "sh",
                "-c",
                "curl -s -m5 --noproxy '*' http://allowed.test/; echo $?",
            ],
        )
        .output()
        .success();
    assert_eq!(out.stdout, "6\n", "{out}");
    assert!(
        out.stderr
            .contains("denied network-outbound allowed.test [curl "),
        "{out}"
    );
    assert!(out.stderr.contains("network is off for this run"), "{out}");
}
