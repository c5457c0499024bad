//! One layer of rules, typed: what a single file or the flags say, every value with its origin.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::policy::host_rule::HostRule;
use crate::policy::path::PathEntry;
use crate::policy::{
    AllProxy, BackendChoice, Bind, Caches, EngineChoice, LimitsPolicy, Mode, NetworkMode, Ruled,
    SandboxMode, UpstreamProxy, View,
};

/// A scalar that a layer may set.
pub(super) type Scalar<T> = Option<Ruled<T>>;

/// Everything one layer says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) session_id: Scalar<String>,
    pub(super) workspace_id: Scalar<String>,
    pub(super) agent_id: Scalar<String>,
    pub(super) mode: Scalar<Mode>,
    pub(super) profile: Scalar<&'static str>,
    pub(super) workdir: Scalar<PathBuf>,
    pub(super) backend: Scalar<BackendChoice>,
    pub(super) engine: Scalar<EngineChoice>,
    pub(super) sandbox: Scalar<SandboxMode>,
    pub(super) fs: FsKeys,
    pub(super) net: NetKeys,
    pub(super) env: EnvKeys,
    pub(super) limits: LimitsPolicy,
    pub(super) exec_deny_writable: Scalar<bool>,
    pub(super) macos: MacosKeys,
    pub(super) managed: ManagedKeys,
    pub(super) builtin: BuiltinKeys,
    /// Some credential is masked, not hidden.
    pub(super) masks: bool,
}

/// Path rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FsKeys {
    pub(super) view: Scalar<View>,
    pub(super) disabled: Scalar<bool>,
    pub(super) protect_git: Scalar<bool>,
    pub(super) protect_project_config: Scalar<bool>,
    pub(super) caches: Scalar<Caches>,
    pub(super) tmp_size: Scalar<u64>,
    pub(super) binds: Vec<Ruled<Bind>>,
    pub(super) allow_write: Vec<Ruled<PathEntry>>,
    pub(super) deny_write: Vec<Ruled<PathEntry>>,
    pub(super) deny_read: Vec<Ruled<PathEntry>>,
    pub(super) allow_read: Vec<Ruled<PathEntry>>,
    pub(super) protected: Vec<Ruled<PathEntry>>,
    pub(super) runner_state_dirs: Vec<Ruled<PathEntry>>,
    pub(super) exec_grant_roots: Vec<Ruled<PathEntry>>,
    pub(super) allow_create: Vec<Ruled<PathEntry>>,
}

/// Network rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NetKeys {
    pub(super) enabled: Scalar<bool>,
    pub(super) mode: Scalar<NetworkMode>,
    pub(super) baseline: Scalar<bool>,
    pub(super) all_proxy: Scalar<AllProxy>,
    pub(super) allow_local_binding: Scalar<bool>,
    pub(super) transparent_ports: Scalar<Vec<u16>>,
    pub(super) unix_sockets: Vec<Ruled<PathEntry>>,
    pub(super) all_unix_sockets: Scalar<bool>,
    pub(super) access_log: Scalar<Option<PathBuf>>,
    pub(super) upstream: Scalar<UpstreamProxy>,
    pub(super) http_proxy_port: Scalar<u16>,
    pub(super) socks_proxy_port: Scalar<u16>,
    pub(super) allowed: Vec<Ruled<HostRule>>,
    pub(super) denied: Vec<Ruled<HostRule>>,
    /// Spellings of `denied` that were ambiguous, in words.
    pub(super) notices: Vec<String>,
}

/// `[env]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct EnvKeys {
    pub(super) set: Vec<Ruled<(OsString, OsString)>>,
    pub(super) pass: Vec<Ruled<String>>,
    pub(super) only: Scalar<bool>,
    pub(super) unset: Vec<Ruled<String>>,
}

/// `[macos]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct MacosKeys {
    pub(super) dns: Scalar<bool>,
    pub(super) allow_apple_events: Scalar<bool>,
    pub(super) keychain: Scalar<bool>,
    pub(super) weaker_network_isolation: Scalar<bool>,
}

/// `[managed]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ManagedKeys {
    pub(super) domains_only: Scalar<bool>,
    pub(super) read_paths_only: Scalar<bool>,
}

/// `[builtin]`, in the built-in profiles only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct BuiltinKeys {
    pub(super) cwd_writable: Scalar<bool>,
    pub(super) build_tool_secrets: Scalar<bool>,
    pub(super) terminal_secrets_only: Scalar<bool>,
    pub(super) env_strict: Scalar<bool>,
    pub(super) exec_deny_writable_linux: Scalar<bool>,
    pub(super) exec_deny_writable_macos: Scalar<bool>,
}

impl Keys {
    /// What counts of a project file that nobody has trusted (semantics 18): denies, and scalars at their tighter end.
    /// Written as a list of what stays, so that a new key is a grant until somebody decides otherwise.
    pub(super) fn tightening_only(self) -> Self {
        Self {
            masks: self.masks,
            mode: self.mode.filter(|m| m.value.is_read_only()),
            exec_deny_writable: self.exec_deny_writable.filter(|d| d.value),
            fs: FsKeys {
                protected: self.fs.protected,
                deny_read: self.fs.deny_read,
                deny_write: self.fs.deny_write,
                tmp_size: self.fs.tmp_size,
                ..FsKeys::default()
            },
            net: NetKeys {
                enabled: self.net.enabled.filter(|e| !e.value),
                mode: self.net.mode.filter(|m| m.value == NetworkMode::Off),
                baseline: self.net.baseline.filter(|b| !b.value),
                denied: self.net.denied,
                notices: self.net.notices,
                ..NetKeys::default()
            },
            env: EnvKeys {
                unset: self.env.unset,
                ..EnvKeys::default()
            },
            limits: self.limits,
            ..Self::default()
        }
    }

    /// What the user file adds to a given spec: its denies (semantics 17).
    pub(super) fn denies_only(self) -> Self {
        Self {
            fs: FsKeys {
                protected: self.fs.protected,
                deny_read: self.fs.deny_read,
                deny_write: self.fs.deny_write,
                ..FsKeys::default()
            },
            net: NetKeys {
                denied: self.net.denied,
                notices: self.net.notices,
                ..NetKeys::default()
            },
            env: EnvKeys {
                unset: self.env.unset,
                ..EnvKeys::default()
            },
            ..Self::default()
        }
    }

    /// Whether a key that was present still says something after [`Keys::tightening_only`].
    pub(super) fn counts_untrusted(&self, key: &str) -> bool {
        match key {
            "protected_paths"
            | "filesystem.deny_read"
            | "filesystem.deny_write"
            | "network.denied_domains"
            | "env.unset"
            | "limits.tmp"
            | "limits.memory"
            | "limits.pids"
            | "limits.cpu_seconds"
            | "limits.files"
            | "limits.wall_seconds" => true,
            "credentials.files.path"
            | "credentials.files.mode"
            | "credentials.env_vars.name"
            | "credentials.env_vars.mode" => !self.masks,
            "mode" => self.mode.is_some(),
            "network_enabled" => self.net.enabled.is_some(),
            "network.mode" => self.net.mode.is_some(),
            "network.baseline" => self.net.baseline.is_some(),
            "exec.deny_writable" => self.exec_deny_writable.is_some(),
            _ => false,
        }
    }
}
