//! Pieces of the host that must be readable whatever the view, and generated user database entries.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::context::Ctx;
use super::paths::Walk;
use super::tree::{Node, Shown, Tree};
use crate::host::fs_view::Kind;
use crate::policy::egress::Catchment;
use crate::policy::environment::{CA_DIR_VARS, CA_FILE_VARS};

/// Where distributions keep their CA bundle (go's crypto/x509 root_linux.go, plus SUSE's and NixOS's directories).
const CA_BUNDLES: [&str; 9] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/certs/ca-bundle.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
    "/var/lib/ca-certificates",
];

/// No search list, also not one made of this machine's own domain: it would only make more questions.
const RESOLV_CONF: &[u8] = b"nameserver 127.0.0.1\nsearch .\n";

/// What is shown read-only where the view alone would not show it.
pub(super) fn shows(ctx: Ctx<'_>) -> Vec<Walk> {
    let fixed = ["/etc/resolv.conf", "/etc/localtime", "/etc/mtab"]
        .into_iter()
        .chain(CA_BUNDLES)
        .map(PathBuf::from);
    // D16: the files the caller's certificate variables name.
    let named = CA_FILE_VARS.iter().chain(CA_DIR_VARS).flat_map(|v| {
        ctx.host
            .var(v)
            .map(|value| std::env::split_paths(value).collect::<Vec<_>>())
            .unwrap_or_default()
    });
    fixed
        .chain(named.filter(|p| p.is_absolute()))
        .chain([ctx.host.exe.clone()])
        .map(|p| ctx.walk(&p))
        // /proc/self/mounts and the like are the child's own.
        .filter(|w| !w.real.starts_with("/proc") && !w.real.starts_with("/dev"))
        .filter(|w| matches!(w.kind, Some(Kind::File | Kind::Dir)))
        .collect()
}

/// Copies of /etc/passwd and /etc/group with the caller's entry, where it is missing there (a container's `--user 1234`, LDAP).
pub(super) fn user_database(ctx: Ctx<'_>, tree: &mut Tree) {
    let user = &ctx.host.user;
    let home = ctx.host.home.as_os_str().as_encoded_bytes();
    let unfit = |b: &[u8]| b.iter().any(|c| matches!(c, b':' | b'\n' | b'\r' | 0));
    if unfit(user.as_bytes()) || unfit(home) || user.is_empty() {
        return;
    }
    let (uid, gid) = (ctx.host.uid, ctx.host.gid);
    let mut passwd = format!("{user}:x:{uid}:{gid}::").into_bytes();
    passwd.extend_from_slice(home);
    passwd.extend_from_slice(b":/bin/sh\n");
    let group = format!("{user}:x:{gid}:\n").into_bytes();
    for (file, id, line) in [("/etc/passwd", uid, passwd), ("/etc/group", gid, group)] {
        let path = Path::new(file);
        let shown = matches!(tree.shown(path), Shown::Host { path: p, .. } if p == path);
        if !shown || ctx.fs.kind(path) != Some(Kind::File) {
            continue;
        }
        let Some(mut content) = ctx.fs.read(path) else {
            continue;
        };
        if has_id(&content, id) {
            continue;
        }
        if content.last().is_some_and(|b| *b != b'\n') {
            content.push(b'\n');
        }
        content.extend_from_slice(&line);
        tree.put(
            path,
            Node::Data {
                content,
                mode: 0o644,
            },
        );
    }
}

/// Points the resolver at the sandbox' own name server, where connections without a proxy are caught, and lets nothing else answer.
///
/// Where the host has no such file, the C library asks 127.0.0.1 anyway (resolv.conf(5)).
pub(super) fn resolver(ctx: Ctx<'_>, tree: &mut Tree) {
    if Catchment::of(&ctx.policy.net).is_empty() {
        return;
    }
    let read = |file: &str| ctx.fs.read(Path::new(file));
    let files = [
        ("/etc/resolv.conf", Some(RESOLV_CONF.to_vec())),
        (
            "/etc/hosts",
            read("/etc/hosts").map(|text| own_hosts(&text, &ctx.host.hostname)),
        ),
        (
            "/etc/nsswitch.conf",
            read("/etc/nsswitch.conf").map(|text| own_switch(&text)),
        ),
    ];
    for (file, content) in files {
        let file = ctx.walk(Path::new(file));
        let shown = matches!(tree.shown(&file.real), Shown::Host { path: p, .. } if p == file.real);
        if let Some(content) = content.filter(|_| shown && file.kind == Some(Kind::File)) {
            tree.put(
                &file.real,
                Node::Data {
                    content,
                    mode: 0o644,
                },
            );
        }
    }
}

