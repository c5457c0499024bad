//! Which of the caller's descriptors the command keeps (D11, semantics 25), and the end of all others.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;

use super::SessionError;
use crate::sys::fds::{self, Kind};

/// The first descriptor of LISTEN_FDS (sd_listen_fds(3)).
const LISTEN_FDS_START: RawFd = 3;

/// Descriptors above 2 that go on to the command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inherited {
    /// Their numbers, ascending.
    pub keep: Vec<RawFd>,
    /// LISTEN_FDS is meant for this run, so LISTEN_PID becomes the command's pid.
    pub listen: bool,
}

/// Finds what the command keeps: `--keep-fd`, the job server of make, LISTEN_FDS, and pipes that an argument names.
pub fn inherited(
    argv: &[OsString],
    env: &[(OsString, OsString)],
    keep_fds: &[RawFd],
) -> Result<Inherited, SessionError> {
    select(argv, env, keep_fds, std::process::id(), |fd| {
        fds::kind(fd).ok()
    })
}

/// Refuses a directory as standard input, output or error: `openat` on it would pass every mount by.
pub fn check_standard() -> Result<(), SessionError> {
    for (fd, name) in [(0, "input"), (1, "output"), (2, "error")] {
        if fds::kind(fd).ok() == Some(Kind::Directory) {
            return Err(SessionError::new(format!(
                "standard {name} is a directory, which would open it to the sandbox"
            )));
        }
    }
    Ok(())
}

/// Refuses sockets that can be pointed anywhere in the host's network, whatever network the command has; it is what they are of that counts.
pub fn check_sockets(kept: &Inherited) -> Result<(), SessionError> {
    for &fd in [0, 1, 2].iter().chain(&kept.keep) {
        let is_socket = fds::kind(fd).ok() == Some(Kind::Socket);
        if !is_socket || fds::leads_one_way(fd).unwrap_or(false) {
            continue;
        }
        let which = match fd {
            0 => "standard input".to_owned(),
            1 => "standard output".to_owned(),
            2 => "standard error".to_owned(),
            _ => format!("descriptor {fd}"),
        };
        let mut error = SessionError::new(format!(
            "{which} is a socket of the host, through which the command could reach others than who is at its other end"
        ));
        error.hint = Some(
            "put a pipe or a connected Unix socket in its place, or set `network.mode = \"open\"`"
                .to_owned(),
        );
        return Err(error);
    }
    Ok(())
}

/// [`inherited`] over made-up descriptors.
fn select(
    argv: &[OsString],
    env: &[(OsString, OsString)],
    keep_fds: &[RawFd],
    pid: u32,
    kind: impl Fn(RawFd) -> Option<Kind>,
) -> Result<Inherited, SessionError> {
    let var = |name: &str| {
        env.iter()
            .rev()
            .find(|(k, _)| k == name)
            .map(|(_, v)| v.as_os_str())
    };
    let mut keep = BTreeSet::new();
    for &fd in keep_fds {
        match kind(fd) {
            _ if fd < 3 => {}
            None => {
                return Err(SessionError::new(format!(
                    "--keep-fd {fd}: not an open descriptor"
                )));
            }
            Some(Kind::Directory) => {
                return Err(SessionError::new(format!(
                    "--keep-fd {fd}: a directory would open everything below it to the sandbox"
                )));
            }
            Some(Kind::Pipe | Kind::Socket | Kind::Other) => {
                keep.insert(fd);
            }
        }
    }
    // A job server that is announced but not passed (a recipe without `+`) is make's own business.
    for fd in var("MAKEFLAGS").map(job_server).unwrap_or_default() {
        if fd > 2 && kind(fd) == Some(Kind::Pipe) {
            keep.insert(fd);
        }
    }
    let mut listen = false;
    // Variables left over from another process' activation carry another pid.
    if var("LISTEN_PID").and_then(number::<u32>) == Some(pid) {
        let count = var("LISTEN_FDS").and_then(number::<RawFd>).unwrap_or(0);
        for fd in LISTEN_FDS_START..LISTEN_FDS_START.saturating_add(count.clamp(0, 1024)) {
            match kind(fd) {
                Some(Kind::Socket) => {
                    keep.insert(fd);
                    listen = true;
                }
                None | Some(Kind::Directory | Kind::Pipe | Kind::Other) => {
                    return Err(SessionError::new(format!(
                        "LISTEN_FDS names descriptor {fd}, which is not a socket"
                    )));
                }
            }
        }
    }
    for fd in argv.iter().skip(1).flat_map(|a| named(a.as_bytes())) {
        if fd > 2 && kind(fd) == Some(Kind::Pipe) {
            keep.insert(fd);
        }
    }
    Ok(Inherited {
        keep: keep.into_iter().collect(),
        listen,
    })
}

fn number<T: std::str::FromStr>(text: &OsStr) -> Option<T> {
    text.to_str()?.parse().ok()
}

