//! srt's settings, key by key.

use super::*;

const ROWS: &[Row] = &[
    Row {
        settings: r#"{"network": {}, "filesystem": {}}"#,
        spec: "",
        notices: &[],
    },
    Row {
        settings: r#"{"network": {"allowedDomains": ["*.a.example", "b.example:443", "[::1]:8080"], "deniedDomains": ["*:22", "c.a.example"]}}"#,
        spec: "network: allowed_domains = [\"*.a.example\", \"b.example:443\", \"[::1]:8080\"]\nnetwork: denied_domains = [\"*:22\", \"c.a.example\"]",
        notices: &[],
    },
    Row {
        settings: r#"{"network": {"allowedDomains": ["localhost", "127.0.0.1", "*"]}}"#,
        spec: "network: allowed_domains = [\"127.0.0.1\"]",
        notices: &[
            "@/ws/s.json:1: `localhost` allows nothing here: it would open every port of this machine's loopback; name the port, `localhost:PORT`",
            "@/ws/s.json:1: `*` allows nothing here: name the hosts",
        ],
    },
    Row {
        settings: "{\"network\": {\n\"deniedDomainReasons\": {\"x.example\": \"because\"}, \"deniedDomains\": [\"x.example\"]}}",
        spec: "network: denied_domains = [\"x.example\"]",
        notices: &[
            "@/ws/s.json:2: `network.deniedDomainReasons` is not shown; a refusal names the rule and its line",
        ],
    },
    Row {
        settings: r#"{"network": {"strictAllowlist": false, "deniedResolvedAddresses": ["10.0.0.0/8", "fc00::/7"], "allowMachLookup": [], "refuseOpaqueTunnels": false, "requireHostMatch": false, "stripResponseHeaders": [], "ambiguousRequestTarget": "refuse"}}"#,
        spec: "",
        notices: &[],
    },
    Row {
        settings: r#"{"network": {"allowUnixSockets": ["/run/x.sock", "~/y.sock"], "allowAllUnixSockets": true, "allowLocalBinding": true, "httpProxyPort": 8080, "socksProxyPort": 1080}}"#,
        spec: "network: allow_unix_sockets = [\"/run/x.sock\", \"~/y.sock\"]\nnetwork: allow_all_unix_sockets = true\nnetwork: allow_local_binding = true\nnetwork: http_proxy_port = 8080\nnetwork: socks_proxy_port = 1080",
        notices: &[],
    },
    Row {
        settings: r#"{"network": {"allowMachLookup": ["com.apple.x"], "allowPlaintextHeaderSet": true, "ambiguousRequestTarget": "asSpelled", "allowManagedDomainsOnly": true}}"#,
        spec: "",
        notices: &[
            "@/ws/s.json:1: `network.allowMachLookup` opens no service: ccbox has a fixed list of those a command needs",
            "@/ws/s.json:1: `network.allowPlaintextHeaderSet` has no effect: no header is set",
            "@/ws/s.json:1: `network.ambiguousRequestTarget` has no effect: an ambiguous target is refused",
            "@/ws/s.json:1: `network.allowManagedDomainsOnly` has no effect here: `managed.allow_managed_domains_only` stands in the managed file of ccbox",
        ],
    },
    Row {
        settings: r#"{"network": {"parentProxy": {"https": "http://proxy.example:3128", "http": "http://proxy.example:3128"}}}"#,
        spec: "network: upstream_proxy = \"http://proxy.example:3128\"",
        notices: &[],
    },
    // Relative paths start where the command does; a name is that one name.
    Row {
        settings: r#"{"filesystem": {"allowWrite": [".", "~/.npm", "@/opt", "src/**", "[id]"], "denyWrite": [".env", "~/.npm/x", "src/main.rs"], "denyRead": ["~", "~/**", "secret"], "allowRead": ["~/cache", "gone"]}}"#,
        spec: "filesystem: allow_write = [\".\", \"~/.npm\", \"@/opt\", \"src/**\", { path = \"[id]\", literal = true }]\nfilesystem: deny_write = [\"./.env\", \"~/.npm/x\", \"src/main.rs\"]\nfilesystem: deny_read = [\"~\", \"~\", \"secret\"]\nfilesystem: allow_read = [\"~/cache\", \"gone\"]",
        notices: &[],
    },
    // A grant of nothing and a pattern that grants are said; the others hold.
    Row {
        settings: "{\"filesystem\": {\"allowWrite\": [\n\"gone\",\n\"src/*.rs\", \"out\"]}}",
        spec: "filesystem: allow_write = [\"out\"]",
        notices: &[
            "@/ws/s.json:2: `gone` grants nothing: nothing exists there",
            "@/ws/s.json:3: `src/*.rs` grants nothing: a pattern opens no path here",
        ],
    },
    // Patterns are anchored; a file of that very name is meant as well; a dollar and braces are letters.
    Row {
        settings: r#"{"filesystem": {"denyWrite": ["*.key", "**/.env", "[id]", "/x/*/y", "a$b", "${HOME}", "~user"], "denyRead": ["~/*.pem", {"path": "a*", "literal": true}]}}"#,
        spec: "filesystem: deny_write = [\"./*.key\", \"./**/.env\", { path = \"[id]\", literal = true }, \"./[id]\", \"/x/*/y\", \"./a$$b\", \"./$${HOME}\", \"./~user\"]\nfilesystem: deny_read = [\"~/*.pem\", { path = \"a*\", literal = true }]",
        notices: &[],
    },
    Row {
        settings: r#"{"filesystem": {"disabled": true, "allowGitConfig": true, "allowManagedReadPathsOnly": true}}"#,
        spec: "filesystem: disabled = true",
        notices: &[
            "@/ws/s.json:1: `filesystem.allowGitConfig` has no effect: git configuration that runs programs stays closed, the rest can be written",
            "@/ws/s.json:1: `filesystem.allowManagedReadPathsOnly` has no effect: `managed.allow_managed_read_paths_only` stands in the managed file of ccbox",
            "`filesystem.disabled` (@/ws/s.json:1): no path rule holds",
        ],
    },
    Row {
        settings: r#"{"network": {}, "enableWeakerNestedSandbox": true, "allowNestedUserNamespaces": true, "git": {"safeDirectories": ["/x"]}}"#,
        spec: "",
        notices: &[
            "@/ws/s.json:1: `enableWeakerNestedSandbox` has no effect: where the whole sandbox cannot be made, the call is refused",
            "@/ws/s.json:1: `allowNestedUserNamespaces` has no effect: no command makes namespaces inside, because that is a way around protected paths",
            "@/ws/s.json:1: `git` has no effect: git's own `safe.directory` counts",
        ],
    },
    Row {
        settings: r#"{"network": {}, "enableWeakerNetworkIsolation": true, "allowAppleEvents": true, "allowPty": false, "ignoreViolations": {"*": ["x"]}, "mandatoryDenySearchDepth": 3, "ripgrep": {"command": "rg"}, "bwrapPath": "/x", "socatPath": "/y", "seccomp": {}, "windows": {}, "javaAgentJarPath": "/z"}"#,
        spec: "macos: weaker_network_isolation = true\nmacos: allow_apple_events = true",
        notices: &[],
    },
    Row {
        settings: r#"{"network": {}, "credentials": {"files": [{"path": "~/.token", "mode": "deny"}, {"path": "x[1]", "mode": "deny"}], "envVars": [{"name": "MY_TOKEN", "mode": "deny"}]}}"#,
        spec: "filesystem: deny_read = [\"~/.token\", \"./x[1]\"]\nenv: unset = [\"MY_TOKEN\"]",
        notices: &[],
    },
];

