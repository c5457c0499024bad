//! A TOML document to typed keys: one function a table, in the order of the documentation.

use std::ffi::OsString;
use std::path::PathBuf;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::SpecError;
use super::dots;
use super::keys::{BuiltinKeys, EnvKeys, FsKeys, Keys, MacosKeys, ManagedKeys, NetKeys, Scalar};
use super::later;
use super::ports;
use super::profile;
use super::reader::{Node, Reader, Table};
use super::source::shown;
use crate::policy::host_rule::{HostRule, HostRuleError};
use crate::policy::path::{EntryText, ListKind, PathEntry, PathEntryError, unresolved};
use crate::policy::upstream::ProxyUrl;
use crate::policy::{
    AllProxy, BackendChoice, Bind, Caches, EngineChoice, Layer, LimitsPolicy, Mode, NetworkMode,
    Ruled, SandboxMode, UpstreamProxy, View,
};

pub(super) const MODES: &[(&str, Mode)] = &[
    ("chat", Mode::Chat),
    ("review", Mode::Review),
    ("plan", Mode::Plan),
    ("orchestrate", Mode::Orchestrate),
];
pub(super) const BACKENDS: &[(&str, BackendChoice)] = &[
    ("auto", BackendChoice::Auto),
    ("native", BackendChoice::Native),
    ("none", BackendChoice::None),
    ("microvm", BackendChoice::MicroVm),
];
pub(super) const ENGINES: &[(&str, EngineChoice)] = &[
    ("auto", EngineChoice::Auto),
    ("bwrap", EngineChoice::Bwrap),
    ("builtin", EngineChoice::Builtin),
    ("landlock", EngineChoice::Landlock),
];
pub(super) const SANDBOXES: &[(&str, SandboxMode)] = &[
    ("require", SandboxMode::Require),
    ("on", SandboxMode::On),
    ("off", SandboxMode::Off),
];

/// Parses the text and reads every key. The flag says that the file holds no key at all, which is no policy either.
pub(super) fn read(reader: &Reader<'_>) -> Result<(Keys, bool), SpecError> {
    let source = reader.source;
    let document = DeTable::parse(source.text()).map_err(|e| {
        let span = e.span().unwrap_or(0..0);
        source.error(span, &format!("not TOML: {}", shown(e.message())))
    })?;
    read_table(reader, document.get_ref())
}

/// As [`read`], from a tree.
pub(super) fn read_table<'a>(
    reader: &'a Reader<'a>,
    top: &'a DeTable<'a>,
) -> Result<(Keys, bool), SpecError> {
    let is_empty = top
        .values()
        .all(|v| v.get_ref().as_table().is_some_and(DeTable::is_empty));
    let table = Table::open(reader, "", top)?;
    Ok((top_level(&table)?, is_empty))
}

fn top_level(top: &Table<'_>) -> Result<Keys, SpecError> {
    let reader = top.reader;
    let session_id = top.string("session_id")?;
    if let (Some(id), Some(node)) = (&session_id, top.entry("session_id"))
        && !is_session_id(&id.value)
    {
        return Err(reader
            .error(node.span(), SESSION_ID_RULE)
            .with_hint("an example is `conv-42`"));
    }
    let mut keys = Keys {
        session_id,
        workspace_id: top.string("workspace_id")?,
        agent_id: top.string("agent_id")?,
        mode: top.choice("mode", MODES)?,
        profile: top.choice("profile", profile::NAMES)?,
        workdir: path(top, "guest_workdir", ListKind::Grant)?,
        backend: top.choice("backend", BACKENDS)?,
        engine: top.choice("engine", ENGINES)?,
        sandbox: top.choice("sandbox", SANDBOXES)?,
        fs: filesystem(top)?,
        net: network(top)?,
        env: match top.table("env", "env")? {
            Some(table) => env(&table)?,
            None => EnvKeys::default(),
        },
        limits: match top.table("limits", "limits")? {
            Some(table) => limits(&table)?,
            None => LimitsPolicy::default(),
        },
        exec_deny_writable: match top.table("exec", "exec")? {
            Some(table) => later::exec(&table)?,
            None => None,
        },
        macos: match top.table("macos", "macos")? {
            Some(table) => macos(&table)?,
            None => MacosKeys::default(),
        },
        managed: match top.table("managed", "managed")? {
            Some(table) => managed(&table)?,
            None => ManagedKeys::default(),
        },
        builtin: match top.table("builtin", "builtin")? {
            Some(table) => builtin(&table)?,
            None => BuiltinKeys::default(),
        },
        masks: false,
    };
    later::credentials(top, &mut keys)?;
    later::engines(top, &keys);
    later::tables(top)?;
    contradictions(top, &keys)?;
    Ok(keys)
}

