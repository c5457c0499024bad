//! A plan rendered for its engine, and that as text: `--dry-run`, `profile`, `-vv`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::context::Prepared;
use super::engine::Chosen;
use super::{Fault, profile};
use crate::backend::{
    Engine, EngineArg, Invocation, Mount, NetSetup, PreMount, builtin, bwrap, landlock, none,
};
use crate::host::bwrap::PLACES;
use crate::host::probe::observe::bwrap_version;
use crate::policy::NetworkMode;
use crate::report::text::{shell_line, shell_quote};
use crate::session::seatbelt;

/// Descriptor numbers in printed command lines start here; bash opens up to 9 itself for nothing.
const FIRST_FD: usize = 10;

/// The plan as the chosen engine takes it.
pub(super) fn invocation(
    ready: &Prepared,
    chosen: &Chosen,
    net: NetSetup,
    with_version: bool,
) -> Invocation {
    match chosen {
        // A profile is no invocation: the session starts it itself.
        Chosen::Seatbelt | Chosen::None(_) => none::render(&ready.plan),
        Chosen::Builtin(_) => builtin::render(&ready.plan, net),
        Chosen::Landlock(tmp) => landlock::render(&ready.plan, tmp),
        Chosen::Bwrap(program) => {
            let mut out = bwrap::render(&ready.plan, &ready.host, program, net);
            // A process of its own: only for those who asked what is enforced.
            if with_version && let Engine::Bwrap { version, .. } = &mut out.engine {
                *version = version.take().or_else(|| bwrap_version(program));
            }
            out
        }
    }
}

/// How the network of a run is set up first; the session falls back where the host allows less.
pub(super) fn net_setup(chosen: &Chosen, mode: NetworkMode) -> NetSetup {
    match (chosen, mode) {
        (Chosen::Builtin(_) | Chosen::Bwrap(_), NetworkMode::Filtered | NetworkMode::Off) => {
            NetSetup::PreStage
        }
        (Chosen::Builtin(_) | Chosen::Bwrap(_), NetworkMode::Open)
        | (Chosen::Landlock(_) | Chosen::Seatbelt | Chosen::None(_), _) => NetSetup::Host,
    }
}

/// How a printed command line has its network: it must hold by itself when it is pasted, so the namespace is the engine's and
/// not one that ccbox made before. `-vv` prints what is really run.
pub(super) fn printed_setup(chosen: &Chosen, mode: NetworkMode) -> NetSetup {
    match net_setup(chosen, mode) {
        NetSetup::PreStage | NetSetup::Inner => NetSetup::Inner,
        NetSetup::Host => NetSetup::Host,
    }
}

/// The command line of `--dry-run`, one line, for bash: bubblewrap's also where ccbox makes the same mounts itself.
pub(super) fn command_line(ready: &Prepared, chosen: &Chosen) -> Result<String, Fault> {
    if *chosen == Chosen::Seatbelt {
        let text = profile::example(ready)?;
        return Ok(sandbox_exec(&text, &ready.plan.argv));
    }
    let chosen = &printed(chosen);
    let net = printed_setup(chosen, ready.plan.network.mode);
    let mut line = argv(&invocation(ready, chosen, net, false));
    line.push('\n');
    Ok(line)
}

/// The command line of macOS, in one word the profile; a run hands over a long one in a file.
fn sandbox_exec(text: &str, argv: &[OsString]) -> String {
    let words = [seatbelt::SANDBOX_EXEC, "-p", text, "--"].map(OsStr::new);
    let mut line = shell_line(
        words
            .into_iter()
            .chain(argv.iter().map(OsString::as_os_str)),
    );
    line.push('\n');
    line
}

/// The engine whose command line says what the chosen one does.
pub(super) fn printed(chosen: &Chosen) -> Chosen {
    match chosen {
        Chosen::Builtin(Some(path)) => Chosen::Bwrap(path.clone()),
        Chosen::Builtin(None) => Chosen::Bwrap(PLACES.first().copied().unwrap_or("bwrap").into()),
        Chosen::Bwrap(_) | Chosen::Landlock(_) | Chosen::Seatbelt | Chosen::None(_) => {
            chosen.clone()
        }
    }
}

/// The engine's command line, shell-quoted. What the session hands over on descriptors becomes a redirection, and the command
/// stands where the inner stage would, so that the line can be pasted into bash. The inner stage's part (environment, working
/// directory, filter, Landlock domain) cannot be said on a command line.
pub(super) fn argv(invocation: &Invocation) -> String {
    let Engine::Bwrap { program, .. } = &invocation.engine else {
        return shell_line(invocation.inner.argv.iter().map(OsString::as_os_str));
    };
    let (words, redirections) = words(program, &invocation.args, &invocation.inner.argv);
    let mut out = words.join(" ");
    for r in redirections {
        out.push(' ');
        out.push_str(&r);
    }
    out
}

