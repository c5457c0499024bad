//! What a well-formed spec comes to, and the forms TOML can take.

use super::*;
use crate::policy::path::PathEntry;
use crate::policy::{
    AllProxy, BackendChoice, Caches, EngineChoice, Mode, NetworkMode, UpstreamProxy, View,
};
use proptest::prelude::*;

#[test]
fn every_supported_key_arrives() {
    let lab = Lab::new().spec(
        r#"
session_id = "conv-42"
workspace_id = "ws-1"
agent_id = "reviewer"
mode = "plan"
profile = "dev"
guest_workdir = "./sub"
network_enabled = true
egress_allowlist = ["*.example.com"]
protected_paths = ["~/src/app", { path = "a[1]*", literal = true }]
runner_state_dirs = ["~/.local/state/runner"]
exec_grant_roots = ["./bin"]
backend = "native"
engine = "bwrap"
sandbox = "on"

[[bind_mounts]]
host_path = "."
guest_path = "/src"
read_only = true

[[bind_mounts]]
host_path = "/data"
guest_path = "/data"

[filesystem]
view = "host"
allow_write = ["/out/**"]
deny_write = ["./.env"]
deny_read = ["~/.ssh"]
allow_read = ["~/.ssh/known_hosts"]
disabled = false
protect_git = false
protect_project_config = true
caches = "none"
allow_create = []

[network]
allowed_domains = [{ host = "10.0.0.1:8080", allow_private = true }]
denied_domains = ["evil.example"]
baseline = false
strict_allowlist = true
allow_unix_sockets = []
allow_all_unix_sockets = false
allow_local_binding = true
mode = "filtered"
all_proxy = "socks"
access_log = ""
upstream_proxy = "none"
http_proxy_port = 8080
socks_proxy_port = 1080
transparent_ports = [22, 80, 443, 5432, 80]

[credentials]
allow_plaintext_inject = false

[exec]
deny_writable = true
deny = []

[env]
set = { A = "1", EMPTY = "" }
pass = ["LD_LIBRARY_PATH", "MY_*"]
only = true
unset = ["HOME"]

[linux]
weaker_nested = false
[macos]
dns = "off"
allow_apple_events = true
keychain = "allow"
[commands]
excluded = []
[limits]
tmp = "64M"
"#,
    );
    let p = lab.policy();
    let (cwd, home) = (lab.cwd(), lab.request.home.clone());
    assert_eq!(p.session_id.as_deref(), Some("conv-42"));
    assert_eq!(p.workspace_id.as_deref(), Some("ws-1"));
    assert_eq!(p.agent_id.as_deref(), Some("reviewer"));
    assert_eq!(
        (p.mode, p.profile.as_str(), p.spec_given),
        (Mode::Plan, "dev", true)
    );
    assert_eq!(
        p.workdir.as_ref().map(|w| w.value.clone()),
        Some(cwd.join("sub"))
    );
    assert_eq!(
        (p.backend, p.engine, p.sandbox),
        (BackendChoice::Native, EngineChoice::Bwrap, SandboxMode::On)
    );
    assert_eq!(
        exact(&p.fs.protected),
        [home.join("src/app"), cwd.join("a[1]*")]
    );
    assert_eq!(
        exact(&p.fs.runner_state_dirs),
        [home.join(".local/state/runner")]
    );
    assert_eq!(exact(&p.fs.exec_grant_roots), [cwd.join("bin")]);
    let binds: Vec<_> = p.fs.binds.iter().map(|b| b.value.clone()).collect();
    assert_eq!(binds[0].host_path, cwd);
    assert_eq!(binds[0].guest_path, Some("/src".into()));
    assert!(binds[0].read_only);
    assert_eq!(
        (binds[1].guest_path.clone(), binds[1].read_only),
        (None, false)
    );
    assert_eq!(p.fs.view, View::Host);
    assert_eq!(exact(&p.fs.allow_write), [PathBuf::from("/out")]);
    assert_eq!(exact(&p.fs.deny_write), [cwd.join(".env")]);
    assert_eq!(exact(&p.fs.deny_read), [home.join(".ssh")]);
    assert_eq!(exact(&p.fs.allow_read), [home.join(".ssh/known_hosts")]);
    assert!(!p.fs.disabled && !p.fs.protect_git && p.fs.protect_project_config);
    assert_eq!(p.fs.caches, Caches::None);
    let allowed: Vec<_> = p
        .net
        .allowed
        .iter()
        .map(|r| (r.value.text.as_str(), r.value.allow_private))
        .collect();
    assert_eq!(allowed, [("*.example.com", false), ("10.0.0.1:8080", true)]);
    assert_eq!(p.net.denied.len(), 1);
    assert_eq!(p.net.transparent_ports, Some(vec![22, 80, 443, 5432]));
    let ports: Vec<_> = p.net.user_proxies.iter().map(|(_, p)| p.value).collect();
    assert_eq!(ports, [8080, 1080]);
    assert!(!p.net.baseline && p.net.allow_local_binding);
    assert_eq!(
        (p.net.mode, p.net.all_proxy, p.upstream),
        (NetworkMode::Filtered, AllProxy::Socks, UpstreamProxy::None)
    );
    assert_eq!(p.net.hint_file, Some(cwd.join("spec.toml")));
    let set: Vec<_> = p.env.set.iter().map(|s| s.value.clone()).collect();
    assert_eq!(set, [(os("A"), os("1")), (os("EMPTY"), os(""))]);
    assert_eq!(
        p.env
            .pass
            .iter()
            .map(|s| s.value.as_str())
            .collect::<Vec<_>>(),
        ["LD_LIBRARY_PATH", "MY_*"]
    );
    assert!(p.env.only);
    assert_eq!(p.env.unset[0].value, "HOME");
    assert!(!p.macos.dns && p.macos.allow_apple_events && p.macos.keychain);
    assert_eq!(p.tmp_size.as_ref().map(|t| t.value), Some(64 << 20));
}

