//! How layers combine: order, floors, what an untrusted file may say, what a variable lowers.

use super::*;
use crate::policy::{BackendChoice, Caches, Mode, NetworkMode, View};

#[test]
fn lists_append_and_the_later_spec_wins_scalars() {
    let lab = Lab::new()
        .inline("mode = \"plan\"\nagent_id = \"one\"\nprotected_paths = [\"/a\"]")
        .inline("mode = \"chat\"\nprotected_paths = [\"/b\"]\n[network]\nbaseline = false");
    let p = lab.policy();
    assert_eq!((p.mode, p.agent_id.as_deref()), (Mode::Chat, Some("one")));
    assert_eq!(
        exact(&p.fs.protected),
        [PathBuf::from("/a"), PathBuf::from("/b")]
    );
    assert!(!p.net.baseline);
}

#[test]
fn flags_win_and_name_themselves() {
    let lab = Lab::new()
        .spec("mode = \"plan\"\nsession_id = \"a\"\nguest_workdir = \"/x\"")
        .with(|r| {
            r.flags = FlagRules {
                rw: vec![os("out"), os("~/o")],
                ro: vec![os("/ro/**")],
                deny_read: vec![os("secret")],
                deny_write: vec![os("./lock")],
                protect: vec![os("keep")],
                allow_host: vec!["a.example".into()],
                deny_host: vec!["b.example".into()],
                no_network: true,
                env_set: vec![os("A=b=c"), os("E=")],
                env_pass: vec!["MY_*".into()],
                chdir: Some("sub".into()),
                mode: Some("review".into()),
                backend: Some("native".into()),
                engine: Some("bwrap".into()),
                sandbox: Some("on".into()),
                session: Some("b".into()),
            };
        });
    let p = lab.policy();
    let cwd = lab.cwd();
    assert_eq!(
        exact(&p.fs.allow_write),
        [cwd.join("out"), lab.request.home.join("o")]
    );
    assert_eq!(exact(&p.fs.allow_read), [PathBuf::from("/ro")]);
    assert_eq!(exact(&p.fs.deny_read), [cwd.join("secret")]);
    assert_eq!(exact(&p.fs.deny_write), [cwd.join("lock")]);
    assert_eq!(exact(&p.fs.protected), [cwd.join("keep")]);
    assert_eq!(p.fs.allow_write[0].origin.layer, Layer::Flag("--rw"));
    assert_eq!(
        (p.mode, p.net.mode, p.sandbox),
        (Mode::Review, NetworkMode::Off, SandboxMode::On)
    );
    assert_eq!(p.session_id.as_deref(), Some("b"));
    assert_eq!(
        p.workdir.as_ref().map(|w| w.value.clone()),
        Some(cwd.join("sub"))
    );
    assert_eq!(p.env.set[0].value, (os("A"), os("b=c")));
    assert_eq!(p.env.set[1].value, (os("E"), os("")));
    assert_eq!(p.profile, "dispatch", "flags change no profile");
    assert_eq!(
        p.notices,
        ["the network is off (`--no-network`), so the allow rules for hosts have no effect"]
    );
    assert_eq!(
        p.net.off_by.as_ref().map(|o| &o.layer),
        Some(&Layer::Flag("--no-network"))
    );
}

