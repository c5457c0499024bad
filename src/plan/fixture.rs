//! Made-up machines and policies for tests of the planner and of the engines.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{Plan, PlanError};
use crate::host::fs_view::{FakeEntry, FakeFs};
use crate::host::{BrokerHost, HostFacts};
use crate::policy::path::PathEntry;
use crate::policy::{
    AllProxy, BackendChoice, Bind, Caches, EngineChoice, EnvPolicy, FsPolicy, Layer, Mode,
    NetworkMode, NetworkPolicy, Origin, Policy, Ruled, SandboxMode, UserProxies, View,
};

pub(crate) fn origin(line: u32) -> Origin {
    Origin {
        layer: Layer::Spec,
        file: Some(PathBuf::from("/spec/spec.toml")),
        line: Some(line),
    }
}

pub(crate) fn layer(layer: Layer) -> Origin {
    Origin {
        layer,
        file: None,
        line: None,
    }
}

pub(crate) fn entry(path: &str) -> Ruled<PathEntry> {
    Ruled {
        value: PathEntry::Exact(PathBuf::from(path)),
        origin: origin(1),
    }
}

pub(crate) fn bind(path: &str, read_only: bool) -> Ruled<Bind> {
    Ruled {
        value: Bind {
            host_path: PathBuf::from(path),
            guest_path: None,
            read_only,
        },
        origin: origin(2),
    }
}

pub(crate) fn bind_at(path: &str, guest: &str, read_only: bool) -> Ruled<Bind> {
    let mut b = bind(path, read_only);
    b.value.guest_path = Some(PathBuf::from(guest));
    b
}

/// A spec's policy: bound view, nothing granted.
pub(crate) fn dispatch() -> Policy {
    Policy {
        session_id: None,
        workspace_id: None,
        agent_id: None,
        profile: "dispatch".to_owned(),
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
            caches: Caches::Private,
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
        notices: Vec::new(),
        ..Policy::closed("dispatch")
    }
}

/// Zero-config use: host view, the working directory writable.
pub(crate) fn dev() -> Policy {
    let mut p = dispatch();
    "dev".clone_into(&mut p.profile);
    p.spec_given = false;
    p.fs.view = View::Host;
    p.fs.cwd_writable = true;
    p.fs.deny_build_tool_secrets = false;
    p
}

/// The terminal profile.
pub(crate) fn terminal(home: &str) -> Policy {
    let mut p = dev();
    "terminal".clone_into(&mut p.profile);
    p.fs.caches = Caches::Shared;
    p.fs.terminal_secrets_only = true;
    p.net.mode = NetworkMode::Open;
    p.fs.allow_write.push(Ruled {
        value: PathEntry::Exact(PathBuf::from(home)),
        origin: layer(Layer::Profile("terminal".to_owned())),
    });
    p
}

fn vars(list: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    list.iter()
        .map(|(k, v)| (OsString::from(k), OsString::from(v)))
        .collect()
}

/// uid 1000 at /home/me/proj.
pub(crate) fn facts() -> HostFacts {
    HostFacts {
        uid: 1000,
        gid: 1000,
        user: "me".to_owned(),
        home: PathBuf::from("/home/me"),
        home_real: PathBuf::from("/home/me"),
        cwd: PathBuf::from("/home/me/proj"),
        cwd_real: PathBuf::from("/home/me/proj"),
        hostname: "box".into(),
        env: vars(&[
            ("PATH", "/usr/bin:/bin"),
            ("HOME", "/home/me"),
            ("XDG_RUNTIME_DIR", "/run/user/1000"),
            ("LD_PRELOAD", "/tmp/evil.so"),
        ]),
        exe: PathBuf::from("/usr/bin/ccbox"),
        state_dir: PathBuf::from("/home/me/.local/state/ccbox"),
        config_dir: PathBuf::from("/home/me/.config/ccbox"),
        wsl2: false,
        nested: false,
        memory_limit: 8 << 30,
        broker: BrokerHost::Works,
    }
}

pub(crate) fn set_var(host: &mut HostFacts, name: &str, value: &str) {
    host.env.push((OsString::from(name), OsString::from(value)));
}

