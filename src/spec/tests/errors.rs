//! What a user reads when a spec is wrong. One row a message; each is one line with its place.

use super::*;

fn error_of(text: &str) -> String {
    Lab::new().spec(text).error()
}

#[test]
fn messages() {
    let long_name = "n".repeat(256);
    let rows: &[(&str, &str)] = &[
        // keys
        (
            "mode = \"chat\"\nprotcted = [\"x\"]",
            "spec.toml:2:1: unknown key `protcted`; hint: did you mean `protected_paths`",
        ),
        (
            "[Network]\nbaseline = true",
            "spec.toml:1:2: unknown key `Network`; hint: did you mean `network`",
        ),
        (
            "[network]\nallow = [\"a.example\"]",
            "spec.toml:2:1: unknown key `allow` in `network`; hint: did you mean `allowed_domains`",
        ),
        (
            "allowed_domains = [\"a.example\"]",
            "spec.toml:1:1: unknown key `allowed_domains`; hint: `allowed_domains` belongs in `[network]`",
        ),
        (
            "[filesystem]\nallowWrite = [\"x\"]",
            "spec.toml:2:1: unknown key `allowWrite` in `filesystem`; hint: did you mean `allow_write`",
        ),
        (
            "network.enabled = true",
            "spec.toml:1:9: unknown key `enabled` in `network`; hint: did you mean `network_enabled` at the top, before the first table",
        ),
        (
            "[[bind_mounts]]\nhost_path = \"/x\"\nreadonly = true",
            "spec.toml:3:1: unknown key `readonly` in `bind_mounts`; hint: did you mean `read_only`",
        ),
        (
            "protected_paths = [{ path = \"/x\", litteral = true }]",
            "spec.toml:1:35: unknown key `litteral` in `protected_paths`; hint: an entry is a string, or { path = \"…\", literal = true }",
        ),
        (
            "sessionId = \"a\"\nsession_id = \"b\"",
            "spec.toml:2:1: `sessionId` and `session_id` are two spellings of one key",
        ),
        (
            "[builtin]\ncwd_writable = true",
            "spec.toml:1:2: unknown key `builtin`; hint: the keys here are `session_id`, `workspace_id`, `agent_id`, `mode`, `profile`, `guest_workdir`, `network_enabled`, `egress_allowlist`, `protected_paths`, `runner_state_dirs`, `exec_grant_roots`, `backend`, `engine`, `sandbox`, `bind_mounts`, `filesystem`, `network`, `credentials`, `exec`, `managed`, `env`, `linux`, `macos`, `commands`, `limits`",
        ),
        // types
        (
            "[network]\nallowed_domains = \"a.example\"",
            "spec.toml:2:19: `network.allowed_domains` must be a list of host patterns, not a string; hint: write `allowed_domains = [\"a.example\"]`",
        ),
        (
            "network_enabled = \"false\"",
            "spec.toml:1:19: `network_enabled` must be true or false, not a string; hint: write `network_enabled = false` without quotes",
        ),
        (
            "network_enabled = 0",
            "spec.toml:1:19: `network_enabled` must be true or false, not an integer",
        ),
        (
            "protected_paths = [\n  \"/a\",\n  7,\n]",
            "spec.toml:3:3: an entry of `protected_paths` must be a string, not an integer",
        ),
        (
            "[network]\nallowed_domains = [\"a.example\",\n  true]",
            "spec.toml:3:3: an entry of `network.allowed_domains` must be a string, not true or false",
        ),
        (
            "[network]\ndenied_domains = [{ host = \"a.example\" }]",
            "spec.toml:2:19: an entry of `network.denied_domains` must be a string, not a table",
        ),
        (
            "[filesystem]\ndeny_read = [{ path = 3 }]",
            "spec.toml:2:23: `filesystem.deny_read.path` must be a string, not an integer",
        ),
        (
            "[env]\npass = [\"A\", [\"B\"]]",
            "spec.toml:2:14: an entry of `env.pass` must be a string, not a list",
        ),
        (
            "[network]\ntransparent_ports = [22, \"80\"]",
            "spec.toml:2:26: an entry of `network.transparent_ports` must be a port, not a string",
        ),
        (
            "filesystem = 1",
            "spec.toml:1:14: `filesystem` must be a table, not an integer; hint: write `[filesystem]` on a line of its own",
        ),
        (
            "[bind_mounts]\nhost_path = \"/x\"",
            "spec.toml:1:1: `bind_mounts` must be a list of tables, not a table; hint: write `[[bind_mounts]]` on a line of its own",
        ),
        (
            "[[bind_mounts]]\nread_only = true",
            "spec.toml:1:1: a bind mount without `host_path`",
        ),
        (
            "mode = 1979-05-27",
            "spec.toml:1:8: `mode` must be a string, not a date",
        ),
        // values
        ("mode = \"\"", "spec.toml:1:8: `mode` holds an empty string"),
        (
            "mode = \"chatt\"",
            "spec.toml:1:8: unknown value `chatt` for `mode`; hint: did you mean `chat`",
        ),
        (
            "backend = \"NATIVE \"",
            "spec.toml:1:11: unknown value `NATIVE ` for `backend`; hint: did you mean `native`",
        ),
        (
            "backend = \"docker\"",
            "spec.toml:1:11: unknown value `docker` for `backend`; hint: one of `auto`, `native`, `none`, `microvm`",
        ),
        (
            "profile = \"strikt\"",
            "spec.toml:1:11: unknown value `strikt` for `profile`; hint: did you mean `strict`",
        ),
        (
            "session_id = \"a b\"",
            "spec.toml:1:14: a session id is 1 to 64 letters, digits, `.`, `_` or `-`; hint: an example is `conv-42`",
        ),
        (
            "network_enabled = true\nnetwork.mode = \"off\"",
            "spec.toml:1:19: `network_enabled` and `network.mode` say opposite things",
        ),
        (
            "[limits]\ntmp = \"big\"",
            "spec.toml:2:7: `limits.tmp` is not a size: `big`; hint: write a number of bytes, or a string such as `\"512M\"` or `\"2G\"`",
        ),
        (
            "[limits]\ntmp = 0",
            "spec.toml:2:7: `limits.tmp` must be a whole number above 0",
        ),
        (
            "[env]\nset = { \"A=B\" = \"x\" }",
            "spec.toml:2:9: `A=B` is not a variable name",
        ),
        (
            "[env]\npass = [\"*\"]",
            "spec.toml:2:9: `*` is not a variable name or `PREFIX_*`",
        ),
        (
            "[env]\npass = [\"CCBOX_SPEC\"]",
            "spec.toml:2:9: `CCBOX_SPEC` is ccbox's own variable",
        ),
        (
            "[managed]\nallow_managed_domains_only = true",
            "spec.toml:2:30: `[managed]` only stands in the managed file",
        ),
        // paths
        (
            "protected_paths = [\"\"]",
            "spec.toml:1:20: `protected_paths` holds an empty string",
        ),
        (
            "protected_paths = [\n\"$HOME/y\"]",
            "spec.toml:2:1: `$HOME/y` in `protected_paths`: `$HOME` is not expanded in a path; hint: write `~/` for the home directory; `$$` is a literal dollar",
        ),
        (
            "[filesystem]\nallow_write = [\"/out/*.o\"]",
            "spec.toml:2:16: `/out/*.o` in `filesystem.allow_write`: a pattern cannot grant anything; hint: name the directory (a trailing `/**` is fine), or write { path = \"…\", literal = true } for a name that holds `*`, `?` or `[`",
        ),
        (
            "[filesystem]\ndeny_read = [\"../*.key\"]",
            "spec.toml:2:14: `../*.key` in `filesystem.deny_read`: `..` in a pattern; hint: start the pattern at `/`, `~/` or `./`",
        ),
        // hosts
        (
            "egress_allowlist = [\n\"a.example\",\n\"\"]",
            "spec.toml:3:1: `egress_allowlist` holds an empty string",
        ),
        (
            "egress_allowlist = [{ host = \"a.example\", private = true }]",
            "spec.toml:1:43: unknown key `private` in `egress_allowlist`; hint: an entry is a string, or { host = \"…\", allow_private = true }",
        ),
        // TOML
        (
            "mode = \"chat\"\nmode = \"plan\"",
            "spec.toml:2:1: not TOML: duplicate key",
        ),
        (
            "protected_paths = [\"/a\",",
            "spec.toml:1:25: not TOML: unclosed array, expected `]`",
        ),
        (
            "mode \"chat\"",
            "spec.toml:1:6: not TOML: key with no value, expected `=`",
        ),
        (
            "(version 1)\n(deny default)",
            "spec.toml:1:1: this is a sandbox-exec profile, not a ccbox spec; hint: run it with `sandbox-exec -f`, or write the rules as TOML: `ccbox init` prints a start",
        ),
        (
            "; a comment\n(version 1)",
            "spec.toml:1:1: this is a sandbox-exec profile, not a ccbox spec; hint: run it with `sandbox-exec -f`, or write the rules as TOML: `ccbox init` prints a start",
        ),
        (
            "{\"sandbox\": {\"x\": 1}}",
            "spec.toml:1:14: unknown key `x` in `sandbox`; hint: the keys here are `enabled`, `failIfUnavailable`, `autoAllowBashIfSandboxed`, `allowUnsandboxedCommands`, `excludedCommands`, `enabledPlatforms`, `network`, `filesystem`, `credentials`, `ignoreViolations`, `enableWeakerNestedSandbox`, `allowNestedUserNamespaces`, `enableWeakerNetworkIsolation`, `allowAppleEvents`, `allowPty`, `mandatoryDenySearchDepth`, `ripgrep`, `bwrapPath`, `socatPath`, `seccomp`, `javaAgentJarPath`, `git`, `windows`, `$schema`",
        ),
        (
            "",
            "spec.toml: the spec is empty; hint: `ccbox init` writes a commented one to start from",
        ),
        (
            "# nothing\n[network]\n",
            "spec.toml: the spec is empty; hint: `ccbox init` writes a commented one to start from",
        ),
        // later work
        (
            "backend = \"microvm\"",
            "spec.toml:1:11: `backend = \"microvm\"` is not supported yet: a VM cannot be booted by this build",
        ),
        (
            "[network.tls_terminate]",
            "spec.toml:1:1: `network.tls_terminate` is not supported yet",
        ),
        (
            "[network]\nstrict_allowlist = false",
            "spec.toml:2:20: `network.strict_allowlist = false` would ask about unlisted hosts, and there is nobody to ask; hint: add the hosts to `network.allowed_domains`",
        ),
        (
            "[network]\nhttp_proxy_port = 80800",
            "spec.toml:2:19: `network.http_proxy_port` must be a port from 1 to 65535",
        ),
        (
            "[network]\ntransparent_ports = [0]",
            "spec.toml:2:22: `network.transparent_ports` must be a port from 1 to 65535",
        ),
        (
            "[network]\nupstream_proxy = \"socks4://me:pw@proxy:1080\"",
            "spec.toml:2:18: `network.upstream_proxy`: a proxy is spoken to over `http://`, `https://` or `socks5h://`; hint: write `http://user:password@host:port`",
        ),
        (
            "[network]\nupstream_proxy = \"http://me:pw@proxy:99999\"",
            "spec.toml:2:18: `network.upstream_proxy`: no address of a proxy: not a port between 1 and 65535; hint: write `http://user:password@host:port`",
        ),
        (
            "[network]\nsocks_proxy_port = 0",
            "spec.toml:2:20: `network.socks_proxy_port` must be a whole number above 0",
        ),
        (
            "[network]\nupstream_proxy = \"envv\"",
            "spec.toml:2:18: unknown value `envv` for `network.upstream_proxy`; hint: did you mean `env`",
        ),
        (
            "[limits]\nmemory = \"much\"",
            "spec.toml:2:10: `limits.memory` is not a size: `much`; hint: write a number of bytes, or a string such as `\"512M\"` or `\"2G\"`",
        ),
        (
            "[limits]\npids = 0",
            "spec.toml:2:8: `limits.pids` must be a whole number above 0",
        ),
        (
            "[[credentials.files]]\npath = \"~/.netrc\"\nmode = \"mask\"",
            "spec.toml:1:1: `credentials.files` is not supported yet",
        ),
        (
            "[[credentials.env_vars]]\nname = \"T\"\nmode = \"msk\"",
            "spec.toml:3:8: unknown value `msk` for `credentials.env_vars.mode`; hint: did you mean `mask`",
        ),
        (
            "[commands]\nexcluded = [\"docker *\"]",
            "spec.toml:2:12: `commands.excluded` is not supported yet",
        ),
        (
            "[linux]\nweaker_nested = true",
            "spec.toml:2:17: `linux.weaker_nested` is not supported yet",
        ),
        (
            "[exec]\ndeny = [\"/usr/bin/sudo\"]",
            "spec.toml:2:8: `exec.deny` is not supported yet",
        ),
    ];
    let wrong: Vec<String> = rows
        .iter()
        .filter_map(|(text, want)| {
            let got = error_of(text);
            (got != *want).then(|| format!("spec: {text:?}\n got: {got}\nwant: {want}\n"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let got = error_of(&format!("protected_paths = [\"/a/{long_name}\"]"));
    assert!(got.starts_with("spec.toml:1:20: `/a/nnn"), "{got}");
    assert!(
        got.ends_with("`protected_paths`: a name of 256 bytes in a path, the limit is 255"),
        "{got}"
    );
}