#[test]
fn bad_flags_are_named() {
    type Set = fn(&mut FlagRules);
    let rows: &[(Set, &str)] = &[
        (
            |f| f.rw = vec![os("/x/*")],
            "`--rw /x/*`: a pattern cannot grant anything; hint: name the directory (a trailing `/**` is fine), or write { path = \"…\", literal = true } for a name that holds `*`, `?` or `[`",
        ),
        (|f| f.rw = vec![os("")], "`--rw `: an empty path"),
        (
            |f| f.deny_write = vec![os("../*.key")],
            "`--deny-write ../*.key`: `..` in a pattern; hint: start the pattern at `/`, `~/` or `./`",
        ),
        (
            |f| f.mode = Some(String::new()),
            "unknown value `` for `--mode`; hint: one of `chat`, `review`, `plan`, `orchestrate`",
        ),
        (
            |f| f.mode = Some("reviw".into()),
            "unknown value `reviw` for `--mode`; hint: did you mean `review`",
        ),
        (
            |f| f.backend = Some("microvm".into()),
            "`--backend microvm` is not supported yet: a VM cannot be booted by this build",
        ),
        (
            |f| f.session = Some("a/b".into()),
            "`--session a/b`: a session id is 1 to 64 letters, digits, `.`, `_` or `-`",
        ),
        (
            |f| f.env_set = vec![os("NAME")],
            "`--env NAME` has no `=`; hint: `--pass-env NAME` hands the caller's value on",
        ),
        (
            |f| f.env_set = vec![os("CCBOX_X=1")],
            "`--env`: `CCBOX_X` is ccbox's own variable",
        ),
        (
            |f| f.env_pass = vec!["A B".into()],
            "`--pass-env`: `A B` is not a variable name or `PREFIX_*`",
        ),
        (
            |f| f.chdir = Some(PathBuf::new()),
            "`--chdir` without a directory",
        ),
    ];
    for (set, want) in rows {
        let lab = Lab::new().with(|r| set(&mut r.flags));
        assert_eq!(lab.error(), *want);
    }
    let lab = Lab::new().with(|r| r.profile = Some("dipatch".into()));
    assert_eq!(
        lab.error(),
        "unknown profile `dipatch`; hint: did you mean `dispatch`"
    );
}

#[test]
fn the_user_file_counts_whole_without_a_spec_and_adds_denies_to_one() {
    let user = "mode = \"plan\"\nprofile = \"strict\"\nprotected_paths = [\"/u\"]\n[filesystem]\ndeny_read = [\"/ur\"]\n\
                deny_write = [\"/uw\"]\nallow_write = [\"/ua\"]\n[network]\ndenied_domains = [\"d.example\"]\n[env]\nunset = [\"X\"]\npass = [\"Y\"]";
    let p = Lab::new().user(user).policy();
    assert_eq!((p.mode, p.profile.as_str()), (Mode::Plan, "strict"));
    assert_eq!(exact(&p.fs.allow_write), [PathBuf::from("/ua")]);
    let p = Lab::new()
        .user(user)
        .inline("protected_paths = [\"/s\"]")
        .policy();
    assert_eq!((p.mode, p.profile.as_str()), (Mode::Chat, "dispatch"));
    assert!(p.fs.allow_write.is_empty() && p.env.pass.is_empty());
    assert_eq!(
        exact(&p.fs.protected),
        [PathBuf::from("/u"), PathBuf::from("/s")]
    );
    assert_eq!(exact(&p.fs.deny_read), [PathBuf::from("/ur")]);
    assert_eq!(exact(&p.fs.deny_write), [PathBuf::from("/uw")]);
    assert_eq!((p.net.denied.len(), p.env.unset.len()), (1, 1));
}

const GREEDY: &str = "mode = \"review\"\nsandbox = \"off\"\nbackend = \"none\"\nprotected_paths = [\"./keep\"]\n\
    egress_allowlist = [\"evil.example\"]\n[[bind_mounts]]\nhost_path = \"/b\"\n[filesystem]\nallow_write = [\"/w\"]\n\
    disabled = true\ndeny_read = [\"./s\"]\n[network]\nbaseline = false\ndenied_domains = [\"d.example\"]\n[env]\n\
    pass = [\"LD_PRELOAD\"]\nunset = [\"X\"]\n";