pub(super) const SESSION_ID_RULE: &str = "a session id is 1 to 64 letters, digits, `.`, `_` or `-`";

/// Semantics 33.
pub(super) fn is_session_id(id: &str) -> bool {
    (1..=64).contains(&id.len())
        && id
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// Two keys of one file that cannot both hold.
fn contradictions(top: &Table<'_>, keys: &Keys) -> Result<(), SpecError> {
    if let (Some(enabled), Some(mode), Some(node)) = (
        &keys.net.enabled,
        &keys.net.mode,
        top.entry("network_enabled"),
    ) && enabled.value == (mode.value == NetworkMode::Off)
    {
        return Err(top.reader.error(
            node.span(),
            "`network_enabled` and `network.mode` say opposite things",
        ));
    }
    Ok(())
}

fn filesystem(top: &Table<'_>) -> Result<FsKeys, SpecError> {
    let mut keys = FsKeys {
        binds: binds(top)?,
        protected: paths(top, "protected_paths", ListKind::Protected)?,
        runner_state_dirs: paths(top, "runner_state_dirs", ListKind::Grant)?,
        exec_grant_roots: paths(top, "exec_grant_roots", ListKind::Grant)?,
        tmp_size: match top.table("limits", "limits")? {
            Some(table) => table.size("tmp")?,
            None => None,
        },
        ..FsKeys::default()
    };
    let Some(fs) = top.table("filesystem", "filesystem")? else {
        return Ok(keys);
    };
    keys.view = fs.choice("view", &[("bound", View::Bound), ("host", View::Host)])?;
    keys.allow_write = paths(&fs, "allow_write", ListKind::Grant)?;
    keys.deny_write = paths(&fs, "deny_write", ListKind::DenyWrite)?;
    keys.deny_read = paths(&fs, "deny_read", ListKind::DenyRead)?;
    keys.allow_read = paths(&fs, "allow_read", ListKind::Grant)?;
    keys.disabled = fs.bool("disabled")?;
    keys.protect_git = fs.bool("protect_git")?;
    keys.protect_project_config = fs.bool("protect_project_config")?;
    keys.caches = fs.choice(
        "caches",
        &[
            ("private", Caches::Private),
            ("none", Caches::None),
            ("shared", Caches::Shared),
        ],
    )?;
    keys.allow_create = paths(&fs, "allow_create", ListKind::AllowCreate)?;
    Ok(keys)
}

/// `[limits]`, but for the size of the private /tmp.
fn limits(table: &Table<'_>) -> Result<LimitsPolicy, SpecError> {
    Ok(LimitsPolicy {
        memory: table.size("memory")?,
        pids: table.count("pids")?,
        cpu_seconds: table.count("cpu_seconds")?,
        files: table.count("files")?,
        wall_seconds: table.count("wall_seconds")?,
    })
}

fn binds(top: &Table<'_>) -> Result<Vec<Ruled<Bind>>, SpecError> {
    let reader = top.reader;
    top.tables("bind_mounts", "bind_mounts")?
        .into_iter()
        .map(|(table, node)| {
            let Some(host) = path(&table, "host_path", ListKind::Grant)? else {
                return Err(reader.error(node.span(), "a bind mount without `host_path`"));
            };
            let guest = path(&table, "guest_path", ListKind::Grant)?;
            Ok(Ruled {
                value: Bind {
                    guest_path: guest.map(|g| g.value).filter(|g| *g != host.value),
                    host_path: host.value,
                    read_only: table.bool("read_only")?.is_some_and(|r| r.value),
                },
                origin: host.origin,
            })
        })
        .collect()
}

fn network(top: &Table<'_>) -> Result<NetKeys, SpecError> {
    let mut keys = NetKeys {
        enabled: top.bool("network_enabled")?,
        allowed: hosts(top, "egress_allowlist")?,
        ..NetKeys::default()
    };
    let Some(net) = top.table("network", "network")? else {
        return Ok(keys);
    };
    keys.allowed.extend(hosts(&net, "allowed_domains")?);
    denied_hosts(&net, &mut keys)?;
    keys.baseline = net.bool("baseline")?;
    keys.allow_local_binding = net.bool("allow_local_binding")?;
    keys.mode = net.choice(
        "mode",
        &[
            ("filtered", NetworkMode::Filtered),
            ("off", NetworkMode::Off),
            ("open", NetworkMode::Open),
        ],
    )?;
    keys.all_proxy = net.choice(
        "all_proxy",
        &[("http", AllProxy::Http), ("socks", AllProxy::Socks)],
    )?;
    keys.upstream = upstream(&net)?;
    keys.http_proxy_port = ports::proxy(&net, "http_proxy_port")?;
    keys.socks_proxy_port = ports::proxy(&net, "socks_proxy_port")?;
    keys.transparent_ports = ports::transparent(&net)?;
    keys.unix_sockets = paths(&net, "allow_unix_sockets", ListKind::Grant)?;
    keys.all_unix_sockets = net.bool("allow_all_unix_sockets")?;
    keys.access_log = access_log(&net)?;
    later::network(&net)?;
    Ok(keys)
}

/// A file; the empty text is none.
fn access_log(net: &Table<'_>) -> Result<Scalar<Option<PathBuf>>, SpecError> {
    let Some(node) = net.get("access_log") else {
        return Ok(None);
    };
    let text = net.reader.text_or_empty("network.access_log", node, true)?;
    if text.value.is_empty() {
        return Ok(Some(net.reader.ruled(node, None)));
    }
    let file = path(net, "access_log", ListKind::Grant)?;
    Ok(file.map(|file| net.reader.ruled(node, Some(file.value))))
}

fn upstream(net: &Table<'_>) -> Result<Scalar<UpstreamProxy>, SpecError> {
    let Some(value) = net.string("upstream_proxy")? else {
        return Ok(None);
    };
    Ok(match value.value.as_str() {
        "env" => Some(Ruled {
            value: UpstreamProxy::Env,
            origin: value.origin,
        }),
        "none" => Some(Ruled {
            value: UpstreamProxy::None,
            origin: value.origin,
        }),
        url if url.contains([':', '.']) => {
            let proxy = ProxyUrl::parse(url).map_err(|why| {
                // The text is not repeated: there may be a password in it.
                let span = net.entry("upstream_proxy").map_or(0..0, Spanned::span);
                net.reader
                    .error(span, format!("`network.upstream_proxy`: {why}"))
                    .with_hint("write `http://user:password@host:port`")
            })?;
            Some(Ruled {
                value: UpstreamProxy::Url(proxy),
                origin: value.origin,
            })
        }
        // Neither word: the error names them.
        _ => {
            net.choice("upstream_proxy", &[("env", ()), ("none", ())])?;
            None
        }
    })
}

fn env(table: &Table<'_>) -> Result<EnvKeys, SpecError> {
    let reader = table.reader;
    let mut keys = EnvKeys {
        pass: env_names(table, "pass")?,
        only: table.bool("only")?,
        unset: env_names(table, "unset")?,
        ..EnvKeys::default()
    };
    if let Some(node) = table.get("set") {
        let DeValue::Table(set) = node.get_ref() else {
            return Err(reader
                .wrong_type("env.set", "a table", node)
                .with_hint("write `set = { NAME = \"value\" }`"));
        };
        let mut rows: Vec<_> = set.iter().collect();
        rows.sort_by_key(|(key, _)| key.span().start);
        for (name, value) in rows {
            let typed = name.get_ref().as_ref();
            if let Err(reason) = check_env_name(typed, false) {
                return Err(reader.error(name.span(), reason));
            }
            let text = reader.text_or_empty(&format!("env.set.{typed}"), value, false)?;
            if text.value.contains('\0') {
                return Err(reader.error(value.span(), "a variable cannot hold a NUL byte"));
            }
            keys.set
                .push(reader.ruled(value, (OsString::from(typed), OsString::from(text.value))));
        }
    }
    Ok(keys)
}

fn env_names(table: &Table<'_>, key: &'static str) -> Result<Vec<Ruled<String>>, SpecError> {
    let names = table.strings(key)?;
    let nodes = table.entry(key).and_then(|n| n.get_ref().as_array());
    for (name, node) in names.iter().zip(nodes.into_iter().flat_map(|a| a.iter())) {
        if let Err(reason) = check_env_name(&name.value, true) {
            return Err(table.reader.error(node.span(), reason));
        }
    }
    Ok(names)
}

/// A name, or `PREFIX_*` where `prefix` is allowed. ccbox's own variables are nobody's to set or pass (semantics 19).
pub(super) fn check_env_name(name: &str, prefix: bool) -> Result<(), String> {
    let stem = match name.strip_suffix('*') {
        Some(stem) if prefix => stem,
        _ => name,
    };
    let plain = stem
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'%' | b'(' | b')'));
    if stem.is_empty() || !plain || stem.starts_with(|c: char| c.is_ascii_digit()) {
        let form = if prefix {
            "a variable name or `PREFIX_*`"
        } else {
            "a variable name"
        };
        return Err(format!("`{}` is not {form}", shown(name)));
    }
    if stem == "CCBOX" || stem.starts_with("CCBOX_") {
        return Err(format!("`{}` is ccbox's own variable", shown(name)));
    }
    Ok(())
}

