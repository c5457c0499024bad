//! Merged, still abstract rules: what the layers ask for, with the origin of each rule.
//!
//! Pure: no file system, no environment, no clock. Depends on nothing else in this crate.

pub mod address;
pub mod egress;
pub mod environment;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
pub mod host;
pub mod host_rule;
pub mod path;
pub mod pattern;
pub mod upstream;

use std::ffi::OsString;
use std::path::PathBuf;

use host_rule::HostRule;
use path::PathEntry;

/// Where a rule was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The kind of layer that holds the rule.
    pub layer: Layer,
    /// The file, for layers that are files.
    pub file: Option<PathBuf>,
    /// 1-based line in `file`.
    pub line: Option<u32>,
}

/// Kinds of layers, from the weakest to the strongest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layer {
    /// A rule that ccbox itself carries; the string names the table (`secrets`, `mandatory`, `metadata`, `baseline`).
    BuiltIn(&'static str),
    /// A built-in profile by name.
    Profile(String),
    /// `$XDG_CONFIG_HOME/ccbox/config.toml`.
    User,
    /// A discovered `ccbox.toml` or `.ccbox.toml`; `trusted` after `ccbox trust`.
    Project {
        /// Whether the file's hash is on record.
        trusted: bool,
    },
    /// A file given with `-f`, `-p` or `CCBOX_SPEC`.
    Spec,
    /// A command-line flag, by its name (`--rw`).
    Flag(&'static str),
    /// `/etc/ccbox/managed.toml`.
    Managed,
}

/// A value with the place it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruled<T> {
    /// The value.
    pub value: T,
    /// Where it was written.
    pub origin: Origin,
}

/// `mode`: `chat` keeps binds writable as declared, the others make every grant read-only (R21).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Grants as declared.
    Chat,
    /// Read-only.
    Review,
    /// Read-only.
    Plan,
    /// Read-only.
    Orchestrate,
}

impl Mode {
    /// True where every grant is read-only except `runner_state_dirs` and `$TMPDIR` (semantics 4).
    #[must_use]
    pub fn is_read_only(self) -> bool {
        !matches!(self, Self::Chat)
    }
}

/// `backend`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackendChoice {
    /// Unset: `native` where available.
    Auto,
    /// bubblewrap or the built-in engine on Linux, Seatbelt on macOS.
    Native,
    /// No isolation; the environment is still scrubbed.
    None,
    /// A micro VM; never a silent fallback (R13).
    MicroVm,
}

impl BackendChoice {
    /// The lenient reading of a name stored by another program (R10): `docker` was once an alias of `native`, anything
    /// unknown or empty isolates nothing. Typed values are never read this way.
    #[must_use]
    pub fn from_stored_name(name: &str) -> Self {
        match name {
            "auto" => Self::Auto,
            "native" | "docker" => Self::Native,
            "microvm" => Self::MicroVm,
            _ => Self::None,
        }
    }
}

/// `--engine`: which Linux executor of the native backend runs the plan (D3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineChoice {
    /// The best that works here.
    Auto,
    /// bubblewrap.
    Bwrap,
    /// The in-process engine.
    Builtin,
    /// Landlock without user namespaces.
    Landlock,
}

/// `sandbox` / `--sandbox` / `CCBOX_SANDBOX` (R12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxMode {
    /// Fail closed when no backend is available.
    Require,
    /// Wrap where possible, say loudly where not.
    On,
    /// Run under `none`, say so.
    Off,
}

/// `filesystem.view` (R22, semantics 11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Binds plus read-only system directories.
    Bound,
    /// Everything readable except secrets.
    Host,
}

/// `filesystem.caches` (semantics 45).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caches {
    /// Private writable copy-on-write directories kept between runs.
    Private,
    /// No cache directories.
    None,
    /// The host's own caches, writable (trusted layers only).
    Shared,
}