#[test]
fn an_untrusted_project_file_only_tightens() {
    let lab = Lab::new().project(GREEDY);
    let loaded = lab.load().unwrap();
    let p = &loaded.policy;
    assert_eq!(
        (p.mode, p.sandbox, p.backend),
        (Mode::Review, SandboxMode::Require, BackendChoice::Auto)
    );
    assert_eq!(exact(&p.fs.protected), [lab.cwd().join("keep")]);
    assert_eq!(exact(&p.fs.deny_read), [lab.cwd().join("s")]);
    assert!(
        p.fs.allow_write.is_empty()
            && p.fs.binds.is_empty()
            && !p.fs.disabled
            && p.env.pass.is_empty()
    );
    assert!(p.net.allowed.is_empty() && !p.net.baseline);
    assert_eq!((p.net.denied.len(), p.env.unset.len()), (1, 1));
    let file = lab.cwd().join("ccbox.toml").display().to_string();
    assert_eq!(
        p.notices,
        [format!(
            "`{file}` is not trusted, so this is ignored: `sandbox`, `backend`, `egress_allowlist`, `bind_mounts.host_path`, \
             `filesystem.allow_write`, `filesystem.disabled`, `env.pass`; `ccbox trust {file}` accepts it"
        )]
    );
    assert_eq!(
        loaded
            .layers
            .iter()
            .map(|l| (l.layer.clone(), l.note.clone()))
            .collect::<Vec<_>>(),
        [
            (Layer::Profile("dev".into()), None),
            (
                Layer::Project { trusted: false },
                Some("7 keys ignored: the file is not trusted".into())
            ),
        ]
    );
    assert!(
        p.fs.own_files
            .iter()
            .any(|f| f.value == lab.cwd().join("ccbox.toml"))
    );
}

#[test]
fn later_work_in_an_untrusted_file_is_refused_where_it_tightens_and_ignored_where_it_grants() {
    let lab = Lab::new().project("[network]\nallow_all_unix_sockets = tru");
    assert!(lab.load().is_err(), "broken TOML stays an error");
    let lab = Lab::new().project("[network.tls_terminate]\nx = 1\n");
    assert!(lab.policy().notices[0].contains("`network.tls_terminate`"));
    let lab = Lab::new().project("[network]\nallow_all_unix_sockets = true\n");
    assert!(lab.policy().notices[0].contains("`network.allow_all_unix_sockets`"));
    let lab = Lab::new().project("[exec]\ndeny = [\"/usr/bin/sudo\"]\n");
    assert_eq!(
        lab.error(),
        "@/ws/ccbox.toml:2:8: `exec.deny` is not supported yet"
    );
    let lab = Lab::new().project("[filesystem]\ndeny_read = [\"*.key\"]\n");
    assert_eq!(lab.policy().fs.deny_read.len(), 1, "it tightens");
}

#[test]
fn a_trusted_project_file_counts_until_it_changes() {
    let lab = Lab::new().project(GREEDY);
    lab.trust();
    let p = lab.policy();
    assert_eq!(
        (p.sandbox, p.backend, p.fs.disabled),
        (SandboxMode::Off, BackendChoice::None, true)
    );
    assert_eq!(exact(&p.fs.allow_write), [PathBuf::from("/w")]);
    assert_eq!(
        p.fs.allow_write[0].origin.layer,
        Layer::Project { trusted: true }
    );
    let lab = lab.project(&format!("{GREEDY}# one more byte\n"));
    assert_eq!(lab.policy().sandbox, SandboxMode::Require);
}

