//! Claude Code's settings, key by key.

use super::*;

/// A file that belongs to nobody's `.claude`.
const ROWS: &[Row] = &[
    Row {
        settings: r#"{"sandbox": {"enabled": true}}"#,
        spec: "",
        notices: &[],
    },
    Row {
        settings: r#"{"sandbox": {"failIfUnavailable": true, "autoAllowBashIfSandboxed": true, "allowUnsandboxedCommands": false, "excludedCommands": []}}"#,
        spec: "top: sandbox = \"require\"",
        notices: &[],
    },
    Row {
        settings: r#"{"sandbox": {"failIfUnavailable": false}}"#,
        spec: "top: sandbox = \"on\"",
        notices: &[],
    },
    Row {
        settings: "{\"sandbox\": {\n\"enabled\": false,\n\"allowUnsandboxedCommands\": true,\n\"excludedCommands\": [\"docker *\"],\n\"network\": {\"strictAllowlist\": false}}}",
        spec: "",
        notices: &[
            "@/ws/s.json:2: `sandbox.enabled` = false has no effect: `--sandbox off` runs a command without the sandbox",
            "@/ws/s.json:3: `sandbox.allowUnsandboxedCommands` has no effect: no command asks its way out of this sandbox",
            "@/ws/s.json:4: `sandbox.excludedCommands` has no effect: every command runs inside",
            "@/ws/s.json:5: `sandbox.network.strictAllowlist` = false has no effect: there is nobody to ask, so hosts that are not listed are refused",
        ],
    },
    Row {
        settings: r#"{"sandbox": {"network": {"allowedDomains": ["a.example"], "deniedDomains": ["b.example"]}, "filesystem": {"allowWrite": ["~/.npm", "/@/opt"], "denyRead": ["./secret", "~/cache"]}}}"#,
        spec: "network: allowed_domains = [\"a.example\"]\nnetwork: denied_domains = [\"b.example\"]\nfilesystem: allow_write = [\"~/.npm\", \"@/opt\"]\nfilesystem: deny_read = [\"secret\", \"~/cache\"]",
        notices: &[],
    },
    // Permission rules: where each kind of path starts, and what feeds what.
    Row {
        settings: r#"{"permissions": {"allow": ["Edit(src/**)", "Edit(//@/opt/**)", "Edit(~/.npm)", "WebFetch(domain:a.example)", "Read(~/x)", "Bash(npm test)", "WebFetch", "Write(out)"], "deny": ["Edit(./.env)", "Edit(src/gen/**)", "Read(~/cache/**)", "Read(//etc/x)", "WebFetch(domain:b.example)"]}}"#,
        spec: "network: allowed_domains = [\"a.example\"]\nnetwork: denied_domains = [\"b.example\"]\nfilesystem: allow_write = [\"src\", \"@/opt\", \"~/.npm\"]\nfilesystem: deny_write = [\"./.env\", \"./src/gen\"]\nfilesystem: deny_read = [\"~/cache\", \"/etc/x\"]",
        notices: &[],
    },
    // A name without a slash is meant at any depth below the working directory.
    Row {
        settings: r#"{"permissions": {"deny": ["Read(.env)", "Read(./.env.*)", "Edit(*.pem)", "Write(secrets/)", "Read(**/id_*)"]}}"#,
        spec: "filesystem: deny_read = [\"./**/.env\", \"./.env.*\", \"./**/id_*\"]\nfilesystem: deny_write = [\"./**/*.pem\", \"./**/secrets\"]",
        notices: &[],
    },
    Row {
        settings: "{\"permissions\": {\"allow\": [\"Edit(*.md)\",\n\"Edit(out)\", \"WebFetch(domain:*)\"],\n\"deny\": [\"Bash(curl:*)\", \"Bash(wget:*)\", \"mcp__x\", \"WebSearch\", \"Read(!x)\"],\n\"ask\": [\"Edit(./x)\", \"Bash\"]}}",
        spec: "filesystem: allow_write = [\"out\"]",
        notices: &[
            "@/ws/s.json:1: `*.md` grants nothing: a pattern opens no path here",
            "@/ws/s.json:2: `*` allows nothing here: name the hosts",
            "@/ws/s.json:3: `!x` has no effect: what is closed stays closed",
            "@/ws/s.json:3: of `permissions.deny` this does not hold here, only in the agent: `Bash(curl:*)`, `Bash(wget:*)`, `mcp__x` and 1 more",
            "@/ws/s.json:4: `permissions.ask` has no effect: nobody is asked in this sandbox (`Edit(./x)` and 1 more)",
        ],
    },
    Row {
        settings: r#"{"permissions": {"additionalDirectories": ["~/cache", "out", "@/opt", "gone"], "defaultMode": "plan"}, "model": "x", "hooks": {}}"#,
        spec: "filesystem: allow_write = [\"~/cache\", \"out\", \"@/opt\"]",
        notices: &["@/ws/s.json:1: `gone` grants nothing: nothing exists there"],
    },
    Row {
        settings: r#"{"permissions": {"blockReadsOutsideWorkingDirectories": true, "additionalDirectories": ["~/cache"]}}"#,
        spec: "[filesystem]\nview = \"bound\"\nallow_write = [\"~/cache\"]\n[network]\nbaseline = false\n",
        notices: &[],
    },
    Row {
        settings: r#"{"permissions": {"blockReadsOutsideWorkingDirectories": false}, "sandbox": {"enableWeakerNetworkIsolation": true, "allowAppleEvents": true, "filesystem": {"disabled": true}}}"#,
        spec: "macos: weaker_network_isolation = true\nmacos: allow_apple_events = true\nfilesystem: disabled = true",
        notices: &["`filesystem.disabled` (@/ws/s.json:1): no path rule holds"],
    },
];