fn macos(table: &Table<'_>) -> Result<MacosKeys, SpecError> {
    Ok(MacosKeys {
        dns: table.choice("dns", &[("on", true), ("off", false)])?,
        allow_apple_events: table.bool("allow_apple_events")?,
        keychain: table.choice("keychain", &[("deny", false), ("allow", true)])?,
        weaker_network_isolation: table.bool("weaker_network_isolation")?,
    })
}

fn managed(table: &Table<'_>) -> Result<ManagedKeys, SpecError> {
    let keys = ManagedKeys {
        domains_only: table.bool("allow_managed_domains_only")?,
        read_paths_only: table.bool("allow_managed_read_paths_only")?,
    };
    if table.reader.source.layer != Layer::Managed
        && let Some(node) = table
            .entry("allow_managed_domains_only")
            .or_else(|| table.entry("allow_managed_read_paths_only"))
    {
        return Err(table
            .reader
            .error(node.span(), "`[managed]` only stands in the managed file"));
    }
    Ok(keys)
}

fn builtin(table: &Table<'_>) -> Result<BuiltinKeys, SpecError> {
    Ok(BuiltinKeys {
        cwd_writable: table.bool("cwd_writable")?,
        build_tool_secrets: table.bool("build_tool_secrets")?,
        terminal_secrets_only: table.bool("terminal_secrets_only")?,
        env_strict: table.bool("env_strict")?,
        exec_deny_writable_linux: table.bool("exec_deny_writable_linux")?,
        exec_deny_writable_macos: table.bool("exec_deny_writable_macos")?,
    })
}