#[test]
fn a_variable_that_lowers_says_so_and_a_flag_beats_it() {
    let lab = Lab::new().with(|r| r.env_sandbox = Some(os("off")));
    let p = lab.policy();
    assert_eq!(p.sandbox, SandboxMode::Off);
    assert_eq!(
        p.loud_notices,
        ["CCBOX_SANDBOX lowers the sandbox from `require` to `off`"]
    );
    let lab = lab.with(|r| r.flags.sandbox = Some("require".into()));
    let p = lab.policy();
    assert_eq!((p.sandbox, p.loud_notices.len()), (SandboxMode::Require, 0));
    let lab = Lab::new()
        .inline("sandbox = \"on\"")
        .with(|r| r.env_sandbox = Some(os("require")));
    let p = lab.policy();
    assert_eq!((p.sandbox, p.loud_notices.len()), (SandboxMode::Require, 0));
    let lab = Lab::new().with(|r| r.env_sandbox = Some(os("offf")));
    assert_eq!(
        lab.error(),
        "unknown value `offf` for CCBOX_SANDBOX; hint: did you mean `off`"
    );
    let lab = Lab::new().with(|r| r.env_sandbox = Some(os("")));
    assert_eq!(lab.policy().sandbox, SandboxMode::Require);
}

#[test]
fn a_spec_by_variable_is_a_given_spec_and_its_lowering_is_said() {
    let lab = Lab::new();
    let spec = lab.write("ws/s.toml", "sandbox = \"on\"\nprofile = \"terminal\"");
    let lab = lab
        .project("mode = \"plan\"")
        .with(|r| r.env_spec = Some(spec.into()));
    let p = lab.policy();
    assert!(p.spec_given);
    assert_eq!((p.mode, p.profile.as_str()), (Mode::Chat, "terminal"));
    assert_eq!(
        p.loud_notices,
        ["the spec of CCBOX_SPEC lowers the sandbox: sandbox = \"on\", network.mode = \"open\""]
    );
    let lab = lab.inline("mode = \"review\"");
    let p = lab.policy();
    assert_eq!(
        (p.mode, p.profile.as_str(), p.loud_notices.len()),
        (Mode::Review, "dispatch", 0)
    );
}

#[test]
fn an_open_network_takes_no_host_rule() {
    let lab = Lab::new().spec("egress_allowlist = [\"a.example\"]\nnetwork.mode = \"open\"");
    assert_eq!(
        lab.error(),
        "@/ws/spec.toml:1: the host rule `a.example` cannot hold where `network.mode` is `open`; hint: remove the rule, or set `network.mode = \"filtered\"`"
    );
    let lab = Lab::new().with(|r| {
        r.profile = Some("terminal".into());
        r.flags.deny_host = vec!["a.example".into()];
    });
    assert!(
        lab.error()
            .starts_with("`--deny-host`: the host rule `a.example` cannot hold")
    );
}

#[test]
fn what_opens_everything_is_said_once() {
    let lab = Lab::new().spec("egress_allowlist = [\"*\"]\n[filesystem]\ndisabled = true");
    let file = lab.cwd().join("spec.toml").display().to_string();
    assert_eq!(
        lab.policy().notices,
        [
            format!("the allow rule `*` ({file}:1) opens every host"),
            format!("`filesystem.disabled` ({file}:3): no path rule holds"),
        ]
    );
}

#[test]
fn managed_scalars_are_floors() {
    let managed = "mode = \"review\"\nsandbox = \"require\"\nbackend = \"native\"\n[filesystem]\nview = \"bound\"\n\
                   caches = \"none\"\ndisabled = false\n[network]\nmode = \"filtered\"\nbaseline = false\n[limits]\ntmp = \"1M\"";
    let lab = Lab::new().managed(managed).with(|r| {
        r.profile = Some("terminal".into());
        r.flags.sandbox = Some("off".into());
        r.flags.backend = Some("none".into());
    });
    let p = lab.policy();
    assert_eq!(
        (p.mode, p.sandbox, p.backend),
        (Mode::Review, SandboxMode::Require, BackendChoice::Native)
    );
    assert_eq!(
        (p.fs.view, p.fs.caches, p.net.mode),
        (View::Bound, Caches::None, NetworkMode::Filtered)
    );
    assert!(!p.net.baseline);
    assert_eq!(p.tmp_size.map(|t| t.value), Some(1 << 20));
    let file = lab.request.managed.display().to_string();
    assert!(
        p.notices.contains(&format!("`sandbox` is set by {file}:2")),
        "{:?}",
        p.notices
    );
    // A stricter choice below stays.
    let p = Lab::new()
        .managed(managed)
        .inline("mode = \"plan\"\nnetwork_enabled = false\n[limits]\ntmp = 4096")
        .policy();
    assert_eq!(
        (p.mode, p.net.mode, p.tmp_size.map(|t| t.value)),
        (Mode::Plan, NetworkMode::Off, Some(4096))
    );
    // A lax managed value lifts nothing.
    let p = Lab::new()
        .managed("sandbox = \"off\"\nnetwork.mode = \"open\"\nbackend = \"none\"")
        .policy();
    assert_eq!(
        (p.sandbox, p.net.mode, p.backend),
        (
            SandboxMode::Require,
            NetworkMode::Filtered,
            BackendChoice::Auto
        )
    );
}