/// One `[[bind_mounts]]` entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    /// Absolute path on the host, lexically normal, symlinks kept.
    pub host_path: PathBuf,
    /// Path inside; the host path where unset.
    pub guest_path: Option<PathBuf>,
    /// Read-only in every mode.
    pub read_only: bool,
}

/// `[filesystem]`, `bind_mounts`, `protected_paths` and their kin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FsPolicy {
    /// Bound or host view.
    pub view: View,
    /// `filesystem.disabled`: every path rule falls (semantics 16).
    pub disabled: bool,
    /// The git preset is on.
    pub protect_git: bool,
    /// Second tier of mandatory names.
    pub protect_project_config: bool,
    /// Cache directories.
    pub caches: Caches,
    /// `bind_mounts`, in order.
    pub binds: Vec<Ruled<Bind>>,
    /// `allow_write` and `--rw`; exact entries only.
    pub allow_write: Vec<Ruled<PathEntry>>,
    /// `deny_write` and `--deny-write`.
    pub deny_write: Vec<Ruled<PathEntry>>,
    /// `--trace`: opens for reading are watched.
    pub trace: bool,
    /// `deny_read` and `--deny-read`; the built-in secrets are added by the planner, not here.
    pub deny_read: Vec<Ruled<PathEntry>>,
    /// `allow_read` and `--ro`; exact entries only.
    pub allow_read: Vec<Ruled<PathEntry>>,
    /// `protected_paths` and `--protect`.
    pub protected: Vec<Ruled<PathEntry>>,
    /// `runner_state_dirs`; exact entries only.
    pub runner_state_dirs: Vec<Ruled<PathEntry>>,
    /// `exec_grant_roots`; exact entries only.
    pub exec_grant_roots: Vec<Ruled<PathEntry>>,
    /// `allow_create`: exceptions to built-in name globs.
    pub allow_create: Vec<Ruled<PathEntry>>,
    /// Files ccbox itself reads or writes (spec, config, events, logs): never writable inside.
    pub own_files: Vec<Ruled<PathBuf>>,
    /// `workspace` of zero-config use: the cwd is writable (profile `dev`), subject to semantics 10.
    pub cwd_writable: bool,
    /// Secrets table row groups switched by profile: `dispatch` and `strict` also deny build-tool settings (semantics 22).
    pub deny_build_tool_secrets: bool,
    /// `terminal`: the planner adds no secrets of its own; the reads of R27 stand in the profile's `deny_read`.
    pub terminal_secrets_only: bool,
}

/// `[macos]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MacosPolicy {
    /// Name resolution by the system's resolver.
    pub dns: bool,
    /// Apple events may be sent.
    pub allow_apple_events: bool,
    /// The daemons that hold keys, tickets and accounts may be asked.
    pub keychain: bool,
    /// The trust daemon may be asked.
    pub weaker_network_isolation: bool,
}

/// `network.mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkMode {
    /// Proxies with the allow list.
    Filtered,
    /// Proxies with an empty allow list (R44).
    Off,
    /// The host's network, unfiltered (trusted layers, `terminal`).
    Open,
}

/// What `ALL_PROXY` holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllProxy {
    /// `http://…` (default: a SOCKS address there breaks common Python clients at import).
    Http,
    /// `socks5h://…`.
    Socks,
}

/// `network.upstream_proxy`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpstreamProxy {
    /// As `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` of the caller say (R46).
    Env,
    /// Allowed hosts are dialled directly.
    None,
    /// This one.
    Url(upstream::ProxyUrl),
}

/// `http_proxy_port` and `socks_proxy_port`: proxies of the caller that take the place of ours, with rules of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserProxies {
    /// Named in the HTTP variables.
    pub http: Option<Ruled<u16>>,
    /// Named in the SOCKS variables.
    pub socks: Option<Ruled<u16>>,
}

impl UserProxies {
    /// Both, under the names of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Ruled<u16>)> {
        let http = self.http.iter().map(|p| ("http_proxy_port", p));
        http.chain(self.socks.iter().map(|p| ("socks_proxy_port", p)))
    }
}

