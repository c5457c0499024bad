//! The variables that make the child's tools use the proxies (egress-proxy §6, semantics 13), and the caller's that must go first.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::token::USER;
use crate::policy::AllProxy;

/// Loopback only, in every form tools look for. No private ranges: those targets would go around the proxy.
const NO_PROXY: &str = "localhost,127.0.0.1,::1,[::1]";

/// Ports of the caller's own proxies.
#[derive(Debug, Clone, Copy, Default)]
pub struct Instead {
    /// An HTTP proxy.
    pub http: Option<u16>,
    /// A SOCKS proxy.
    pub socks: Option<u16>,
}

/// The proxy variables of a child whose proxies listen on `127.0.0.1:port`.
///
/// `exe` is this executable as the child sees it (ssh's ProxyCommand), `known_hosts` a read-only copy of the caller's file. The
/// address is always written as 127.0.0.1: `localhost` costs a look-up and may be ::1.
///
/// `instead` are proxies of the caller that stand on the same loopback, in place of ours.
#[must_use]
pub fn child_env(
    port: u16,
    instead: Instead,
    all_proxy: AllProxy,
    token: Option<&str>,
    exe: &Path,
    known_hosts: Option<&Path>,
) -> Vec<(OsString, OsString)> {
    let login = token.map_or_else(String::new, |t| format!("{USER}:{t}@"));
    let address = |instead: Option<u16>| match instead {
        Some(theirs) => format!("127.0.0.1:{theirs}"),
        None => format!("{login}127.0.0.1:{port}"),
    };
    let http = format!("http://{}", address(instead.http));
    let socks = format!("socks5h://{}", address(instead.socks));
    let token = token.filter(|_| instead.http.is_none());
    let port = instead.http.unwrap_or(port);
    let all = match all_proxy {
        AllProxy::Http => &http,
        AllProxy::Socks => &socks,
    };
    let mut vars = Vec::new();
    let mut set = |name: &str, value: &str| vars.push((name.into(), value.into()));
    // Both cases: curl ignores HTTP_PROXY, wget everything in upper case.
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
        set(name, &http);
    }
    for name in ["ALL_PROXY", "all_proxy"] {
        set(name, all);
    }
    for name in ["NO_PROXY", "no_proxy", "npm_config_noproxy"] {
        set(name, NO_PROXY);
    }
    set("CCBOX_SOCKS_PROXY", &socks);
    // Node ≥ 22.21 and ≥ 24.5: fetch() and http.request() look at the variables only when told to.
    set("NODE_USE_ENV_PROXY", "1");
    // Not npm_config_http_proxy, which npm warns about; not YARN_NO_PROXY, at which Yarn Berry stops.
    for name in [
        "npm_config_proxy",
        "npm_config_https_proxy",
        "YARN_HTTP_PROXY",
        "YARN_HTTPS_PROXY",
        // gRPC speaks no SOCKS, so ALL_PROXY is no substitute.
        "GRPC_PROXY",
        "grpc_proxy",
    ] {
        set(name, &http);
    }
    set("CLOUDSDK_PROXY_TYPE", "http");
    set("CLOUDSDK_PROXY_ADDRESS", "127.0.0.1");
    set("CLOUDSDK_PROXY_PORT", &port.to_string());
    if let Some(token) = token {
        set("CLOUDSDK_PROXY_USERNAME", USER);
        set("CLOUDSDK_PROXY_PASSWORD", token);
    }
    // The JVM looks at no variable but this one, and never answers 407 for CONNECT, so a token would not help it.
    set(
        "JAVA_TOOL_OPTIONS",
        &format!(
            "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort={port} -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort={port} \
             -Dhttp.nonProxyHosts=localhost|127.*|[::1]{}",
            // Where there is a token the filter is Seatbelt's, to which `::ffff:127.0.0.1` is not the loopback.
            token.map_or("", |_| " -Djava.net.preferIPv4Stack=true")
        ),
    );
    vars.push(("GIT_SSH_COMMAND".into(), git_ssh_command(exe, known_hosts)));
    vars
}

/// True for a variable of the caller that would point the child's tools past the proxies or at another one. `GOPROXY` and its
/// kind name package mirrors and stay.
#[must_use]
pub fn is_proxy_variable(name: &OsStr) -> bool {
    let name = name.as_bytes().to_ascii_lowercase();
    name.ends_with(b"_proxy")
        || (name.starts_with(b"npm_config_") && name.ends_with(b"proxy"))
        || [
            &b"http_proxy_"[..],
            b"https_proxy_",
            b"ftp_proxy_",
            b"cloudsdk_proxy_",
        ]
        .iter()
        .any(|prefix| name.starts_with(prefix))
        || [&b"socks_server"[..], b"socks5_server", b"socks4_server"].contains(&name.as_slice())
}

