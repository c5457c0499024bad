//! What was typed, and nothing else: clap types without I/O and without resolution.
//!
//! Arguments that are paths or belong to the command stay `OsString`: they need not be UTF-8.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args, CommandFactory, Parser, Subcommand, ValueEnum};

/// Exit codes, repeated below the long help and in every man page.
const AFTER: &str = "\
Exit status: the command's own; 125 ccbox could not or would not run it, 126 found but cannot be executed, 127 not found. \
Killed by a signal, ccbox ends by the same signal. With 125 to 127 of its own exactly one line on standard error that \
starts with `ccbox:` says why.";

/// Wrap one command in a sandbox.
///
/// The command sees what its spec binds or, without a spec, this machine read-only minus secrets; it writes where it is
/// allowed to and reaches the hosts on its allow list. Its standard streams, terminal and exit status are its own.
#[derive(Debug, Parser)]
#[command(
    name = "ccbox",
    version,
    disable_help_subcommand = true,
    subcommand_required = true,
    after_long_help = AFTER
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Wrap one command (the main job)
    ///
    /// Everything from the first positional argument on belongs to the command, with or without `--`. There is no shell in
    /// between: the arguments go to execve(2) as they are.
    #[command(after_long_help = AFTER, override_usage = "ccbox run [OPTIONS] [--] CMD [ARG]...")]
    Run(RunArgs),
    /// Run the user's shell inside
    ///
    /// The profile is `terminal` unless a spec or another one is given: home and current directory writable, network open, keys closed.
    #[command(override_usage = "ccbox shell [OPTIONS]")]
    Shell(ShellArgs),
    /// Shell mode: /bin/sh inside, for programs that call a shell
    ///
    /// `ccbox -c STRING` and the name `ccbox-sh` are the same. There are no options: all arguments are those of /bin/sh, and the rules are
    /// those of the discovered files and of CCBOX_SPEC. So it can be make's SHELL, npm's script-shell, or the shell of a program's system(3).
    #[command(
        override_usage = "ccbox sh [SHELL-ARG]...\n       ccbox -c STRING [NAME [ARG]...]\n       ccbox-sh [SHELL-ARG]..."
    )]
    Sh(ShArgs),
    /// Print the resolved plan: layers, mounts, denies, hosts, environment, engine
    ///
    /// Nothing is run and nothing is changed.
    #[command(override_usage = "ccbox explain [OPTIONS] [[--] CMD [ARG]...]")]
    Explain(ExplainArgs),
    /// Print the backend's argument vector or profile only
    #[command(override_usage = "ccbox profile --format FORMAT [OPTIONS] [[--] CMD [ARG]...]")]
    Profile(ProfileArgs),
    /// Say whether a path or host is allowed, and by which rule
    ///
    /// Exit status 0: allowed, 1: denied, 125: error.
    #[command(
        override_usage = "ccbox check [OPTIONS] read|write|exec PATH\n       ccbox check [OPTIONS] host HOST[:PORT]"
    )]
    Check(CheckArgs),
    /// Find out what this host can enforce, what is missing, and how to get it
    ///
    /// The probe is functional: it really makes namespaces and runs the engine.
    #[command(alias = "doctor")]
    Probe(ProbeArgs),
    /// Write a commented ccbox.toml into the current directory
    ///
    /// Never overwrites. The new file is recorded as trusted.
    Init(InitArgs),
    /// Record a project file's path, owner and hash: its grants count from now on
    ///
    /// Prints every grant that is accepted.
    Trust(TrustArgs),
    /// Run a command and print the spec it needs
    ///
    /// Secrets and what is mandatory or protected stay closed; beside that the command may read everything, write in the current
    /// directory and in the home directory, and reach every public host. What it does there is real. The spec has no more than what
    /// it used, and never a directory that would open home, the system or a secret.
    #[command(override_usage = "ccbox learn [OPTIONS] [--] CMD [ARG]...")]
    Learn(LearnArgs),
    /// Turn the denials of the last run into lines of a spec
    ///
    /// Prints them as TOML, and changes nothing unless `--write` names a file. What is mandatory or protected is never among them;
    /// secrets and files of the system only with `--force`.
    #[command(override_usage = "ccbox allow --last [N]... [--all] [--force] [--write FILE]")]
    Allow(AllowArgs),
    /// Private caches of earlier runs
    Caches(CachesArgs),
    /// SOCKS connector for ssh's ProxyCommand (inside the sandbox)
    Connect(ConnectArgs),
    /// Print the completion script of a shell
    Completions(CompletionsArgs),
    /// Print a man page (to be read with `man -l -`)
    Man(ManArgs),
}