/// `[network]` and `egress_allowlist`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkPolicy {
    /// Filtered, off or open.
    pub mode: NetworkMode,
    /// The curated baseline and GitHub are allowed too.
    pub baseline: bool,
    /// Allow rules of every layer.
    pub allowed: Vec<Ruled<HostRule>>,
    /// Deny rules of every layer (the fixed deny list is added by `egress`).
    pub denied: Vec<Ruled<HostRule>>,
    /// What `ALL_PROXY` holds.
    pub all_proxy: AllProxy,
    /// `allow_local_binding` (macOS only).
    pub allow_local_binding: bool,
    /// Ports on which connections without a proxy are caught; an empty list is off, none is those of [`egress::Catchment`].
    pub transparent_ports: Option<Vec<u16>>,
    /// The caller's proxies in place of ours.
    pub user_proxies: UserProxies,
    /// Unix sockets of others that may be connected to: sockets, and directories of them. Exact entries only.
    pub unix_sockets: Vec<Ruled<PathEntry>>,
    /// Where each connection is written down.
    pub access_log: Option<Ruled<PathBuf>>,
    /// All that are shown may be (`allow_all_unix_sockets`); who said so.
    pub all_unix_sockets: Option<Origin>,
    /// What turned the network off, where it is off.
    pub off_by: Option<Origin>,
    /// `managed.allow_managed_domains_only`, where it is set: what else allows a host has no effect.
    pub managed_only: Option<Origin>,
    /// Where the hint for a refused host points: the file a user would edit, if there is one.
    pub hint_file: Option<PathBuf>,
}

/// `[env]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EnvPolicy {
    /// Set after scrubbing.
    pub set: Vec<Ruled<(OsString, OsString)>>,
    /// Names or `PREFIX_*` that pass in addition to the default set.
    pub pass: Vec<Ruled<String>>,
    /// The default set is off.
    pub only: bool,
    /// Names removed at the end.
    pub unset: Vec<Ruled<String>>,
    /// `strict`: search paths, tool choices and secrets by name are dropped too.
    pub strict: bool,
}

/// `[limits]` but for `tmp`. What is not set is not limited.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LimitsPolicy {
    /// Bytes of memory.
    pub memory: Option<Ruled<u64>>,
    /// Processes and threads at once.
    pub pids: Option<Ruled<u64>>,
    /// Seconds of processor time.
    pub cpu_seconds: Option<Ruled<u64>>,
    /// Open descriptors of a process.
    pub files: Option<Ruled<u64>>,
    /// Seconds the run may take.
    pub wall_seconds: Option<Ruled<u64>>,
}

impl LimitsPolicy {
    /// All of them, under the names of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Ruled<u64>)> {
        [
            ("memory", &self.memory),
            ("pids", &self.pids),
            ("cpu_seconds", &self.cpu_seconds),
            ("files", &self.files),
            ("wall_seconds", &self.wall_seconds),
        ]
        .into_iter()
        .filter_map(|(name, limit)| limit.as_ref().map(|l| (name, l)))
    }

    /// A stronger layer over this one. Nobody has trusted an untrusted project file to raise anything (semantics 18).
    pub fn override_with(&mut self, other: Self) {
        self.merge(other, |old, new| {
            matches!(new.origin.layer, Layer::Project { trusted: false }) && old.value <= new.value
        });
    }

    /// A ceiling: the lower value holds.
    pub fn cap(&mut self, ceiling: Self) {
        self.merge(ceiling, |old, new| old.value < new.value);
    }

    fn merge(&mut self, other: Self, stays: impl Fn(&Ruled<u64>, &Ruled<u64>) -> bool) {
        let pairs = [
            (&mut self.memory, other.memory),
            (&mut self.pids, other.pids),
            (&mut self.cpu_seconds, other.cpu_seconds),
            (&mut self.files, other.files),
            (&mut self.wall_seconds, other.wall_seconds),
        ];
        for (old, new) in pairs {
            if let Some(new) = new
                && !old.as_ref().is_some_and(|old| stays(old, &new))
            {
                *old = Some(new);
            }
        }
    }
}

