//! Every table and key of a spec, in the order of the documentation. What is not here is an unknown key.

use super::suggest::nearest;

/// A table and its keys; the top level is the table named "".
pub(super) type TableKeys = (&'static str, &'static [&'static str]);

/// The whole surface.
pub(super) const TABLES: &[TableKeys] = &[
    (
        "",
        &[
            "session_id",
            "workspace_id",
            "agent_id",
            "mode",
            "profile",
            "guest_workdir",
            "network_enabled",
            "egress_allowlist",
            "protected_paths",
            "runner_state_dirs",
            "exec_grant_roots",
            "backend",
            "engine",
            "sandbox",
            "bind_mounts",
            "filesystem",
            "network",
            "credentials",
            "exec",
            "managed",
            "env",
            "linux",
            "macos",
            "commands",
            "limits",
        ],
    ),
    ("bind_mounts", &["host_path", "guest_path", "read_only"]),
    (
        "filesystem",
        &[
            "view",
            "allow_write",
            "deny_write",
            "deny_read",
            "allow_read",
            "disabled",
            "protect_git",
            "protect_project_config",
            "caches",
            "allow_create",
        ],
    ),
    (
        "network",
        &[
            "allowed_domains",
            "denied_domains",
            "baseline",
            "strict_allowlist",
            "allow_unix_sockets",
            "allow_all_unix_sockets",
            "allow_local_binding",
            "mode",
            "all_proxy",
            "access_log",
            "http_proxy_port",
            "socks_proxy_port",
            "upstream_proxy",
            "transparent_ports",
            "tls_terminate",
        ],
    ),
    (
        "credentials",
        &[
            "files",
            "env_vars",
            "aws_pairs",
            "allow_plaintext_inject",
            "sigv4",
        ],
    ),
    (
        "credentials.files",
        &[
            "path",
            "mode",
            "extract",
            "decode",
            "mask_claims",
            "inject_hosts",
            "on_extract_no_match",
            "mask_duplicates",
        ],
    ),
    (
        "credentials.env_vars",
        &[
            "name",
            "mode",
            "extract",
            "decode",
            "mask_claims",
            "inject_hosts",
            "on_extract_no_match",
            "mask_duplicates",
        ],
    ),
    (
        "credentials.aws_pairs",
        &[
            "access_key_id_var",
            "secret_access_key_var",
            "session_token_var",
        ],
    ),
    ("credentials.sigv4", &["streaming", "presigned", "sigv4a"]),
    ("exec", &["deny_writable", "deny"]),
    (
        "managed",
        &[
            "allow_managed_domains_only",
            "allow_managed_read_paths_only",
        ],
    ),
    ("env", &["set", "pass", "only", "unset"]),
    ("linux", &["weaker_nested"]),
    (
        "macos",
        &[
            "dns",
            "allow_apple_events",
            "keychain",
            "weaker_network_isolation",
        ],
    ),
    ("commands", &["excluded"]),
    (
        "limits",
        &[
            "memory",
            "pids",
            "cpu_seconds",
            "files",
            "wall_seconds",
            "tmp",
        ],
    ),
];

/// What only the built-in profiles say, in a table of their own.
pub(super) const BUILTIN: TableKeys = (
    "builtin",
    &[
        "cwd_writable",
        "build_tool_secrets",
        "terminal_secrets_only",
        "env_strict",
        "exec_deny_writable_linux",
        "exec_deny_writable_macos",
    ],
);

/// CamelCase spellings of the first block of the documentation (R20), by table.
const ALIASES: &[(&str, &str, &str)] = &[
    ("", "sessionId", "session_id"),
    ("", "workspaceId", "workspace_id"),
    ("", "agentId", "agent_id"),
    ("", "bindMounts", "bind_mounts"),
    ("", "networkEnabled", "network_enabled"),
    ("", "egressAllowlist", "egress_allowlist"),
    ("", "guestWorkdir", "guest_workdir"),
    ("", "protectedPaths", "protected_paths"),
    ("", "runnerStateDirs", "runner_state_dirs"),
    ("", "execGrantRoots", "exec_grant_roots"),
    ("bind_mounts", "hostPath", "host_path"),
    ("bind_mounts", "guestPath", "guest_path"),
    ("bind_mounts", "readOnly", "read_only"),
];

/// The keys of a table.
pub(super) fn keys_of(table: &str) -> &'static [&'static str] {
    if table == BUILTIN.0 {
        return BUILTIN.1;
    }
    TABLES
        .iter()
        .find(|(name, _)| *name == table)
        .map_or(&[], |(_, keys)| keys)
}

/// The snake_case name of a key as it is spelled in a table; `None` where the table has no such key.
pub(super) fn canonical(table: &str, key: &str) -> Option<&'static str> {
    let own = keys_of(table).iter().find(|k| **k == key).copied();
    own.or_else(|| {
        ALIASES
            .iter()
            .find(|(t, alias, _)| *t == table && *alias == key)
            .map(|(_, _, key)| *key)
    })
}

/// The hint for an unknown key: its true table where it only stands in the wrong one, else the nearest spelling here,
/// else the nearest anywhere, else what this table has.
pub(super) fn hint_for(table: &str, key: &str) -> String {
    let place = |t: &str| match t {
        "" => "at the top, before the first table".to_owned(),
        "bind_mounts" | "credentials.files" | "credentials.env_vars" | "credentials.aws_pairs" => {
            format!("in `[[{t}]]`")
        }
        _ => format!("in `[{t}]`"),
    };
    let elsewhere = || TABLES.iter().filter(|(t, _)| *t != table);
    if let Some((t, _)) = elsewhere().find(|(t, _)| canonical(t, key).is_some()) {
        return format!("`{key}` belongs {}", place(t));
    }
    let here = keys_of(table);
    if let Some(meant) = nearest(key, here.iter().copied()) {
        return format!("did you mean `{meant}`");
    }
    let far = elsewhere().find_map(|(t, keys)| Some((t, nearest(key, keys.iter().copied())?)));
    match far {
        Some((t, meant)) => format!("did you mean `{meant}` {}", place(t)),
        None => format!("the keys here are `{}`", here.join("`, `")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints() {
        for (table, key, want) in [
            ("", "protcted", "did you mean `protected_paths`"),
            ("", "Network", "did you mean `network`"),
            (
                "",
                "allowed_domains",
                "`allowed_domains` belongs in `[network]`",
            ),
            ("network", "allow", "did you mean `allowed_domains`"),
            ("filesystem", "allow", "did you mean `allow_write`"),
            (
                "filesystem",
                "protected_paths",
                "`protected_paths` belongs at the top, before the first table",
            ),
            (
                "network",
                "protectedPaths",
                "`protectedPaths` belongs at the top, before the first table",
            ),
            ("", "host_path", "`host_path` belongs in `[[bind_mounts]]`"),
            ("linux", "zzz", "the keys here are `weaker_nested`"),
            (
                "",
                "deny_wriet",
                "did you mean `deny_write` in `[filesystem]`",
            ),
        ] {
            assert_eq!(hint_for(table, key), want, "[{table}] {key}");
        }
    }

    #[test]
    fn aliases_name_real_keys() {
        for (table, alias, key) in ALIASES {
            assert!(keys_of(table).contains(key), "{alias}");
            assert_eq!(canonical(table, alias), Some(*key));
        }
        assert_eq!(canonical("filesystem", "allowWrite"), None);
    }
}
