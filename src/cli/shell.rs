//! Shell mode, for programs that call a shell (`SHELL = ccbox` of make, npm's script-shell, `executable=` of Python), and the user's own
//! shell inside.
//!
//! Shell mode has no options of its own: everything it is called with is /bin/sh's. What holds is said by the discovered files and by
//! `CCBOX_SPEC`.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;

use super::args::{RunArgs, ShellArgs};
use super::machine::Machine;
use super::{Ending, Fault, run};
use crate::report::Reporter;
use crate::spec::SpecSource;

/// The name under which this program is shell mode.
const NAME: &str = "ccbox-sh";
/// The shell of shell mode (semantics 29).
const SH: &str = "/bin/sh";
/// The profile of [`shell`].
const PROFILE: &str = "terminal";

/// What of a call is the shell's, if it is shell mode: under the name `ccbox-sh`, as `ccbox sh`, and as `ccbox` with the options a program
/// gives a shell (`-c`, `-ec`, `-e -c`).
pub(super) fn shell_arguments(argv: &[OsString]) -> Option<&[OsString]> {
    let (name, rest) = argv.split_first()?;
    // A login shell's name starts with a dash (login(1)).
    let base = Path::new(name).file_name().map(OsStr::as_bytes);
    if base.is_some_and(|b| b.strip_prefix(b"-").unwrap_or(b) == NAME.as_bytes()) {
        return Some(rest);
    }
    if let Some((first, arguments)) = rest.split_first()
        && first == "sh"
    {
        let help = arguments
            .first()
            .is_some_and(|a| a == "--help" || a == "-h");
        return (!help).then_some(arguments);
    }
    asks_for_a_string(rest).then_some(rest)
}

/// Options of sh(1) of which one is `-c`, with nothing else before it. `-h` and `-V` alone are ccbox's.
fn asks_for_a_string(arguments: &[OsString]) -> bool {
    let mut rest = arguments.iter().map(|a| a.as_bytes());
    while let Some(option) = rest.next() {
        let letters = match option {
            [b'-' | b'+', letters @ ..] if !letters.is_empty() => letters,
            _ => return false,
        };
        if !letters.iter().all(u8::is_ascii_alphabetic) {
            return false;
        }
        if option.starts_with(b"-") && letters.contains(&b'c') {
            return true;
        }
        // `-o pipefail`.
        if letters.ends_with(b"o") {
            rest.next();
        }
    }
    false
}

/// `/bin/sh` with these arguments, inside.
pub(super) fn sh(
    arguments: &[OsString],
    report: &Arc<Reporter>,
    machine: &Machine,
) -> Result<Ending, Fault> {
    let mut command = vec![OsString::from(SH)];
    command.extend_from_slice(arguments);
    let args = RunArgs {
        interactive: is_interactive(&command),
        command,
        ..RunArgs::default()
    };
    run::run(&args, Vec::new(), report, machine)
}

/// The user's shell, inside.
pub(super) fn shell(
    args: &ShellArgs,
    specs: Vec<SpecSource>,
    report: &Arc<Reporter>,
    machine: &Machine,
) -> Result<Ending, Fault> {
    let mut policy = args.policy.clone();
    let given = !specs.is_empty() || std::env::var_os("CCBOX_SPEC").is_some_and(|v| !v.is_empty());
    if policy.profile.is_none() && !given {
        policy.profile = Some(PROFILE.to_owned());
    }
    // Never a sandboxed badge over a host shell (R27): nothing but what is typed here lets it go without.
    if policy.sandbox.is_none() && policy.backend.as_deref() != Some("none") {
        policy.sandbox = Some("require".to_owned());
    }
    let args = RunArgs {
        policy,
        events: args.events.clone(),
        trace: args.trace,
        dry_run: args.dry_run,
        keep_fd: args.keep_fd.clone(),
        quiet: args.quiet,
        verbose: args.verbose,
        interactive: true,
        command: vec![login_shell()],
        ..RunArgs::default()
    };
    run::run(&args, specs, report, machine)
}

/// Shells that a person types into. A shell in a process namespace cannot name the group it was started in, so it gets its own
/// ([`crate::backend::InnerPlan::own_group`]).
const SHELLS: [&str; 9] = [
    "sh", "bash", "dash", "ash", "zsh", "fish", "ksh", "mksh", "yash",
];

/// A shell without a script, on a terminal that nothing else of a pipeline uses.
pub(super) fn is_interactive(command: &[OsString]) -> bool {
    let Some((program, arguments)) = command.split_first() else {
        return false;
    };
    let name = Path::new(program).file_name().and_then(OsStr::to_str);
    let options = || arguments.iter().map(|a| a.as_bytes());
    name.is_some_and(|name| SHELLS.contains(&name))
        && options().all(|a| a.starts_with(b"-"))
        && !options().any(|a| !a.starts_with(b"--") && a.contains(&b'c'))
        && std::io::stdin().is_terminal()
        && std::io::stdout().is_terminal()
}

/// As the user database says.
fn login_shell() -> OsString {
    let user = nix::unistd::User::from_uid(nix::unistd::getuid());
    let shell = user.ok().flatten().map(|user| user.shell);
    shell.filter(|shell| shell.is_absolute()).map_or_else(
        || SH.into(),
        |shell| OsString::from_vec(shell.into_os_string().into_vec()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Option<Vec<String>> {
        let argv: Vec<OsString> = words.iter().map(Into::into).collect();
        shell_arguments(&argv).map(|rest| {
            rest.iter()
                .map(|a| a.to_string_lossy().into_owned())
                .collect()
        })
    }

    #[test]
    fn what_is_shell_mode() {
        let table: &[(&[&str], Option<&[&str]>)] = &[
            (&["ccbox-sh"], Some(&[])),
            (&["/usr/bin/ccbox-sh", "-h"], Some(&["-h"])),
            (&["-ccbox-sh", "-c", "x"], Some(&["-c", "x"])),
            (&["ccbox-sh", "script", "a"], Some(&["script", "a"])),
            (&["ccbox", "sh", "-c", "x"], Some(&["-c", "x"])),
            (&["ccbox", "sh", "--", "x"], Some(&["--", "x"])),
            (&["ccbox", "sh"], Some(&[])),
            (&["ccbox", "sh", "--help"], None),
            (&["ccbox", "-c", "x", "run"], Some(&["-c", "x", "run"])),
            (&["ccbox", "-ec", "x"], Some(&["-ec", "x"])),
            (&["ccbox", "-eu", "-c", "x"], Some(&["-eu", "-c", "x"])),
            (
                &["ccbox", "-eu", "-o", "pipefail", "-c", "x"],
                Some(&["-eu", "-o", "pipefail", "-c", "x"]),
            ),
            (&["ccbox", "+e", "-c", "x"], Some(&["+e", "-c", "x"])),
            (&["ccbox", "run", "-c", "x"], None),
            (&["ccbox", "-f", "spec.toml", "-c", "x"], None),
            (&["ccbox", "-h"], None),
            (&["ccbox", "--help"], None),
            (&["ccbox", "--c"], None),
            (&["ccbox", "-"], None),
            (&["ccbox", "+c", "x"], None),
            (&["ccbox"], None),
        ];
        for (words, wanted) in table {
            let wanted = wanted.map(|w| w.iter().map(ToString::to_string).collect());
            assert_eq!(read(words), wanted, "{words:?}");
        }
    }

    #[test]
    fn the_users_shell_is_a_path() {
        assert!(Path::new(&login_shell()).is_absolute());
    }
}