#[test]
fn every_array_entry_knows_its_line() {
    let lab = Lab::new()
        .spec("protected_paths = [\n  \"/a\",\n\n  { path = \"/b\" },\n  \"/c\", \"/d\",\n]\n");
    let lines: Vec<_> = lab
        .policy()
        .fs
        .protected
        .iter()
        .map(|r| r.origin.line)
        .collect();
    assert_eq!(lines, [Some(2), Some(4), Some(5), Some(5)]);
    let origin = &lab.policy().fs.protected[0].origin;
    assert_eq!(origin.layer, Layer::Spec);
    assert_eq!(origin.file, Some(lab.cwd().join("spec.toml")));
}

#[test]
fn camel_case_spellings_of_the_first_block() {
    let lab = Lab::new().spec(
        "sessionId = \"s\"\nworkspaceId = \"w\"\nagentId = \"a\"\nguestWorkdir = \"/w\"\nnetworkEnabled = false\n\
         egressAllowlist = []\nprotectedPaths = [\"/p\"]\nrunnerStateDirs = [\"/r\"]\nexecGrantRoots = [\"/e\"]\n\
         [[bindMounts]]\nhostPath = \"/h\"\nguestPath = \"/g\"\nreadOnly = true\n",
    );
    let p = lab.policy();
    assert_eq!(p.session_id.as_deref(), Some("s"));
    assert_eq!(p.net.mode, NetworkMode::Off);
    assert_eq!(exact(&p.fs.protected), [PathBuf::from("/p")]);
    let bind = &p.fs.binds[0].value;
    assert_eq!(
        (bind.guest_path.clone(), bind.read_only),
        (Some("/g".into()), true)
    );
}