/// Which spec counts, and sugar for its keys. The flag wins over the file.
#[derive(Debug, Clone, Default, Args)]
pub struct PolicyArgs {
    /// Spec file; `-` is standard input. Repeatable: arrays append, later scalars win
    #[arg(short = 'f', long = "spec", value_name = "FILE", action = ArgAction::Append)]
    pub spec: Vec<PathBuf>,
    /// Inline spec (TOML)
    #[arg(short = 'p', long = "inline", value_name = "TOML", action = ArgAction::Append)]
    pub inline: Vec<String>,
    /// Built-in profile: dispatch, dev, terminal, strict
    #[arg(short = 'n', long = "profile", value_name = "PROFILE")]
    pub profile: Option<String>,
    /// Value of `${param:KEY}` in the spec
    #[arg(short = 'D', long = "define", value_name = "KEY=VALUE", value_parser = key_value, action = ArgAction::Append)]
    pub params: Vec<(String, String)>,
    /// Mode: chat keeps grants as declared, the others make every grant read-only
    #[arg(long, value_name = "MODE", value_parser = ["chat", "review", "plan", "orchestrate"])]
    pub mode: Option<String>,
    /// Backend: auto prefers native
    #[arg(long, value_name = "BACKEND", value_parser = ["auto", "native", "none", "microvm"])]
    pub backend: Option<String>,
    /// Engine of the native backend on Linux
    #[arg(long, value_name = "ENGINE", value_parser = ["auto", "bwrap", "builtin", "landlock"])]
    pub engine: Option<String>,
    /// require: fail when no backend is available; on: wrap where possible and say where not; off: do not wrap, and say so
    #[arg(long, value_name = "WHEN", value_parser = ["require", "on", "off"])]
    pub sandbox: Option<String>,
    /// Writable tree
    #[arg(long, value_name = "PATH", action = ArgAction::Append)]
    pub rw: Vec<OsString>,
    /// Readable tree
    #[arg(long, value_name = "PATH", action = ArgAction::Append)]
    pub ro: Vec<OsString>,
    /// Path that cannot be read
    #[arg(long, value_name = "PATH", action = ArgAction::Append)]
    pub deny_read: Vec<OsString>,
    /// Path that cannot be written, in writable trees too
    #[arg(long, value_name = "PATH", action = ArgAction::Append)]
    pub deny_write: Vec<OsString>,
    /// Path that is never writable, in any mode
    #[arg(long, value_name = "PATH", action = ArgAction::Append)]
    pub protect: Vec<OsString>,
    /// Host that may be reached: `example.com`, `*.example.com`, `example.com:8443`
    #[arg(long, value_name = "PATTERN", action = ArgAction::Append)]
    pub allow_host: Vec<String>,
    /// Host that may not be reached; beats every allow
    #[arg(long, value_name = "PATTERN", action = ArgAction::Append)]
    pub deny_host: Vec<String>,
    /// No network: every connection is refused and reported
    #[arg(long)]
    pub no_network: bool,
    /// Set a variable for the command
    #[arg(long = "env", value_name = "NAME=VALUE", action = ArgAction::Append)]
    pub env_set: Vec<OsString>,
    /// Pass a variable (or `PREFIX_*`) that is dropped by default
    #[arg(long = "pass-env", value_name = "NAME", action = ArgAction::Append)]
    pub env_pass: Vec<String>,
    /// Working directory inside
    #[arg(long, value_name = "DIR")]
    pub chdir: Option<PathBuf>,
    /// Name of the run: letters, digits, `.`, `_`, `-`, at most 64
    #[arg(long, value_name = "ID", value_parser = session_id)]
    pub session: Option<String>,
}