/// git runs this through a shell, and ssh runs the ProxyCommand in it through another one.
fn git_ssh_command(exe: &Path, known_hosts: Option<&Path>) -> OsString {
    let mut proxy_command = b"ProxyCommand=".to_vec();
    // `%` introduces a token in ssh's options.
    proxy_command.extend(shell_quoted(&percent_doubled(exe.as_os_str().as_bytes())));
    proxy_command.extend(b" connect %h %p");

    // No connection sharing: a master of an earlier run would carry this one past the proxy.
    let mut command =
        b"ssh -o ProxyUseFdpass=yes -o ControlMaster=no -o ControlPath=none -o ".to_vec();
    command.extend(shell_quoted(&proxy_command));
    if let Some(file) = known_hosts {
        let mut option = b"UserKnownHostsFile=".to_vec();
        option.extend(config_quoted(&percent_doubled(file.as_os_str().as_bytes())));
        command.extend(b" -o ");
        command.extend(shell_quoted(&option));
    }
    OsString::from_vec(command)
}

fn percent_doubled(text: &[u8]) -> Vec<u8> {
    text.iter()
        .flat_map(|b| std::iter::repeat_n(*b, if *b == b'%' { 2 } else { 1 }))
        .collect()
}

/// For a POSIX shell: in single quotes unless it is plain.
fn shell_quoted(text: &[u8]) -> Vec<u8> {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"/._-=%+:@,".contains(b);
    if !text.is_empty() && text.iter().all(plain) {
        return text.to_vec();
    }
    let mut out = vec![b'\''];
    for b in text {
        match b {
            b'\'' => out.extend(b"'\\''"),
            _ => out.push(*b),
        }
    }
    out.push(b'\'');
    out
}