#[test]
fn each_setting_is_the_line_of_a_spec() {
    for row in ROWS {
        let p = compare("s.json", row);
        assert!(!p.fs.cwd_writable, "{}", row.settings);
    }
}

#[test]
fn what_cannot_be_held_is_refused() {
    for (settings, says) in [
        (
            r#"{"network": {"alowLocal": true}}"#,
            "s.json:1:14: unknown key `alowLocal` in `network`; hint: did you mean `allowLocalBinding`",
        ),
        (
            r#"{"filesystem": {"denyreed": []}}"#,
            "s.json:1:17: unknown key `denyreed` in `filesystem`; hint: did you mean `denyRead`",
        ),
        (
            r#"{"network": {}, "filesytem": {}}"#,
            "s.json:1:17: unknown key `filesytem`; hint: did you mean `filesystem`",
        ),
        (
            r#"{"network": {"allowedDomains": "x"}}"#,
            "s.json:1:32: `network.allowedDomains` must be a list, not a string",
        ),
        (
            r#"{"network": {"allowedDomains": [1]}}"#,
            "s.json:1:33: `an entry of network.allowedDomains` must be a string, not a number",
        ),
        (r#"{"network": {"allowedDomains": ["https://x"]}}"#, ""),
        (
            r#"{"network": {"allowLocalBinding": "false"}}"#,
            "s.json:1:35: `network.allowLocalBinding` must be true or false, not a string",
        ),
        (
            r#"{"network": {"httpProxyPort": 99999}}"#,
            "s.json:1:31: `network.http_proxy_port` must be a port from 1 to 65535",
        ),
        (
            r#"{"network": {"httpProxyPort": 1.5}}"#,
            "s.json:1:31: `network.httpProxyPort` must be a port, not a number",
        ),
        (
            r#"{"network": {"mitmProxy": {}}}"#,
            "s.json:1:14: `network.mitmProxy` is not supported: connections would go past that proxy",
        ),
        (
            r#"{"network": {"tlsTerminate": {}}}"#,
            "s.json:1:30: `network.tls_terminate` is not supported yet",
        ),
        (
            r#"{"network": {"refuseOpaqueTunnels": true}}"#,
            "s.json:1:14: `network.refuseOpaqueTunnels` is not supported: what is inside a tunnel is not looked at",
        ),
        (
            r#"{"network": {"stripResponseHeaders": ["x"]}}"#,
            "s.json:1:14: `network.stripResponseHeaders` is not supported: answers are passed on as they are",
        ),
        (
            r#"{"network": {"deniedResolvedAddresses": ["8.8.8.0/24"]}}"#,
            "s.json:1:42: `network.deniedResolvedAddresses` is not supported: only ranges that are refused anyway hold, and `8.8.8.0/24` is none",
        ),
        (
            r#"{"network": {"parentProxy": {"http": "http://a:1", "noProxy": "x"}}}"#,
            "s.json:1:29: `network.parentProxy` is not supported: two proxies and exceptions are read from the environment only; hint: set HTTP_PROXY, HTTPS_PROXY and NO_PROXY for the call instead",
        ),
        (r#"{"filesystem": {"denyWrite": ["../*.key"]}}"#, ""),
        (
            r#"{"filesystem": {"denyWrite": [{"path": "x", "literl": true}]}}"#,
            "s.json:1:45: unknown key `literl` in `filesystem.denyWrite`; hint: did you mean `literal`",
        ),
        (
            r#"{"filesystem": {"denyRead": [""]}}"#,
            "s.json:1:30: `an entry of filesystem.denyRead` holds an empty string",
        ),
        (
            r#"{"network": {}, "credentials": {"files": [{"path": "x", "mode": "mask"}]}}"#,
            "s.json:1:43: `credentials.files` is not supported yet",
        ),
        (
            r#"{"network": {}, "credentials": {"envVars": [{"nam": "x", "mode": "deny"}]}}"#,
            "s.json:1:46: unknown key `nam` in `credentials.env_vars`; hint: did you mean `name`",
        ),
        (
            r#"{"network": null}"#,
            "s.json:1:13: `network` must be an object, not null",
        ),
    ] {
        if says.is_empty() {
            let e = Lab::new().json("s.json", settings).error();
            assert!(e.contains("s.json:1:3"), "{e}");
        } else {
            refuses("s.json", settings, says);
        }
    }
}