/// The pair in `--jobserver-auth=R,W` (`--jobserver-fds` before make 4.2); the last one counts. `fifo:PATH` is a path.
fn job_server(flags: &OsStr) -> Vec<RawFd> {
    let Some(flags) = flags.to_str() else {
        return Vec::new();
    };
    let auth = flags.split_ascii_whitespace().rev().find_map(|word| {
        word.strip_prefix("--jobserver-auth=")
            .or_else(|| word.strip_prefix("--jobserver-fds="))
    });
    let pair = auth.and_then(|a| a.split_once(','));
    match pair.map(|(r, w)| (r.parse(), w.parse())) {
        Some((Ok(r), Ok(w))) => vec![r, w],
        _ => Vec::new(),
    }
}

/// Numbers that an argument names as `/dev/fd/N` or `/proc/self/fd/N`, alone or behind something (`--file=/dev/fd/63`).
fn named(argument: &[u8]) -> Vec<RawFd> {
    let mut found = Vec::new();
    for prefix in [b"/dev/fd/".as_slice(), b"/proc/self/fd/"] {
        let mut rest = argument;
        while let Some(at) = rest.windows(prefix.len()).position(|w| w == prefix) {
            rest = rest.get(at + prefix.len()..).unwrap_or_default();
            let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
            let text = rest.get(..digits).unwrap_or_default();
            found.extend(
                std::str::from_utf8(text)
                    .ok()
                    .and_then(|t| t.parse::<RawFd>().ok()),
            );
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 3, 4, 63 pipes; 5 a socket; 6 a file; 7 a directory.
    fn kinds(fd: RawFd) -> Option<Kind> {
        match fd {
            3 | 4 | 63 => Some(Kind::Pipe),
            5 => Some(Kind::Socket),
            6 => Some(Kind::Other),
            7 => Some(Kind::Directory),
            _ => None,
        }
    }

    fn run(argv: &[&str], env: &[(&str, &str)], keep: &[RawFd]) -> Result<Inherited, String> {
        let argv: Vec<OsString> = argv.iter().map(Into::into).collect();
        let env: Vec<_> = env.iter().map(|(k, v)| (k.into(), v.into())).collect();
        select(&argv, &env, keep, 42, kinds).map_err(|e| e.to_string())
    }

    fn kept(argv: &[&str], env: &[(&str, &str)], keep: &[RawFd]) -> Vec<RawFd> {
        run(argv, env, keep).unwrap().keep
    }

    #[test]
    fn nothing_is_kept_unasked() {
        assert_eq!(run(&["cat", "3"], &[], &[]).unwrap(), Inherited::default());
    }

    #[test]
    fn job_server_pipes_are_kept() {
        for flags in [
            "-j --jobserver-auth=3,4",
            " -j4 --jobserver-auth=8,9 --jobserver-auth=3,4 -- X=1",
            "--jobserver-fds=3,4 -j",
        ] {
            assert_eq!(
                kept(&["make"], &[("MAKEFLAGS", flags)], &[]),
                [3, 4],
                "{flags}"
            );
        }
        for flags in [
            "--jobserver-auth=fifo:/tmp/GMfifo7",
            "--jobserver-auth=-2,-2",
            "--jobserver-auth=6,7",
            "--jobserver-auth=80,81",
            "--jobserver-auth=0,1",
            "--jobserver-auth=3",
            "-j",
        ] {
            assert!(
                kept(&["make"], &[("MAKEFLAGS", flags)], &[]).is_empty(),
                "{flags}"
            );
        }
    }

    #[test]
    fn pipes_named_by_arguments_are_kept() {
        assert_eq!(
            kept(&["diff", "/dev/fd/63", "/proc/self/fd/3"], &[], &[]),
            [3, 63]
        );
        assert_eq!(
            kept(&["x", "--file=/dev/fd/63,/dev/fd/4"], &[], &[]),
            [4, 63]
        );
        // Not pipes, not open, not a number, or the program itself.
        let argv = [
            "/dev/fd/3",
            "/dev/fd/6",
            "/dev/fd/7",
            "/dev/fd/5",
            "/dev/fd/99",
            "/dev/fd/",
            "/dev/fd/99999999999",
        ];
        assert!(kept(&argv, &[], &[]).is_empty());
    }

    #[test]
    fn activation_sockets_are_kept_for_this_process_only() {
        let env = |n| [("LISTEN_FDS", n), ("LISTEN_PID", "42")];
        let two = select(
            &[],
            &env("1").map(|(k, v)| (k.into(), v.into())),
            &[],
            42,
            |_| Some(Kind::Socket),
        );
        assert_eq!(
            two.unwrap(),
            Inherited {
                keep: vec![3],
                listen: true
            }
        );
        assert!(
            run(&[], &env("1"), &[])
                .unwrap_err()
                .contains("descriptor 3")
        );
        assert!(kept(&[], &[("LISTEN_FDS", "1"), ("LISTEN_PID", "41")], &[]).is_empty());
        assert!(kept(&[], &[("LISTEN_FDS", "1")], &[]).is_empty());
    }

    #[test]
    fn typed_descriptors_are_checked() {
        assert_eq!(kept(&[], &[], &[6, 5, 6, 1]), [5, 6]);
        assert!(run(&[], &[], &[7]).unwrap_err().contains("directory"));
        assert!(run(&[], &[], &[99]).unwrap_err().contains("not an open"));
    }
}