/// `ccbox run`.
#[derive(Debug, Clone, Default, Args)]
pub struct RunArgs {
    /// Policy options.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Write events as JSON lines to a file, or to an inherited descriptor: `fd:N`
    ///
    /// One object a line, `type` one of starting, ready, violation, exit, killed, error; the last one tells how the call
    /// ended, whatever refused it. `ready` names the engine, with its version where `-v` is given: asking for it takes a
    /// process of its own.
    #[arg(long, value_name = "FILE|fd:N")]
    pub events: Option<OsString>,
    /// Also report what cannot be read because it is not shown inside, or made on the host beside hidden files; every open for reading is watched, which makes it slower
    #[arg(long)]
    pub trace: bool,
    /// Print the backend's command line, shell-quoted, and run nothing; environment, filter and proxies are not part of it
    #[arg(long)]
    pub dry_run: bool,
    /// Pass an inherited descriptor on to the command
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(3..), action = ArgAction::Append)]
    pub keep_fd: Vec<i32>,
    /// Write the command's output as events instead: `stdout` and `stderr`, text or base64
    #[arg(long)]
    pub capture: bool,
    /// No violation lines
    #[arg(short = 'q', long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say what is enforced; twice: also the backend's argument vector
    #[arg(short = 'v', long, action = ArgAction::Count)]
    pub verbose: u8,
    /// The command is an interactive shell; no option, `ccbox shell` sets it.
    #[arg(skip)]
    pub interactive: bool,
    /// The command and its arguments
    #[arg(value_name = "CMD", trailing_var_arg = true, num_args = 0..)]
    pub command: Vec<OsString>,
}

/// `ccbox shell`.
#[derive(Debug, Clone, Default, Args)]
pub struct ShellArgs {
    /// Policy options.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Write events as JSON lines to a file, or to an inherited descriptor: `fd:N`
    #[arg(long, value_name = "FILE|fd:N")]
    pub events: Option<OsString>,
    /// Also report what cannot be read because it is not shown inside
    #[arg(long)]
    pub trace: bool,
    /// Print the backend's command line, shell-quoted, and run nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Pass an inherited descriptor on to the shell
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(3..), action = ArgAction::Append)]
    pub keep_fd: Vec<i32>,
    /// No violation lines
    #[arg(short = 'q', long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say what is enforced; twice: also the backend's argument vector
    #[arg(short = 'v', long, action = ArgAction::Count)]
    pub verbose: u8,
}

/// `ccbox sh`.
#[derive(Debug, Clone, Default, Args)]
pub struct ShArgs {
    /// Arguments of /bin/sh
    #[arg(value_name = "SHELL-ARG", trailing_var_arg = true, allow_hyphen_values = true, num_args = 0..)]
    pub arguments: Vec<OsString>,
}

/// `ccbox explain`.
#[derive(Debug, Clone, Default, Args)]
pub struct ExplainArgs {
    /// Policy options.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
    /// The command and its arguments
    #[arg(value_name = "CMD", trailing_var_arg = true, num_args = 0..)]
    pub command: Vec<OsString>,
}

/// Texts `ccbox profile` can print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProfileFormat {
    /// The Seatbelt profile of macOS, on every system
    Seatbelt,
    /// The arguments of bubblewrap, one a line, shell-quoted
    Bwrap,
}

/// `ccbox profile`.
#[derive(Debug, Clone, Args)]
pub struct ProfileArgs {
    /// Which text
    #[arg(long, value_name = "FORMAT")]
    pub format: ProfileFormat,
    /// Policy options.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// The command and its arguments
    #[arg(value_name = "CMD", trailing_var_arg = true, num_args = 0..)]
    pub command: Vec<OsString>,
}

/// What `ccbox check` asks about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CheckKind {
    /// May a path be read
    Read,
    /// May a path be written or created
    Write,
    /// May a file be executed
    Exec,
    /// May a host be reached (nothing is resolved)
    Host,
}