/// A list of path entries. A deny whose `..` follows a symbolic link yields both readings; such a grant is refused.
fn paths(
    table: &Table<'_>,
    key: &'static str,
    kind: ListKind,
) -> Result<Vec<Ruled<PathEntry>>, SpecError> {
    let what = table.path(key);
    let nodes = table.items(key, "paths")?;
    let mut out = Vec::with_capacity(nodes.len());
    for node in nodes {
        table.reader.check_entry(&what, node, true)?;
        for entry in entries(table.reader, &what, node, kind)? {
            out.push(table.reader.ruled(node, entry));
        }
    }
    Ok(out)
}

/// One path.
fn path(
    table: &Table<'_>,
    key: &'static str,
    kind: ListKind,
) -> Result<Scalar<PathBuf>, SpecError> {
    let Some(node) = table.get(key) else {
        return Ok(None);
    };
    for entry in entries(table.reader, &table.path(key), node, kind)? {
        if let PathEntry::Exact(path) = entry {
            return Ok(Some(table.reader.ruled(node, path)));
        }
    }
    Err(table
        .reader
        .error(node.span(), format!("`{}` names no path", table.path(key))))
}

/// Reads one path entry: a string, or `{ path = "…", literal = true }`.
pub(super) fn entries(
    reader: &Reader<'_>,
    what: &str,
    node: &Node<'_>,
    kind: ListKind,
) -> Result<Vec<PathEntry>, SpecError> {
    let (node, literal) = match node.get_ref().as_table() {
        Some(table) => literal_form(reader, what, node, table)?,
        None => (node, false),
    };
    let text = reader.text(what, node, true)?;
    let entry_text = EntryText {
        bytes: text.value.as_bytes(),
        quoted: &text.quoted,
        literal,
    };
    let fail = |e: PathEntryError| {
        let error = reader.error(
            node.span(),
            format!("`{}` in `{what}`: {}", shown(&text.value), e.reason),
        );
        e.hint
            .iter()
            .fold(error, |error, hint| error.with_hint(hint))
    };
    let entry = PathEntry::parse_text(entry_text, kind, reader.base, reader.home).map_err(fail)?;
    let dotted = unresolved(entry_text, kind, reader.base, reader.home).map_err(fail)?;
    dots::readings(entry, dotted.as_deref(), kind).map_err(fail)
}