#[test]
fn managed_locks() {
    let lab = Lab::new()
        .managed(
            "egress_allowlist = [\"m.example\"]\n[filesystem]\nallow_read = [\"/m\"]\n[managed]\n\
             allow_managed_domains_only = true\nallow_managed_read_paths_only = true",
        )
        .inline("egress_allowlist = [\"s.example\"]\n[filesystem]\nallow_read = [\"/s\"]\ndisabled = true\n[network]\ndenied_domains = [\"d.example\"]");
    let p = lab.policy();
    assert_eq!(
        p.net
            .allowed
            .iter()
            .map(|r| r.value.text.as_str())
            .collect::<Vec<_>>(),
        ["m.example"]
    );
    assert_eq!(exact(&p.fs.allow_read), [PathBuf::from("/m")]);
    assert!(!p.net.baseline && !p.fs.disabled);
    assert_eq!(p.net.denied.len(), 1);
    assert_eq!(p.net.managed_only.as_ref().and_then(|o| o.line), Some(5));
    assert_eq!(p.net.off_by, None);
    // The managed layer is the one to ask where it turns the network off.
    let off = Lab::new().managed("network_enabled = false").policy();
    assert_eq!(off.net.off_by.map(|o| o.layer), Some(Layer::Managed));
    assert_eq!(
        p.notices,
        [
            "`filesystem.disabled` has no effect: the managed settings hold path rules",
            "`allow_read` counts only from the managed settings",
            "allow rules for hosts count only from the managed settings",
        ]
    );
}

#[test]
fn managed_files_take_no_personal_keys_and_no_parameters() {
    let lab = Lab::new().managed("mode = \"plan\"\nprofile = \"dev\"");
    assert_eq!(
        lab.error(),
        "@/etc/ccbox/managed.toml:2: `profile` has no place in the managed settings"
    );
    let lab = Lab::new()
        .managed("protected_paths = [\"${param:X}\"]")
        .with(|r| r.params = vec![("X".into(), "/x".into())]);
    assert!(
        lab.error().contains("unknown parameter `X`"),
        "{}",
        lab.error()
    );
}

#[test]
fn a_project_hides_credentials_untrusted_and_masks_none() {
    let deny = "[[credentials.files]]\npath = \"~/.token\"\nmode = \"deny\"\n[[credentials.env_vars]]\nname = \"TOKEN\"\nmode = \"deny\"\n";
    let lab = Lab::new().project(deny);
    let p = lab.policy();
    assert_eq!(exact(&p.fs.deny_read), [lab.request.home.join(".token")]);
    assert_eq!(p.env.unset[0].value, "TOKEN");
    assert_eq!(p.notices, [""; 0]);
    let mask = "[[credentials.files]]\npath = \"~/.token\"\nmode = \"mask\"\n";
    let p = Lab::new().project(mask).policy();
    assert_eq!(exact(&p.fs.deny_read).len(), 0);
    assert!(
        p.notices[0].contains("credentials.files.mode"),
        "{:?}",
        p.notices
    );
}