/// `ccbox check`.
#[derive(Debug, Clone, Args)]
pub struct CheckArgs {
    /// Policy options.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// What to ask
    #[arg(value_name = "ACTION")]
    pub kind: CheckKind,
    /// Path, or HOST[:PORT]
    #[arg(value_name = "TARGET", allow_hyphen_values = false)]
    pub target: OsString,
}

/// `ccbox probe`.
#[derive(Debug, Clone, Copy, Args)]
pub struct ProbeArgs {
    /// One JSON object
    #[arg(long)]
    pub json: bool,
    /// Also run a whole sandbox and measure its start
    #[arg(long)]
    pub deep: bool,
}

/// `ccbox init`.
#[derive(Debug, Clone, Args)]
pub struct InitArgs {
    /// Built-in profile to start from: dispatch, dev, terminal, strict
    #[arg(
        short = 'n',
        long = "profile",
        value_name = "PROFILE",
        default_value = "dev"
    )]
    pub profile: String,
}

/// `ccbox trust`.
#[derive(Debug, Clone, Args)]
pub struct TrustArgs {
    /// The project file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// `ccbox learn`.
#[derive(Debug, Clone, Default, Args)]
pub struct LearnArgs {
    /// Value of `${param:KEY}` in the user's configuration
    #[arg(short = 'D', long = "define", value_name = "KEY=VALUE", value_parser = key_value, action = ArgAction::Append)]
    pub params: Vec<(String, String)>,
    /// Path that stays closed for writing
    #[arg(long, value_name = "PATH", action = ArgAction::Append)]
    pub protect: Vec<OsString>,
    /// Path that stays closed for reading
    #[arg(long, value_name = "PATH", action = ArgAction::Append)]
    pub deny_read: Vec<OsString>,
    /// Host that stays closed
    #[arg(long, value_name = "PATTERN", action = ArgAction::Append)]
    pub deny_host: Vec<String>,
    /// Write the spec to this new file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// The command and its arguments
    #[arg(value_name = "CMD", trailing_var_arg = true, num_args = 0..)]
    pub command: Vec<OsString>,
}

/// `ccbox allow`.
#[derive(Debug, Clone, Default, Args)]
pub struct AllowArgs {
    /// The last run with denials that was started in this directory
    #[arg(long, conflicts_with = "session")]
    pub last: bool,
    /// The run of this name instead
    #[arg(long, value_name = "ID", value_parser = session_id)]
    pub session: Option<String>,
    /// Only these denials, by their number
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub numbers: Vec<u32>,
    /// All that can be allowed
    #[arg(long, conflicts_with = "numbers")]
    pub all: bool,
    /// Secrets and files of the system as well
    #[arg(long)]
    pub force: bool,
    /// Add the lines to this file, with its comments kept; made where it is not there
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
}

/// `ccbox caches`.
#[derive(Debug, Clone, Copy, Args)]
pub struct CachesArgs {
    /// What to do with them
    #[command(subcommand)]
    pub action: CachesAction,
}

/// Actions on private caches.
#[derive(Debug, Clone, Copy, Subcommand)]
pub enum CachesAction {
    /// Empty the private caches of the current user
    Clear,
}

/// `ccbox connect`.
#[derive(Debug, Clone, Args)]
pub struct ConnectArgs {
    /// Host name or address, as ssh's %h
    pub host: String,
    /// Port, as ssh's %p
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
}

/// Shells with a completion script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// GNU bash
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
}

/// `ccbox completions`.
#[derive(Debug, Clone, Copy, Args)]
pub struct CompletionsArgs {
    /// Shell
    pub shell: Shell,
}

/// `ccbox man`.
#[derive(Debug, Clone, Args)]
pub struct ManArgs {
    /// `ccbox` (default), a subcommand, or `ccbox.toml`
    #[arg(value_name = "PAGE")]
    pub page: Option<String>,
}

/// The clap tree, for parsing, man pages and completions.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((k, v)) if !k.is_empty() => Ok((k.to_owned(), v.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

/// Semantics 33.
pub(super) fn session_id(text: &str) -> Result<String, String> {
    let ok = (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    if ok {
        Ok(text.to_owned())
    } else {
        Err("expected 1 to 64 of letters, digits, `.`, `_`, `-`".to_owned())
    }
}