#[test]
fn each_setting_is_the_line_of_a_spec() {
    for row in ROWS {
        let p = compare("s.json", row);
        assert!(p.fs.cwd_writable, "{}", row.settings);
    }
}

/// In a project's `.claude` paths of the file start at the project, in the user's at `~/.claude`.
#[test]
fn where_paths_start() {
    let settings = r#"{"sandbox": {"filesystem": {"denyWrite": ["./a", "b", "*.c"]}}, "permissions": {"deny": ["Edit(/d)", "Edit(./e)", "Edit(~/f)"]}}"#;
    let lab = Lab::new();
    let root = lab.root();
    let home = root.join("home");
    for (name, start) in [
        ("../proj[1]/.claude/settings.json", root.join("proj[1]")),
        ("../home/.claude/settings.json", home.join(".claude")),
        ("settings.json", root.join("ws")),
    ] {
        let lab = Lab::new();
        let other = lab.root();
        let there = |p: std::path::PathBuf| other.join(p.strip_prefix(&root).unwrap());
        lab.write(name.trim_start_matches("../"), settings);
        let path = if let Some(rest) = name.strip_prefix("../") {
            let path = other.join(rest);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, settings).unwrap();
            path
        } else {
            lab.write("ws/settings.json", settings)
        };
        let p = lab
            .with(|r| r.specs.push(crate::spec::SpecSource::File(path)))
            .policy();
        let start = there(start);
        let mine =
            |r: &&crate::policy::Ruled<crate::policy::path::PathEntry>| r.origin.file.is_some();
        let got: Vec<_> =
            p.fs.deny_write
                .iter()
                .filter(mine)
                .filter_map(|r| r.value.exact())
                .collect();
        let cwd = there(root.join("ws"));
        let home = there(home.clone());
        assert_eq!(
            got,
            [
                start.join("a"),
                start.join("b"),
                start.join("d"),
                cwd.join("e"),
                home.join("f")
            ],
            "{name}"
        );
        let pattern =
            p.fs.deny_write
                .iter()
                .filter(mine)
                .find(|r| r.value.exact().is_none())
                .unwrap();
        let crate::policy::path::PathEntry::Pattern(pattern) = &pattern.value else {
            panic!("{pattern:?}");
        };
        assert!(pattern.matches(&start.join("x.c")), "{pattern:?}");
        assert!(!pattern.matches(&start.join("sub/x.c")), "{pattern:?}");
    }
}