#[test]
fn forms_of_one_spec_are_equal() {
    let long = "[filesystem]\nallow_write = [\"/a\"]\nview = \"host\"\n\n[[bind_mounts]]\nhost_path = \"/b\"\n";
    let want = Lab::new().spec(long).policy();
    for text in [
        "filesystem.allow_write = [\"/a\"]\nfilesystem.view = \"host\"\nbind_mounts = [{ host_path = \"/b\" }]",
        "bind_mounts = [{ host_path = '/b' }]\nfilesystem = { allow_write = ['/a'], view = 'host' } # end",
        &format!("\u{feff}{long}"),
        &long.replace('\n', "\r\n"),
        "[filesystem]\nallow_write = [\n\"/a\", # one\n]\nview = \"\"\"host\"\"\"\n[[bind_mounts]]\n\"host_path\" = \"\\u002fb\"",
    ] {
        let got = Lab::new().spec(text).policy();
        assert_eq!(
            exact(&got.fs.allow_write),
            exact(&want.fs.allow_write),
            "{text:?}"
        );
        assert_eq!(got.fs.binds[0].value, want.fs.binds[0].value, "{text:?}");
        assert_eq!(got.fs.view, want.fs.view);
    }
}

#[test]
fn spellings_of_one_path_mean_one_object() {
    let lab = Lab::new();
    let here = lab.cwd().display().to_string();
    let lab = lab.spec(format!(
        "protected_paths = [\"./prot\", \"prot/\", \"{here}//./prot\", \"../ws/prot\", \"x/../prot\"]"
    ));
    let paths = exact(&lab.policy().fs.protected);
    assert_eq!(paths, vec![lab.cwd().join("prot"); 5]);
}

#[test]
fn dots_after_a_link_deny_both_places_and_grant_none() {
    let lab = Lab::new();
    std::fs::create_dir_all(lab.root().join("far/deep")).unwrap();
    std::os::unix::fs::symlink(lab.root().join("far/deep"), lab.cwd().join("link")).unwrap();
    let deny = Lab {
        dir: lab.dir,
        request: lab.request.clone(),
    }
    .spec("protected_paths = [\"link/../x\"]");
    assert_eq!(
        exact(&deny.policy().fs.protected),
        [deny.cwd().join("x"), deny.root().join("far/x")]
    );
    deny.write(
        "ws/spec.toml",
        "[filesystem]\nallow_write = [\"link/../x\"]",
    );
    assert_eq!(
        deny.error(),
        "spec.toml:2:16: `link/../x` in `filesystem.allow_write`: `..` after a symbolic link can mean two places; hint: write the path without `..`"
    );
}

#[test]
fn relative_paths_start_at_the_directory_of_the_spec_as_given() {
    let lab = Lab::new();
    lab.write("specs/real/spec.toml", "protected_paths = [\"x\", \"~/y\"]");
    std::os::unix::fs::symlink(lab.root().join("specs/real"), lab.root().join("specs/link"))
        .unwrap();
    let lab = lab.with(|r| {
        r.specs
            .push(SpecSource::File("../specs/link/spec.toml".into()));
    });
    let p = lab.policy();
    assert_eq!(
        exact(&p.fs.protected),
        [lab.root().join("specs/link/x"), lab.request.home.join("y")]
    );
    let own: Vec<_> = p.fs.own_files.iter().map(|o| o.value.clone()).collect();
    assert_eq!(
        own,
        [
            lab.root().join("specs/link/spec.toml"),
            lab.root().join("specs/real/spec.toml")
        ]
    );
}

#[test]
fn inline_and_standard_input_start_at_the_cwd() {
    let lab = Lab::new().inline("protected_paths = [\"a\"]").with(|r| {
        r.specs.push(SpecSource::File("-".into()));
        r.stdin_spec = Some(b"protected_paths = [\"b\"]\nmode = 1".to_vec());
    });
    assert_eq!(
        lab.error(),
        "<stdin>:2:8: `mode` must be a string, not an integer"
    );
    let lab = lab.with(|r| r.stdin_spec = Some(b"protected_paths = [\"b\"]".to_vec()));
    let p = lab.policy();
    assert_eq!(
        exact(&p.fs.protected),
        [lab.cwd().join("a"), lab.cwd().join("b")]
    );
    assert_eq!(p.fs.protected[1].origin.line, Some(1));
    let real = std::fs::canonicalize("/dev/stdin")
        .ok()
        .filter(|f| f.is_file());
    let own: Vec<_> = p.fs.own_files.iter().map(|o| o.value.clone()).collect();
    assert_eq!(
        own,
        Vec::from_iter(real),
        "a file behind standard input is protected"
    );
}

