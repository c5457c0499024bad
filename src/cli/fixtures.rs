//! Made-up values for this module's tests.

use crate::backend::InnerPlan;
use crate::plan::{NetworkPlan, Plan, RuleBook};
use crate::policy::egress::EgressPolicy;
use crate::policy::{
    AllProxy, BackendChoice, Caches, EngineChoice, EnvPolicy, FsPolicy, Mode, NetworkMode,
    NetworkPolicy, Policy, SandboxMode, View,
};

pub(super) fn network() -> NetworkPolicy {
    NetworkPolicy {
        mode: NetworkMode::Off,
        baseline: false,
        allowed: Vec::new(),
        denied: Vec::new(),
        all_proxy: AllProxy::Http,
        allow_local_binding: false,
        hint_file: None,
    }
}

pub(super) fn policy() -> Policy {
    Policy {
        session_id: None,
        workspace_id: None,
        agent_id: None,
        profile: "dispatch".into(),
        spec_given: true,
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
        net: network(),
        env: EnvPolicy::default(),
        notices: Vec::new(),
    }
}

pub(super) fn plan() -> Plan {
    Plan {
        mounts: Vec::new(),
        pins: Vec::new(),
        writable: Vec::new(),
        view: View::Bound,
        mode: Mode::Chat,
        fs_disabled: false,
        network: NetworkPlan {
            mode: NetworkMode::Off,
            egress: EgressPolicy::new(&network()),
            forwarded_ports: Vec::new(),
            hint_file: None,
        },
        env: Vec::new(),
        env_dropped: Vec::new(),
        cwd: "/w".into(),
        argv: vec!["true".into()],
        state_dirs: Vec::new(),
        gaps: Vec::new(),
        notices: Vec::new(),
        rules: RuleBook::default(),
    }
}

pub(super) fn inner() -> InnerPlan {
    InnerPlan {
        argv: vec!["sh".into(), "-c".into(), "echo x".into()],
        env: Vec::new(),
        cwd: "/w".into(),
        pins: Vec::new(),
        writable: Vec::new(),
        keep_fds: Vec::new(),
        confine: true,
        listen: Vec::new(),
        ignored_signals: Vec::new(),
        unix_sockets: false,
        open_network: false,
    }
}