pub(crate) fn set_cwd(host: &mut HostFacts, cwd: &str) {
    host.cwd = PathBuf::from(cwd);
    host.cwd_real = PathBuf::from(cwd);
}

/// A merged-/usr distribution with systemd-resolved, one other user and a project with a repository.
pub(crate) fn debian() -> FakeFs {
    FakeFs::new()
        .dir("/usr/bin")
        .file("/usr/bin/ccbox", "")
        .dir("/usr/lib")
        .dir("/usr/sbin")
        .dir("/usr/lib64")
        .link("/bin", "usr/bin")
        .link("/sbin", "usr/sbin")
        .link("/lib", "usr/lib")
        .link("/lib64", "usr/lib64")
        .dir("/lost+found")
        .dir("/opt")
        .dir("/mnt")
        .dir("/srv")
        .file(
            "/etc/passwd",
            "root:x:0:0:root:/root:/bin/sh\nme:x:1000:1000::/home/me:/bin/sh\n",
        )
        .file("/etc/group", "root:x:0:\nme:x:1000:\n")
        .file("/etc/shadow", "root:*:1::::::\n")
        .link(
            "/etc/resolv.conf",
            "../run/systemd/resolve/stub-resolv.conf",
        )
        .file("/etc/ssl/certs/ca-certificates.crt", "PEM")
        .link("/etc/localtime", "/usr/share/zoneinfo/UTC")
        .file("/usr/share/zoneinfo/UTC", "TZif")
        .link("/etc/mtab", "../proc/self/mounts")
        .file(
            "/run/systemd/resolve/stub-resolv.conf",
            "nameserver 127.0.0.53\n",
        )
        .dir("/run/user/1000")
        .dir("/sys")
        .dir("/dev")
        .file("/proc/keys", "")
        .dir("/tmp")
        .dir("/var/tmp")
        .link("/var/run", "/run")
        .link("/var/lock", "/run/lock")
        .with(
            "/root",
            FakeEntry::Dir {
                uid: 0,
                mode: 0o700,
            },
        )
        .dir("/home/me")
        .with(
            "/home/other",
            FakeEntry::Dir {
                uid: 1001,
                mode: 0o755,
            },
        )
        .file("/home/me/.bashrc", "")
        .dir("/home/me/.ssh")
        .file("/home/me/.ssh/id_rsa", "KEY")
        .file("/home/me/.npmrc", "TOKEN")
        .dir("/home/me/.local/state/ccbox")
        .dir("/home/me/proj")
        .file("/home/me/proj/main.c", "")
        .dir("/home/me/proj/.git/hooks")
        .file("/home/me/proj/.git/config", "[core]\n")
        .file("/home/me/proj/.git/HEAD", "ref: refs/heads/main\n")
        .dir("/home/me/proj/.git/objects")
        .dir("/home/me/proj/.git/refs")
        .file("/spec/spec.toml", "")
}

pub(crate) fn plan(policy: &Policy, host: &HostFacts, fs: &FakeFs) -> Result<Plan, PlanError> {
    Plan::resolve(policy, host, &[OsString::from("true")], fs)
}

pub(crate) fn planned(policy: &Policy, host: &HostFacts, fs: &FakeFs) -> Plan {
    match plan(policy, host, fs) {
        Ok(p) => p,
        Err(e) => panic!("{e}"),
    }
}

pub(crate) fn can_read(plan: &Plan, path: &str) -> bool {
    super::check::read(plan, Path::new(path)).allowed
}

pub(crate) fn can_write(plan: &Plan, path: &str) -> bool {
    super::check::write(plan, &FakeFs::new(), Path::new(path)).allowed
}

/// As `can_write`, knowing what stands there.
pub(crate) fn can_write_in(plan: &Plan, fs: &FakeFs, path: &str) -> bool {
    super::check::write(plan, fs, Path::new(path)).allowed
}

/// A kernel that cannot carry the creation broker.
pub(crate) fn without_broker() -> HostFacts {
    HostFacts {
        broker: BrokerHost::Lacks("the kernel has no Landlock".to_owned()),
        ..facts()
    }
}