/// The merged policy of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Given or generated later by the session.
    pub session_id: Option<String>,
    /// Free text for events.
    pub workspace_id: Option<String>,
    /// Free text for events.
    pub agent_id: Option<String>,
    /// Name of the base profile.
    pub profile: String,
    /// A spec was given (`-f`, `-p`, `CCBOX_SPEC`): matters for nesting (semantics 46).
    pub spec_given: bool,
    /// Mode.
    pub mode: Mode,
    /// Backend as asked.
    pub backend: BackendChoice,
    /// Engine as asked.
    pub engine: EngineChoice,
    /// Require, on, off.
    pub sandbox: SandboxMode,
    /// Working directory inside: `--chdir`, else `guest_workdir`; the caller's cwd where unset.
    pub workdir: Option<Ruled<PathBuf>>,
    /// File system rules.
    pub fs: FsPolicy,
    /// Network rules.
    pub net: NetworkPolicy,
    /// Environment rules.
    pub env: EnvPolicy,
    /// The caller's own proxy, behind ours.
    pub upstream: UpstreamProxy,
    /// `limits.tmp`: bytes of the private /tmp. From an untrusted project file it may lower the default, never raise it.
    pub tmp_size: Option<Ruled<u64>>,
    /// What the run may use.
    pub limits: LimitsPolicy,
    /// Programs in writable trees cannot be executed, but for `exec_grant_roots` (semantics 15).
    pub exec_deny_writable: bool,
    /// What only macOS has.
    pub macos: MacosPolicy,
    /// Things the user must be told once, in final wording, without prefix.
    pub notices: Vec<String>,
    /// As `notices`, but `-q` does not drop them: something was lowered by a variable, or nothing is isolated.
    pub loud_notices: Vec<String>,
}

impl Policy {
    /// The policy that grants nothing: bound view, network off, no caches, no rules. Layers are merged into it.
    #[must_use]
    pub fn closed(profile: &str) -> Self {
        Self {
            session_id: None,
            workspace_id: None,
            agent_id: None,
            profile: profile.to_owned(),
            spec_given: false,
            mode: Mode::Chat,
            backend: BackendChoice::Auto,
            engine: EngineChoice::Auto,
            sandbox: SandboxMode::Require,
            workdir: None,
            fs: FsPolicy {
                view: View::Bound,
                disabled: false,
                protect_git: true,
                protect_project_config: false,
                caches: Caches::None,
                binds: Vec::new(),
                allow_write: Vec::new(),
                deny_write: Vec::new(),
                trace: false,
                deny_read: Vec::new(),
                allow_read: Vec::new(),
                protected: Vec::new(),
                runner_state_dirs: Vec::new(),
                exec_grant_roots: Vec::new(),
                allow_create: Vec::new(),
                own_files: Vec::new(),
                cwd_writable: false,
                deny_build_tool_secrets: true,
                terminal_secrets_only: false,
            },
            net: NetworkPolicy {
                mode: NetworkMode::Off,
                baseline: false,
                allowed: Vec::new(),
                denied: Vec::new(),
                all_proxy: AllProxy::Http,
                allow_local_binding: false,
                transparent_ports: None,
                user_proxies: UserProxies::default(),
                unix_sockets: Vec::new(),
                all_unix_sockets: None,
                access_log: None,
                off_by: None,
                managed_only: None,
                hint_file: None,
            },
            env: EnvPolicy::default(),
            upstream: UpstreamProxy::Env,
            tmp_size: None,
            limits: LimitsPolicy::default(),
            exec_deny_writable: false,
            macos: MacosPolicy {
                dns: true,
                allow_apple_events: false,
                keychain: false,
                weaker_network_isolation: false,
            },
            notices: Vec::new(),
            loud_notices: Vec::new(),
        }
    }
}