/// For ssh_config(5), where a list of files is split at blanks.
fn config_quoted(text: &[u8]) -> Vec<u8> {
    if !text
        .iter()
        .any(|b| b.is_ascii_whitespace() || b"\"\\'".contains(b))
    {
        return text.to_vec();
    }
    let mut out = vec![b'"'];
    for b in text {
        if b"\"\\".contains(b) {
            out.push(b'\\');
        }
        out.push(*b);
    }
    out.push(b'"');
    out
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::process::Command;

    use super::*;

    fn listed(vars: &[(OsString, OsString)]) -> String {
        vars.iter().fold(String::new(), |mut out, (k, v)| {
            let _ = writeln!(out, "{}={}", k.display(), v.display());
            out
        })
    }

    #[test]
    fn without_token() {
        let vars = child_env(
            3128,
            Instead::default(),
            AllProxy::Http,
            None,
            Path::new("/usr/bin/ccbox"),
            Some(Path::new("/run/ccbox/known_hosts")),
        );
        insta::assert_snapshot!(listed(&vars), @r#"
        HTTP_PROXY=http://127.0.0.1:3128
        HTTPS_PROXY=http://127.0.0.1:3128
        http_proxy=http://127.0.0.1:3128
        https_proxy=http://127.0.0.1:3128
        ALL_PROXY=http://127.0.0.1:3128
        all_proxy=http://127.0.0.1:3128
        NO_PROXY=localhost,127.0.0.1,::1,[::1]
        no_proxy=localhost,127.0.0.1,::1,[::1]
        npm_config_noproxy=localhost,127.0.0.1,::1,[::1]
        CCBOX_SOCKS_PROXY=socks5h://127.0.0.1:3128
        NODE_USE_ENV_PROXY=1
        npm_config_proxy=http://127.0.0.1:3128
        npm_config_https_proxy=http://127.0.0.1:3128
        YARN_HTTP_PROXY=http://127.0.0.1:3128
        YARN_HTTPS_PROXY=http://127.0.0.1:3128
        GRPC_PROXY=http://127.0.0.1:3128
        grpc_proxy=http://127.0.0.1:3128
        CLOUDSDK_PROXY_TYPE=http
        CLOUDSDK_PROXY_ADDRESS=127.0.0.1
        CLOUDSDK_PROXY_PORT=3128
        JAVA_TOOL_OPTIONS=-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=3128 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=3128 -Dhttp.nonProxyHosts=localhost|127.*|[::1]
        GIT_SSH_COMMAND=ssh -o ProxyUseFdpass=yes -o ControlMaster=no -o ControlPath=none -o 'ProxyCommand=/usr/bin/ccbox connect %h %p' -o UserKnownHostsFile=/run/ccbox/known_hosts
        "#);
    }

    #[test]
    fn with_token_and_socks() {
        let vars = child_env(
            3128,
            Instead::default(),
            AllProxy::Socks,
            Some("t0k"),
            Path::new("/opt/my 'box'/100%/ccbox"),
            None,
        );
        insta::assert_snapshot!(listed(&vars), @r#"
        HTTP_PROXY=http://ccbox:t0k@127.0.0.1:3128
        HTTPS_PROXY=http://ccbox:t0k@127.0.0.1:3128
        http_proxy=http://ccbox:t0k@127.0.0.1:3128
        https_proxy=http://ccbox:t0k@127.0.0.1:3128
        ALL_PROXY=socks5h://ccbox:t0k@127.0.0.1:3128
        all_proxy=socks5h://ccbox:t0k@127.0.0.1:3128
        NO_PROXY=localhost,127.0.0.1,::1,[::1]
        no_proxy=localhost,127.0.0.1,::1,[::1]
        npm_config_noproxy=localhost,127.0.0.1,::1,[::1]
        CCBOX_SOCKS_PROXY=socks5h://ccbox:t0k@127.0.0.1:3128
        NODE_USE_ENV_PROXY=1
        npm_config_proxy=http://ccbox:t0k@127.0.0.1:3128
        npm_config_https_proxy=http://ccbox:t0k@127.0.0.1:3128
        YARN_HTTP_PROXY=http://ccbox:t0k@127.0.0.1:3128
        YARN_HTTPS_PROXY=http://ccbox:t0k@127.0.0.1:3128
        GRPC_PROXY=http://ccbox:t0k@127.0.0.1:3128
        grpc_proxy=http://ccbox:t0k@127.0.0.1:3128
        CLOUDSDK_PROXY_TYPE=http
        CLOUDSDK_PROXY_ADDRESS=127.0.0.1
        CLOUDSDK_PROXY_PORT=3128
        CLOUDSDK_PROXY_USERNAME=ccbox
        CLOUDSDK_PROXY_PASSWORD=t0k
        JAVA_TOOL_OPTIONS=-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=3128 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=3128 -Dhttp.nonProxyHosts=localhost|127.*|[::1] -Djava.net.preferIPv4Stack=true
        GIT_SSH_COMMAND=ssh -o ProxyUseFdpass=yes -o ControlMaster=no -o ControlPath=none -o 'ProxyCommand='\''/opt/my '\''\'\'''\''box'\''\'\'''\''/100%%/ccbox'\'' connect %h %p'
        "#);
    }

    #[test]
    fn everything_set_is_first_removed() {
        let vars = child_env(
            1,
            Instead::default(),
            AllProxy::Http,
            Some("t"),
            Path::new("/c"),
            None,
        );
        for (name, _) in vars {
            let injected = name == "JAVA_TOOL_OPTIONS" || name == "GIT_SSH_COMMAND";
            assert!(injected || is_proxy_variable(&name), "{}", name.display());
        }
    }

    /// Case PT-7.
    #[test]
    fn the_callers_variables() {
        for (name, want) in [
            ("NO_PROXY", true),
            ("no_proxy", true),
            ("No_Proxy", true),
            ("http_proxy", true),
            ("HTTP_PROXY", true),
            ("FTP_PROXY", true),
            ("RSYNC_PROXY", true),
            ("socks_proxy", true),
            ("npm_config_proxy", true),
            ("npm_config_noproxy", true),
            ("NPM_CONFIG_HTTPS_PROXY", true),
            ("PIP_PROXY", true),
            ("CARGO_HTTP_PROXY", true),
            ("http_proxy_user", true),
            ("CLOUDSDK_PROXY_PORT", true),
            ("SOCKS5_SERVER", true),
            ("CCBOX_SOCKS_PROXY", true),
            ("GOPROXY", false),
            ("GONOSUMDB", false),
            ("PROXY", false),
            ("PATH", false),
            ("GIT_PROXY_COMMAND", false),
        ] {
            assert_eq!(is_proxy_variable(OsStr::new(name)), want, "{name}");
        }
    }

    /// What ssh is given after git's shell has read the command, for a path that needs every kind of quoting.
    #[test]
    fn shells_read_it_back() {
        let command = git_ssh_command(
            Path::new("/opt/my 'box'/100%/c$b"),
            Some(Path::new("/r n/\"k%")),
        );
        let mut script = OsString::from("ssh() { printf '%s\\n' \"$@\"; }; ");
        script.push(&command);
        let out = Command::new("sh").arg("-c").arg(script).output().unwrap();
        let args: Vec<&str> = std::str::from_utf8(&out.stdout).unwrap().lines().collect();
        assert_eq!(
            args,
            [
                "-o",
                "ProxyUseFdpass=yes",
                "-o",
                "ControlMaster=no",
                "-o",
                "ControlPath=none",
                "-o",
                r"ProxyCommand='/opt/my '\''box'\''/100%%/c$b' connect %h %p",
                "-o",
                r#"UserKnownHostsFile="/r n/\"k%%""#,
            ]
        );
    }
}