fn literal_form<'n>(
    reader: &Reader<'_>,
    what: &str,
    node: &Node<'_>,
    table: &'n DeTable<'n>,
) -> Result<(&'n Node<'n>, bool), SpecError> {
    let mut path = None;
    let mut literal = false;
    for (key, value) in table {
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("path", DeValue::String(_)) => path = Some(value),
            ("path", _) => {
                return Err(reader.wrong_type(&format!("{what}.path"), "a string", value));
            }
            ("literal", DeValue::Boolean(b)) => literal = *b,
            ("literal", _) => {
                return Err(reader.wrong_type(&format!("{what}.literal"), "true or false", value));
            }
            (other, _) => {
                return Err(reader
                    .error(
                        key.span(),
                        format!("unknown key `{}` in `{what}`", shown(other)),
                    )
                    .with_hint("an entry is a string, or { path = \"…\", literal = true }"));
            }
        }
    }
    match path {
        Some(path) => Ok((path, literal)),
        None => Err(reader.error(node.span(), format!("an entry of `{what}` without `path`"))),
    }
}

/// A list of allow rules: a string, or `{ host = "…", allow_private = true }`.
fn hosts(table: &Table<'_>, key: &'static str) -> Result<Vec<Ruled<HostRule>>, SpecError> {
    let what = table.path(key);
    let reader = table.reader;
    table
        .items(key, "host patterns")?
        .iter()
        .map(|node| {
            reader.check_entry(&what, node, true)?;
            let (host, private) = match node.get_ref().as_table() {
                Some(form) => host_form(reader, &what, node, form)?,
                None => (node, false),
            };
            let text = reader.text(&what, host, false)?.value;
            let rule = HostRule::parse_allow(&text, private)
                .map_err(|e| host_error(reader, &what, host, &text, &e))?;
            Ok(reader.ruled(host, rule))
        })
        .collect()
}

fn host_form<'n>(
    reader: &Reader<'_>,
    what: &str,
    node: &Node<'_>,
    table: &'n DeTable<'n>,
) -> Result<(&'n Node<'n>, bool), SpecError> {
    let mut host = None;
    let mut private = false;
    for (key, value) in table {
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("host", DeValue::String(_)) => host = Some(value),
            ("host", _) => {
                return Err(reader.wrong_type(&format!("{what}.host"), "a string", value));
            }
            ("allow_private", DeValue::Boolean(b)) => private = *b,
            ("allow_private", _) => {
                return Err(reader.wrong_type(
                    &format!("{what}.allow_private"),
                    "true or false",
                    value,
                ));
            }
            (other, _) => {
                return Err(reader
                    .error(
                        key.span(),
                        format!("unknown key `{}` in `{what}`", shown(other)),
                    )
                    .with_hint("an entry is a string, or { host = \"…\", allow_private = true }"));
            }
        }
    }
    match host {
        Some(host) => Ok((host, private)),
        None => Err(reader.error(node.span(), format!("an entry of `{what}` without `host`"))),
    }
}

fn denied_hosts(net: &Table<'_>, keys: &mut NetKeys) -> Result<(), SpecError> {
    let reader = net.reader;
    let what = net.path("denied_domains");
    for node in net.items("denied_domains", "host patterns")? {
        reader.check_entry(&what, node, false)?;
        let text = reader.text(&what, node, false)?.value;
        let (rules, note) =
            HostRule::parse_deny(&text).map_err(|e| host_error(reader, &what, node, &text, &e))?;
        keys.denied
            .extend(rules.into_iter().map(|r| reader.ruled(node, r)));
        keys.notices.extend(note);
    }
    Ok(())
}

fn host_error(
    reader: &Reader<'_>,
    what: &str,
    node: &Node<'_>,
    text: &str,
    e: &HostRuleError,
) -> SpecError {
    let error = reader.error(
        node.span(),
        format!("`{}` in `{what}`: {}", shown(text), e.reason),
    );
    e.hint
        .iter()
        .fold(error, |error, hint| error.with_hint(hint))
}
