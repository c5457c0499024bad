//! Which variables of the caller reach the child (semantics 21, 44, R60).
//!
//! The table itself is a data file, `environment/table.txt`; its groups decide, `[env]` of the spec adjusts.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::EnvPolicy;

/// The environment after scrubbing, and what was dropped and why.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scrubbed {
    /// What passes, in the caller's order.
    pub vars: Vec<(OsString, OsString)>,
    /// Names that were dropped with their group (`injection`, `door`, `search path`, `secret`, `ccbox`; `only` and `unset`
    /// where `[env]` asked for it).
    pub dropped: Vec<(OsString, &'static str)>,
    /// Names that were kept and that `explain` lists (`search path`, `secret`; the group they would have been dropped
    /// with where `env.pass` brought them back).
    pub listed: Vec<(OsString, &'static str)>,
}

const TABLE: &str = include_str!("environment/table.txt");

/// Variables that name a file of certificates (D16): they pass, and the files are shown.
pub const CA_FILE_VARS: &[&str] = &[
    "SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "GIT_PROXY_SSL_CAINFO",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "AWS_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
    "CARGO_HTTP_PROXY_CAINFO",
    "DENO_CERT",
    "NIX_SSL_CERT_FILE",
    "HEX_CACERTS_PATH",
    "HTTPLIB2_CA_CERTS",
    "BUNDLE_SSL_CA_CERT",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
    "JULIA_SSL_CA_ROOTS_PATH",
    "SYSTEM_CERTIFICATE_PATH",
    "NPM_CONFIG_CAFILE",
    "npm_config_cafile",
    "YARN_HTTPS_CA_FILE_PATH",
];

/// Variables that name a directory of certificates (D16); several may be joined with `:`.
pub const CA_DIR_VARS: &[&str] = &["SSL_CERT_DIR", "GIT_SSL_CAPATH"];

/// What the table says about a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Certificates,
    Ccbox,
    Injection,
    Door,
    SearchPath,
    Secret,
}

impl Group {
    fn from_header(header: &str) -> Option<Self> {
        Some(match header {
            "ca file" | "ca dir" => Self::Certificates,
            "ccbox" => Self::Ccbox,
            "injection" => Self::Injection,
            "door" => Self::Door,
            "search path" => Self::SearchPath,
            "secret" => Self::Secret,
            _ => return None,
        })
    }

    fn label(self) -> &'static str {
        match self {
            Self::Certificates => "certificates",
            Self::Ccbox => "ccbox",
            Self::Injection => "injection",
            Self::Door => "door",
            Self::SearchPath => "search path",
            Self::Secret => "secret",
        }
    }

    /// Dropped unless `env.pass` names it; `strict` drops what is otherwise only listed.
    fn drops(self, strict: bool) -> bool {
        match self {
            Self::Certificates => false,
            Self::Ccbox | Self::Injection | Self::Door => true,
            Self::SearchPath | Self::Secret => strict,
        }
    }
}

/// Applies the table of semantics 21 and `[env]` to the caller's environment: the table, then `env.pass` and `env.only`,
/// then `env.set`, and `env.unset` at the end. Where the caller holds a name twice, the last value counts.
#[must_use]
pub fn scrub(caller: &[(OsString, OsString)], policy: &EnvPolicy) -> Scrubbed {
    let mut out = Scrubbed::default();
    let table: Vec<(Group, &str)> = rows().collect();
    for (name, value) in caller {
        if name.is_empty() || name.as_bytes().contains(&b'=') {
            continue;
        }
        let group = group_of(&table, name);
        let passed =
            group != Some(Group::Ccbox) && policy.pass.iter().any(|p| pass_matches(&p.value, name));
        let reason = match group {
            _ if passed => None,
            Some(g) if g.drops(policy.strict) => Some(g.label()),
            _ if policy.only => Some("only"),
            _ => None,
        };
        if let Some(reason) = reason {
            note(&mut out.dropped, name, reason);
        } else {
            if let Some(g) = group
                && g != Group::Certificates
            {
                note(&mut out.listed, name, g.label());
            }
            put(&mut out.vars, name, value);
        }
    }
    for set in &policy.set {
        put(&mut out.vars, &set.value.0, &set.value.1);
    }
    for unset in &policy.unset {
        let before = out.vars.len();
        out.vars
            .retain(|(name, _)| !pass_matches(&unset.value, name));
        if out.vars.len() < before {
            note(&mut out.dropped, OsStr::new(&unset.value), "unset");
        }
    }
    out
}

fn put(vars: &mut Vec<(OsString, OsString)>, name: &OsStr, value: &OsStr) {
    match vars.iter_mut().find(|(n, _)| n == name) {
        Some(slot) => slot.1 = value.to_os_string(),
        None => vars.push((name.to_os_string(), value.to_os_string())),
    }
}

fn note(list: &mut Vec<(OsString, &'static str)>, name: &OsStr, label: &'static str) {
    if !list.iter().any(|(n, _)| n == name) {
        list.push((name.to_os_string(), label));
    }
}

/// A name, or `PREFIX_*`.
fn pass_matches(rule: &str, name: &OsStr) -> bool {
    match rule.strip_suffix('*') {
        Some(prefix) => name.as_bytes().starts_with(prefix.as_bytes()),
        None => name == rule,
    }
}

fn group_of(table: &[(Group, &str)], name: &OsStr) -> Option<Group> {
    let name = name.as_bytes();
    let capitals = name.to_ascii_uppercase();
    table
        .iter()
        .find(|(group, row)| {
            let name = if *group == Group::Secret {
                &capitals
            } else {
                name
            };
            row_matches(row.as_bytes(), name)
        })
        .map(|(group, _)| *group)
}

/// The rows of the data file with their group. A test checks that every header is known.
fn rows() -> impl Iterator<Item = (Group, &'static str)> {
    let mut group = None;
    TABLE
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .filter_map(move |line| {
            if let Some(header) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                group = Group::from_header(header);
                return None;
            }
            group.map(|g| (g, line))
        })
}

/// `*` stands for any bytes, none included.
fn row_matches(row: &[u8], name: &[u8]) -> bool {
    let mut pieces = row.split(|b| *b == b'*');
    let Some(first) = pieces.next() else {
        return false;
    };
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let mut pieces = pieces.peekable();
    if pieces.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return rest.ends_with(piece);
        }
        let Some(at) = rest.windows(piece.len().max(1)).position(|w| w == piece) else {
            return false;
        };
        rest = rest.get(at + piece.len()..).unwrap_or_default();
    }
    true
}

#[cfg(test)]
mod tests;