/// A repository's own file neither masks nor terminates nor turns anything off, also where it is named (semantics 18).
#[test]
fn a_repository_turns_nothing_off() {
    let settings = r#"{"sandbox": {
"failIfUnavailable": false,
"enableWeakerNetworkIsolation": true,
"allowAppleEvents": true,
"network": {"tlsTerminate": {}, "allowedDomains": ["a.example"]},
"filesystem": {"disabled": true, "denyRead": ["secret"]},
"credentials": {"allowPlaintextInject": true, "files": [{"path": "x", "mode": "mask"}, {"path": "y", "mode": "deny"}],
"envVars": [{"name": "A", "mode": "mask"}], "awsPairs": []}}}"#;
    let lab = Lab::new().json(".claude/settings.json", settings);
    let p = lab.policy();
    assert_eq!((p.sandbox, p.fs.disabled), (SandboxMode::Require, false));
    assert!(!p.macos.allow_apple_events && !p.macos.weaker_network_isolation);
    assert_eq!(
        exact(&p.fs.deny_read),
        [lab.cwd().join("secret"), lab.cwd().join("y")]
    );
    assert_eq!(p.net.allowed.len(), 1);
    let lines: Vec<&str> = p
        .notices
        .iter()
        .map(|n| {
            n.rsplit_once(".json:")
                .unwrap()
                .1
                .split_once(" is ignored")
                .unwrap()
                .0
        })
        .collect();
    assert_eq!(
        lines,
        [
            "2: `sandbox.failIfUnavailable` = false",
            "3: `sandbox.enableWeakerNetworkIsolation`",
            "4: `sandbox.allowAppleEvents`",
            "5: `sandbox.network.tlsTerminate`",
            "6: `sandbox.filesystem.disabled`",
            "7: `sandbox.credentials.allowPlaintextInject`",
            "7: an entry of `sandbox.credentials.files` that masks",
            "8: an entry of `sandbox.credentials.envVars` that masks",
            "8: `sandbox.credentials.awsPairs`",
        ]
    );
    // The user's own file is trusted as typed.
    let lab = Lab::new();
    let path = lab.write(
        "home/.claude/settings.json",
        r#"{"sandbox": {"filesystem": {"disabled": true}}}"#,
    );
    let p = lab
        .with(|r| r.specs.push(crate::spec::SpecSource::File(path)))
        .policy();
    assert!(p.fs.disabled);
}

#[test]
fn slips_are_refused() {
    for (settings, says) in [
        (
            r#"{"sandbox": {}, "permisions": {"deny": ["Read(x)"]}}"#,
            "s.json:1:17: unknown key `permisions`; hint: did you mean `permissions`",
        ),
        (
            r#"{"sandbox": {"enabeld": true}}"#,
            "s.json:1:14: unknown key `enabeld` in `sandbox`; hint: did you mean `enabled`",
        ),
        (
            r#"{"permissions": {"denny": ["Read(x)"]}}"#,
            "s.json:1:18: unknown key `denny` in `permissions`; hint: did you mean `deny`",
        ),
        (
            r#"{"permissions": {"deny": ["Read(x"]}}"#,
            "s.json:1:27: `Read(x` is no rule; hint: write `Tool(what)`, such as `Edit(./src/**)`",
        ),
        (
            r#"{"permissions": {"deny": "Read(x)"}}"#,
            "s.json:1:26: `permissions.deny` must be a list, not a string",
        ),
        (
            r#"{"sandbox": {"failIfUnavailable": "true"}}"#,
            "s.json:1:35: `sandbox.failIfUnavailable` must be true or false, not a string",
        ),
        (
            r#"{"sandbox": true}"#,
            "s.json:1:13: `sandbox` must be an object, not true or false",
        ),
    ] {
        refuses("s.json", settings, says);
    }
}

#[test]
fn what_is_beside_the_sandbox_is_named_by_explain() {
    let lab = Lab::new().json("s.json", r#"{"model": "x", "sandbox": {"enabledPlatforms": ["macos"]}, "permissions": {"defaultMode": "plan", "allow": ["Read(x)"]}}"#);
    let loaded = lab.load().unwrap();
    let note = loaded.layers.iter().find_map(|l| l.note.clone());
    assert_eq!(
        note.as_deref(),
        Some(
            "settings of Claude Code; not about what a command may do: `model`, `sandbox.enabledPlatforms`, `permissions.defaultMode`, `Read(…) in permissions.allow`"
        )
    );
    assert_eq!(loaded.policy.notices, [""; 0]);
}
