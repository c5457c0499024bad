//! The proxy serves its own child only, and tells nobody what passed: cases CR-4, CR-5, PT-6, PT-7, PT-8, PT-1.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use super::lab::{CCBOX, Caller, Lab};
use super::{client, client_outside};

/// CR-4: nothing that another process of the machine could use listens on the host, and no secret stands on a command line.
#[test]
fn no_listener_on_the_host() {
    let lab = Lab::start();
    let listeners = || {
        let out = lab
            .command(Caller::User, &["cat", "/proc/net/tcp", "/proc/net/tcp6"])
            .output()
            .success();
        let mut local: Vec<String> = out
            .stdout
            .lines()
            .filter_map(|l| {
                let field: Vec<&str> = l.split_whitespace().collect();
                (field.get(3) == Some(&"0A")).then(|| field[1].to_owned())
            })
            .collect();
        local.sort();
        local
    };
    let before = listeners();
    assert!(
        before.iter().any(|l| l.ends_with(":238B")),
        "port 9099 of the laboratory is seen: {before:?}"
    );
    let desk = lab.desk(Caller::User);
    let run = desk.boxed(
        &["allowed.test"],
        &["sh", "-c", "curl -s http://allowed.test/; cat"],
    );
    let mut child = run
        .to_command()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.starts_with("ORIGIN allowed"), "{line}");
    assert_eq!(listeners(), before);
    let processes = lab
        .command(Caller::User, &["ps", "-eo", "args"])
        .output()
        .success()
        .stdout;
    assert!(processes.contains(CCBOX));
    assert!(
        !processes.lines().any(|l| l.contains("://ccbox:")),
        "{processes}"
    );
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

/// R40: two runs at once have two proxies with two lists.
#[test]
fn each_run_has_its_own_list() {
    let lab = Lab::start();
    let (one, two) = (lab.desk(Caller::User), lab.desk(Caller::User));
    let script = "for i in 1 2 3 4 5 6 7 8; do curl -s -m5 -o /dev/null -w '%{http_code} ' http://allowed.test/ ; done";
    let run = one.boxed(&["denied.test"], &["sh", "-c", script]);
    let child = run
        .to_command()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let open = two
        .boxed(&["allowed.test"], &["sh", "-c", script])
        .output()
        .success();
    assert_eq!(open.stdout, "200 ".repeat(8), "{open}");
    let shut = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&shut.stdout), "403 ".repeat(8));
}

/// CL-4: twenty runs at once in one workspace keep to their own lists and do not disturb each other.
#[test]
fn parallel_runs_in_one_workspace() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let script = "for h in allowed.test api.allowed.test; do curl -s -m20 -o /dev/null -w '%{http_code} ' http://$h/; done";
    let spawn = |n: usize| {
        let allow = ["allowed.test", "api.allowed.test"][n % 2];
        let name = format!("spec{n}.toml");
        desk.write(&name, desk.spec(&[allow], ""));
        let spec = format!("{}/{name}", desk.inner);
        let run = desk.control(&[CCBOX, "run", "--spec", &spec, "--", "sh", "-c", script]);
        let pipes = run
            .to_command()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        pipes.unwrap()
    };
    assert_eq!(
        desk.control(&["sh", "-c", script])
            .output()
            .success()
            .stdout,
        "200 200 "
    );
    let children: Vec<_> = (0..20).map(spawn).collect();
    for (n, child) in children.into_iter().enumerate() {
        let out = child.wait_with_output().unwrap();
        let want = ["200 403 ", "403 200 "][n % 2];
        assert_eq!(
            String::from_utf8_lossy(&out.stdout),
            want,
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
    }
    assert_eq!(
        std::fs::read_dir(desk.outer.join("ws")).unwrap().count(),
        0,
        "no litter"
    );
}

/// CR-5: no message, not even the most verbose, repeats a query, user info, a header or a variable.
#[test]
fn messages_hold_no_secret() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let script = "for h in denied.test allowed.test; do curl -s -m5 -u u:SEKRET2 \"http://$h/p?key=SEKRET3\" -H 'Authorization: Bearer SEKRET4' >/dev/null; curl -s -m5 \"http://SEKRET5@$h/\" >/dev/null; done; true";
    for verbose in ["-v", "-vv"] {
        let run = desk.with_spec(
            &desk.spec(&["allowed.test"], ""),
            &[verbose],
            &["sh", "-c", script],
        );
        let out = run.env("API_TOKEN", "SEKRET1").output().success();
        // `-vv` prints the argv, which is the script itself; that line is the caller's own text.
        let own: Vec<&str> = out
            .stderr
            .lines()
            .filter(|l| !l.contains("for h in"))
            .collect();
        assert!(!own.iter().any(|l| l.contains("SEKRET")), "{out}");
        out.names_denied("denied.test:80");
    }
}

/// PT-1: the first call of a run works, also when both processors are busy.
#[test]
fn the_first_call_works() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let busy: Vec<_> = (0..2)
        .map(|_| {
            lab.command(Caller::User, &["sh", "-c", "while :; do :; done"])
                .to_command()
                .spawn()
                .unwrap()
        })
        .collect();
    let failed = (0..20)
        .filter(|_| {
            desk.boxed(
                &["allowed.test"],
                &[
                    "curl",
                    "-s",
                    "-m5",
                    "-o",
                    "/dev/null",
                    "http://allowed.test/",
                ],
            )
            .output()
            .code
                != Some(0)
        })
        .count();
    for mut child in busy {
        // `timeout`, which stands between, passes TERM on.
        nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap()),
            nix::sys::signal::SIGTERM,
        )
        .unwrap();
        child.wait().unwrap();
    }
    assert_eq!(failed, 0);
}

