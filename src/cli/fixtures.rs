//! Made-up values for this module's tests.

use crate::backend::InnerPlan;
use crate::plan::{NetworkPlan, Plan, RuleBook};
use crate::policy::egress::EgressPolicy;
use crate::policy::{Mode, NetworkMode, Policy, View};

pub(super) fn policy() -> Policy {
    Policy::closed("dispatch")
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
            egress: EgressPolicy::new(&policy().net),
            forwarded_ports: Vec::new(),
            hint_file: None,
        },
        env: Vec::new(),
        env_scrubbed: Vec::new(),
        env_dropped: Vec::new(),
        env_listed: Vec::new(),
        cwd: "/w".into(),
        argv: vec!["true".into()],
        state_dirs: Vec::new(),
        caches: Vec::new(),
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