#[test]
fn a_descriptor_starts_at_the_cwd_and_the_file_behind_it_is_protected() {
    use std::os::fd::AsRawFd;
    let lab = Lab::new();
    let real = lab.write("elsewhere/spec.toml", "protected_paths = [\"x\"]");
    let file = std::fs::File::open(&real).unwrap();
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let lab = lab.with(|r| r.specs.push(SpecSource::File(path)));
    let p = lab.policy();
    assert_eq!(exact(&p.fs.protected), [lab.cwd().join("x")]);
    assert!(p.fs.own_files.iter().any(|o| o.value == real));
}

#[test]
fn an_explicitly_empty_list_is_a_policy() {
    let p = Lab::new()
        .spec("[network]\nallowed_domains = []\nbaseline = false")
        .policy();
    assert!(p.net.allowed.is_empty() && !p.net.baseline);
    let p = Lab::new().spec("egress_allowlist = []").policy();
    assert_eq!(p.profile, "dispatch");
}

#[test]
fn a_pipe_is_read_once_and_starts_at_the_cwd() {
    let lab = Lab::new();
    let fifo = lab.root().join("pipe");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let writer = std::thread::spawn({
        let fifo = fifo.clone();
        move || std::fs::write(fifo, "protected_paths = [\"x\"]").unwrap()
    });
    let lab = lab.with(|r| r.specs.push(SpecSource::File(fifo)));
    assert_eq!(exact(&lab.policy().fs.protected), [lab.cwd().join("x")]);
    writer.join().unwrap();
}

#[test]
fn parameters_reach_strings_and_nothing_else() {
    let spec = "session_id = \"${param:ID}\"\nprotected_paths = [\"${param:DIR}/x\", \"./${param:DIR}\"]\n\
                [env]\nset = { V = \"<${param:RAW}>\" }\n";
    let lab = Lab::new().spec(spec).with(|r| {
        r.params = vec![
            ("ID".into(), "abc".into()),
            ("DIR".into(), "/d/a[1]*".into()),
            ("RAW".into(), "\"\n${param:ID}\\".into()),
        ];
    });
    let p = lab.policy();
    assert_eq!(p.session_id.as_deref(), Some("abc"));
    assert_eq!(
        exact(&p.fs.protected),
        [PathBuf::from("/d/a[1]*/x"), lab.cwd().join("d/a[1]*")]
    );
    assert_eq!(p.env.set[0].value.1, os("<\"\n${param:ID}\\>"));
    let lab = lab.with(|r| r.params.push(("MORE".into(), "1".into())));
    assert_eq!(
        lab.error(),
        "`-D MORE` is not used: no spec holds `${param:MORE}`"
    );
    let lab = lab.with(|r| r.params.truncate(2));
    assert_eq!(
        lab.error(),
        "spec.toml:4:13: unknown parameter `RAW`; hint: give it with `-D RAW=VALUE`"
    );
}

#[test]
fn limits_of_size() {
    let big = format!("# {}\nmode = \"chat\"", "x".repeat(1 << 20));
    assert_eq!(
        Lab::new().spec(big).error(),
        "spec.toml: the file is larger than 1048576 bytes"
    );
    let deep = format!("x = {}{}", "[".repeat(5000), "]".repeat(5000));
    let error = Lab::new().spec(deep).error();
    assert!(error.starts_with("spec.toml:1:"), "{error}");
    let many: Vec<String> = (0..10_000).map(|i| format!("\"/d/f{i}\"")).collect();
    let lab = Lab::new().spec(format!("protected_paths = [\n{}\n]", many.join(",\n")));
    let p = lab.policy();
    assert_eq!(p.fs.protected.len(), 10_000);
    assert_eq!(p.fs.protected[9_999].origin.line, Some(10_001));
}