/// PT-6: a server of the child's own is reached without the proxy, and the host's loopback is not.
#[test]
fn own_loopback_is_direct() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    desk.write("ws/index.html", "mine\n");
    let script = "/usr/bin/python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1 & p=$!
        until (exec 3<>/dev/tcp/127.0.0.1/8123) 2>/dev/null; do kill -0 $p || exit 1; sleep 0.02; done
        for u in http://localhost:8123/ http://127.0.0.1:8123/; do curl -s -m3 $u; done
        /usr/bin/python3 -c 'import requests; print(requests.get(\"http://localhost:8123/\").text, end=\"\")'
        curl -s -m3 http://127.0.0.1:9099/; curl -s -m3 -x \"$http_proxy\" --noproxy '' http://127.0.0.1:9099/ | grep LOOPBACK; kill $p; echo end";
    let control = desk.control(&["bash", "-c", script]).output().success();
    assert_eq!(
        control.stdout, "mine\nmine\nmine\nHOST-LOOPBACK\nHOST-LOOPBACK\nend\n",
        "{control}"
    );
    lab.forget_hits();
    let out = desk
        .boxed(&["allowed.test"], &["bash", "-c", script])
        .output()
        .success();
    assert_eq!(out.stdout, "mine\nmine\nmine\nend\n", "{out}");
    assert_eq!(lab.hits(), Vec::<String>::new());
    let out = desk
        .boxed(
            &["allowed.test"],
            &["sh", "-c", "echo $NO_PROXY; echo $no_proxy"],
        )
        .output()
        .success();
    assert_eq!(
        out.stdout,
        "localhost,127.0.0.1,::1,[::1]\n".repeat(2),
        "{out}"
    );
}

/// Semantics 42: a loopback port named in the list is that one port of the host.
#[test]
fn a_listed_host_port_is_forwarded() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let script = "curl -s -m3 http://localhost:9099/; curl -s -m3 http://127.0.0.1:9099/; curl -s -m3 http://127.0.0.1:80/; true";
    let control = desk.control(&["sh", "-c", script]).output().success();
    assert_eq!(
        control.stdout.matches("HOST-LOOPBACK").count(),
        3,
        "{control}"
    );
    let out = desk
        .boxed(&["localhost:9099"], &["sh", "-c", script])
        .output()
        .success();
    assert_eq!(out.stdout.matches("HOST-LOOPBACK").count(), 2, "{out}");
    // Also a port that only the namespace's owner may bind.
    let out = desk
        .boxed(&["127.0.0.1:80"], &["sh", "-c", script])
        .output()
        .success();
    assert_eq!(out.stdout.matches("HOST-LOOPBACK").count(), 1, "{out}");
}

/// PT-7: the caller's own proxy settings do not pass.
#[test]
fn the_callers_proxy_settings_do_not_leak_in() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let argv = [
        "sh",
        "-c",
        "curl -s -m5 http://allowed.test/; env | grep -i proxy | grep -e ':1$' -e '=[*]$' -e '=x$'; true",
    ];
    let names = [
        ("NO_PROXY", "*"),
        ("no_proxy", "allowed.test"),
        ("http_proxy", "http://127.0.0.1:1"),
        ("HTTP_PROXY", "http://127.0.0.1:1"),
        ("ALL_PROXY", "socks5://127.0.0.1:1"),
        ("FTP_PROXY", "x"),
        ("RSYNC_PROXY", "x"),
        ("npm_config_proxy", "http://127.0.0.1:1"),
    ];
    let control = names.iter().fold(
        desk.control(&["curl", "-s", "-m5", "http://allowed.test/"]),
        |c, (n, v)| c.env(n, *v),
    );
    let unset = control
        .clone()
        .env("NO_PROXY", "")
        .env("no_proxy", "")
        .output();
    unset.failure();
    assert!(
        control.output().success().stdout.contains("ORIGIN"),
        "with these settings curl goes around a proxy"
    );
    let command = names
        .iter()
        .fold(desk.boxed(&["allowed.test"], &argv), |c, (n, v)| {
            c.env(n, *v)
        });
    let out = command.output().success();
    assert!(
        out.stdout.starts_with("ORIGIN allowed") && out.stdout.lines().count() == 1,
        "{out}"
    );
}

/// PT-8: a client that knows no proxy fails at once.
#[test]
fn clients_without_a_proxy_fail_fast() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let args = [
        "direct",
        "203.0.113.10:8443",
        "allowed.test:8443",
        "allowed.test:3306",
        "[2001:db8::10]:80",
    ];
    let control = client_outside(&desk, &args).output().success();
    assert_eq!(control.stdout.matches(" open ").count(), 4, "{control}");
    lab.forget_hits();
    let out = client(&desk, &["allowed.test"], &args).output().success();
    assert_eq!(out.stdout.matches(" fast").count(), 4, "{out}");
    assert_eq!(lab.hits(), Vec::<String>::new());
}
