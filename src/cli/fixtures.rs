//! Made-up values for this module's tests.

use crate::backend::InnerPlan;
use crate::host::HostFacts;
use crate::plan::{NetworkPlan, Plan, RuleBook};
use crate::policy::egress::{Catchment, EgressPolicy};
use crate::policy::upstream::Chain;
use crate::policy::{Mode, NetworkMode, Policy, UserProxies, View};

pub(super) fn policy() -> Policy {
    Policy::closed("dispatch")
}

pub(super) fn plan() -> Plan {
    Plan {
        mounts: Vec::new(),
        pins: Vec::new(),
        writable: Vec::new(),
        moved: Vec::new(),
        read_floor: crate::plan::ReadFloor::default(),
        view: View::Bound,
        mode: Mode::Chat,
        fs_disabled: false,
        network: NetworkPlan {
            mode: NetworkMode::Off,
            egress: EgressPolicy::new(&policy().net),
            forwarded_ports: Vec::new(),
            catch: Catchment::default(),
            user_ports: Vec::new(),
            user_proxies: UserProxies::default(),
            upstream: Chain::default(),
            hint_file: None,
            access_log: None,
        },
        env: Vec::new(),
        env_scrubbed: Vec::new(),
        env_dropped: Vec::new(),
        env_listed: Vec::new(),
        cwd: "/w".into(),
        argv: vec!["true".into()],
        state_dirs: Vec::new(),
        caches: Vec::new(),
        broker: None,
        gaps: Vec::new(),
        refusal: None,
        notices: Vec::new(),
        rules: RuleBook::default(),
        exec: None,
    }
}

pub(super) fn inner() -> InnerPlan {
    InnerPlan {
        argv: vec!["sh".into(), "-c".into(), "echo x".into()],
        env: Vec::new(),
        cwd: "/w".into(),
        pins: Vec::new(),
        writable: Vec::new(),
        moved: Vec::new(),
        keep_fds: Vec::new(),
        confine: true,
        listen: Vec::new(),
        ignored_signals: Vec::new(),
        unix_sockets: false,
        open_network: false,
        programs: None,
        floor: None,
        read_floor: crate::plan::ReadFloor::default(),
        trap_reads: false,
        trap_sockets: false,
        alone: None,
        own_group: false,
        limits: Vec::new(),
    }
}

pub(super) fn host() -> HostFacts {
    HostFacts {
        uid: 1000,
        gid: 1000,
        user: "me".into(),
        home: "/home/me".into(),
        home_real: "/home/me".into(),
        cwd: "/w".into(),
        cwd_real: "/w".into(),
        hostname: "box".into(),
        env: Vec::new(),
        exe: "/usr/bin/ccbox".into(),
        state_dir: "/home/me/.local/state/ccbox".into(),
        config_dir: "/home/me/.config/ccbox".into(),
        wsl2: false,
        nested: false,
        memory_limit: 1 << 30,
        broker: crate::host::BrokerHost::Works,
    }
}