#[test]
fn snippets_point_at_the_place() {
    let lab = Lab::new().spec("mode = \"chat\"\nprotcted = [\"x\"]\n");
    assert_eq!(
        lab.load().unwrap_err().snippet.unwrap(),
        "2 | protcted = [\"x\"]\n  | ^^^^^^^^"
    );
    let lab = Lab::new().spec(format!("protected_paths = [{} 7]", "\"/a\", ".repeat(100)));
    let snippet = lab.load().unwrap_err().snippet.unwrap();
    let (line, caret) = snippet.split_once('\n').unwrap();
    assert!(line.chars().count() < 110, "{line}");
    let at = caret.chars().position(|c| c == '^').unwrap();
    assert_eq!(line.chars().nth(at), Some('7'));
    let lab = Lab::new().spec("mode = \"\u{202e}\\u001b[31m\"");
    assert_eq!(
        lab.error(),
        "spec.toml:1:8: unknown value `\\u{202e}\\u{1b}[31m` for `mode`; hint: one of `chat`, `review`, `plan`, `orchestrate`"
    );
    assert!(
        !lab.load()
            .unwrap_err()
            .snippet
            .unwrap()
            .contains('\u{202e}')
    );
}

#[test]
fn columns_count_characters() {
    let lab = Lab::new().spec("agent_id = \"üü\"; x");
    assert!(
        lab.error().starts_with("spec.toml:1:16: not TOML"),
        "{}",
        lab.error()
    );
    let lab = Lab::new().spec(b"mode = \"chat\"\nagent_id = \"\xff\"".as_slice());
    assert_eq!(lab.error(), "spec.toml:2:13: the file is not UTF-8 text");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_text_loads_or_is_refused_on_one_line(text in "\\PC{0,60}") {
        let lab = Lab::new().inline(&text);
        if let Err(e) = lab.load() {
            prop_assert!(!e.message.contains('\n'), "{}", e.message);
            prop_assert!(!e.message.chars().any(char::is_control));
        }
    }

    #[test]
    fn any_bytes_load_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let lab = Lab::new().with(|r| {
            r.specs.push(SpecSource::File("-".into()));
            r.stdin_spec = Some(bytes);
        });
        if let Err(e) = lab.load() {
            prop_assert!(!e.message.chars().any(char::is_control));
        }
    }

    #[test]
    fn a_spec_cut_anywhere_loads_or_is_refused(at in 0usize..1500) {
        let text = include_str!("../../../examples/agent.toml");
        let cut = text.get(..at.min(text.len())).unwrap_or(text);
        let lab = Lab::new().inline(cut).with(|r| {
            r.params = vec![("WORKSPACE".into(), "/w".into()), ("SESSION".into(), "s".into())];
        });
        if let Err(e) = lab.load() {
            prop_assert!(e.message.starts_with("<-p>:") || e.message.starts_with("`-D "), "{}", e.message);
        }
    }

    #[test]
    fn strange_values_never_panic(
        key in prop_oneof![Just("mode"), Just("protected_paths"), Just("network"), Just("bind_mounts"), Just("env.set"), Just("limits.tmp")],
        value in prop_oneof![Just("[]"), Just("{}"), Just("[[]]"), Just("[{}]"), Just("\"x\""), Just("1.5"), Just("-1"), Just("[\"\\u0000\"]"), Just("{ a = [] }")],
    ) {
        let spec = format!("{key} = {value}");
        if let Err(e) = Lab::new().inline(&spec).load() {
            prop_assert!(e.message.starts_with("<-p>:"), "{}", e.message);
        }
    }

    #[test]
    fn exact_names_arrive_byte_for_byte(name in "[^/\\x00]{1,30}") {
        prop_assume!(name != "." && name != "..");
        let quoted = toml::Value::String(format!("/d/{}", name.replace('$', "$$"))).to_string();
        let lab = Lab::new().inline(&format!("protected_paths = [{{ path = {quoted}, literal = true }}]"));
        let want = PathEntry::Exact(format!("/d/{name}").into());
        prop_assert_eq!(&lab.policy().fs.protected[0].value, &want);
    }
}