/// A hosts(5) file with the lines about loopback addresses, and this machine's own name as one of them. The addresses of all others
/// lead nowhere inside; their names are asked of the name server, and ccbox finds them in the host's own file.
fn own_hosts(hosts: &[u8], own: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut named = own.is_empty();
    for line in hosts.split(|b| *b == b'\n') {
        let Ok(text) = std::str::from_utf8(line) else {
            continue;
        };
        let mut words = text.split('#').next().unwrap_or("").split_whitespace();
        let Some(ip) = words.next().and_then(|w| w.parse::<IpAddr>().ok()) else {
            continue;
        };
        let listed: Vec<&str> = words.collect();
        let own_line = listed.iter().any(|n| n.eq_ignore_ascii_case(own));
        if ip.is_loopback() {
            out.extend_from_slice(line);
        } else if own_line && !named {
            out.extend_from_slice(format!("127.0.0.1 {}", listed.join(" ")).as_bytes());
        } else {
            continue;
        }
        out.push(b'\n');
        named |= own_line;
    }
    if !named && !own.contains(|c: char| c.is_whitespace() || c.is_control() || c == '#') {
        out.extend_from_slice(format!("127.0.0.1 {own}\n").as_bytes());
    }
    out
}

/// nsswitch.conf(5) with host names from the hosts file and the name server only: the services of other modules are the host's, and
/// some stop the search where they cannot be asked.
fn own_switch(switch: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for line in switch.split_inclusive(|b| *b == b'\n') {
        let database = line.trim_ascii_start().split(|b| *b == b':').next();
        if database.is_some_and(|d| d.trim_ascii_end() == b"hosts") {
            out.extend_from_slice(b"hosts: files dns\n");
        } else {
            out.extend_from_slice(line);
        }
    }
    out
}

/// passwd(5), group(5): the third field is the id in both.
fn has_id(content: &[u8], id: u32) -> bool {
    let id = id.to_string();
    content
        .split(|b| *b == b'\n')
        .any(|l| l.split(|b| *b == b':').nth(2) == Some(id.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_stays_in_hosts() {
        let hosts = b"# c\n127.0.0.1 localhost\n203.0.113.10 a.test\n  ::1\tip6-localhost\n\xff\n127.0.1.1 me";
        let kept = b"127.0.0.1 localhost\n  ::1\tip6-localhost\n127.0.1.1 me\n";
        assert_eq!(own_hosts(hosts, ""), kept);
        assert_eq!(own_hosts(hosts, "ME"), kept);
    }

    #[test]
    fn this_machines_name_is_its_own_loopback() {
        for (hosts, expected) in [
            (
                "10.0.0.5 box.example.com box # me\n10.0.0.6 other\n",
                "127.0.0.1 box.example.com box\n",
            ),
            ("::1 localhost", "::1 localhost\n127.0.0.1 box\n"),
            ("127.0.0.1 box\n10.0.0.5 box\n", "127.0.0.1 box\n"),
            ("", "127.0.0.1 box\n"),
        ] {
            assert_eq!(
                own_hosts(hosts.as_bytes(), "box"),
                expected.as_bytes(),
                "{hosts}"
            );
        }
        assert_eq!(own_hosts(b"", "a b"), b"");
    }

    #[test]
    fn hosts_come_from_the_file_and_the_name_server() {
        let switch = "# hosts: x\npasswd: files sss\n hosts :  files mdns4_minimal [NOTFOUND=return] resolve\nshosts: y";
        let own = "# hosts: x\npasswd: files sss\nhosts: files dns\nshosts: y";
        assert_eq!(own_switch(switch.as_bytes()), own.as_bytes());
    }

    #[test]
    fn the_third_field_is_the_id() {
        let passwd = b"root:x:0:0:root:/root:/bin/sh\nme:x:1000:1000::/home/me:/bin/sh";
        assert!(has_id(passwd, 1000));
        assert!(!has_id(passwd, 100));
        assert!(!has_id(b"", 0));
    }
}