/// What the pre-stage mounts before the engine starts, for `-vv`, in the engine's words where it has some. A printed command line has
/// all of it itself.
pub(super) fn premounts(invocation: &Invocation) -> Vec<String> {
    let quoted = |path: &Path| shell_quote(path.as_os_str());
    invocation
        .premounts
        .iter()
        .map(|mount| match mount {
            PreMount::Overlay(o) => format!("overlay {}", quoted(&o.at)),
            PreMount::Guest {
                mount: Mount::Cover { dst, .. },
                ..
            } => format!("hide {}", quoted(dst)),
            PreMount::Guest { mount, devices } => bwrap::words(mount, *devices)
                .iter()
                .map(|word| match word {
                    EngineArg::Text(text) => shell_quote(text),
                    EngineArg::Data(_) | EngineArg::SelfExe => "<content>".to_owned(),
                })
                .collect::<Vec<_>>()
                .join(" "),
        })
        .collect()
}

/// The engine's arguments without its name, one a line.
pub(super) fn lines(invocation: &Invocation) -> String {
    let Engine::Bwrap { program, .. } = &invocation.engine else {
        return String::new();
    };
    let (words, _) = words(program, &invocation.args, &invocation.inner.argv);
    let mut out = String::new();
    for word in words.iter().skip(1) {
        out.push_str(word);
        out.push('\n');
    }
    out
}

fn words(program: &Path, args: &[EngineArg], command: &[OsString]) -> (Vec<String>, Vec<String>) {
    let mut words = vec![shell_quote(program.as_os_str())];
    let mut redirections = Vec::new();
    for arg in args {
        let fd = FIRST_FD + redirections.len();
        match arg {
            EngineArg::Text(t) => words.push(shell_quote(t)),
            EngineArg::Data(content) => {
                use std::os::unix::ffi::OsStrExt;
                words.push(fd.to_string());
                let text = shell_quote(OsStr::from_bytes(content));
                redirections.push(format!("{fd}< <(printf %s {text})"));
            }
            EngineArg::SelfExe => {
                words.extend(command.iter().map(|w| shell_quote(w)));
                break;
            }
        }
    }
    (words, redirections)
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::inner;
    use super::*;

    fn made(args: Vec<EngineArg>) -> Invocation {
        Invocation {
            engine: Engine::Bwrap {
                program: "/usr/bin/bwrap".into(),
                version: None,
            },
            args,
            inner: inner(),
            premounts: Vec::new(),
        }
    }

    #[test]
    fn arguments_are_quoted_and_descriptors_become_redirections() {
        let i = made(vec![
            EngineArg::Text("--bind".into()),
            EngineArg::Text("/a b".into()),
            EngineArg::Text("/a b".into()),
            EngineArg::Text("--ro-bind-data".into()),
            EngineArg::Data(b"x:1\n".to_vec()),
            EngineArg::Text("/etc/passwd".into()),
            EngineArg::Text("--".into()),
            EngineArg::SelfExe,
            EngineArg::Text("__inner".into()),
        ]);
        assert_eq!(
            argv(&i),
            "/usr/bin/bwrap --bind '/a b' '/a b' --ro-bind-data 10 /etc/passwd -- sh -c 'echo x' 10< <(printf %s $'x:1\\n')"
        );
        assert_eq!(
            lines(&i),
            "--bind\n'/a b'\n'/a b'\n--ro-bind-data\n10\n/etc/passwd\n--\nsh\n-c\n'echo x'\n"
        );
    }

    #[test]
    fn without_an_engine_the_line_is_the_command() {
        let i = Invocation {
            engine: Engine::None,
            ..made(Vec::new())
        };
        assert_eq!(argv(&i), "sh -c 'echo x'");
        assert_eq!(lines(&i), "");
    }

    #[test]
    fn what_is_mounted_before_is_said() {
        let mut i = made(Vec::new());
        let guest = |mount| PreMount::Guest {
            mount,
            devices: false,
        };
        i.premounts = vec![
            guest(Mount::Cover {
                of: "/a b".into(),
                dst: "/a b".into(),
                is_dir: true,
            }),
            guest(Mount::RoBind {
                src: "/c".into(),
                dst: "/d e".into(),
            }),
            guest(Mount::Data {
                dst: "/f".into(),
                content: b"x".to_vec(),
                mode: 0o644,
            }),
        ];
        let expected = [
            "hide '/a b'",
            "--ro-bind /c '/d e'",
            "--perms 0644 --ro-bind-data <content> /f",
        ];
        assert_eq!(premounts(&i), expected);
    }

    #[test]
    fn the_network_is_the_hosts_only_where_it_is_open_or_nothing_isolates() {
        let b = Chosen::Bwrap("/usr/bin/bwrap".into());
        let n = Chosen::None(String::new());
        assert_eq!(net_setup(&b, NetworkMode::Filtered), NetSetup::PreStage);
        assert_eq!(net_setup(&b, NetworkMode::Off), NetSetup::PreStage);
        assert_eq!(net_setup(&b, NetworkMode::Open), NetSetup::Host);
        assert_eq!(net_setup(&n, NetworkMode::Filtered), NetSetup::Host);
        assert_eq!(printed_setup(&b, NetworkMode::Filtered), NetSetup::Inner);
        assert_eq!(printed_setup(&b, NetworkMode::Open), NetSetup::Host);
    }
}
