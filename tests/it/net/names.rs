//! Whose connection was refused.

use super::lab::Lab;

/// R70: the line names the process that asked, by its pid on the host, through every front end; one that is long-lived and holds
/// many connections is named as well as one that is gone right after.
#[test]
fn a_refusal_names_the_process() {
    let lab = Lab::start();
    let script = "curl -s -m5 http://denied.test/ -o /dev/null
        curl -s -m5 https://bad.test/ -o /dev/null
        curl -s -m5 -x $CCBOX_SOCKS_PROXY http://worse.test/ -o /dev/null; true";
    for &caller in lab.callers() {
        let out = lab
            .desk(caller)
            .boxed(&["allowed.test"], &["sh", "-c", script])
            .output()
            .success();
        for host in ["denied.test:80", "bad.test:443", "worse.test:80"] {
            let start = format!("ccbox: denied network-outbound {host} [curl ");
            let line = out.stderr.lines().find(|l| l.starts_with(&start));
            let pid = line.and_then(|l| l.strip_prefix(&start)?.split(']').next());
            let pid: i32 = pid.unwrap_or_else(|| panic!("{out}")).parse().unwrap();
            assert!(pid > 2, "a pid of the host, not of the sandbox: {out}");
        }
    }
}
