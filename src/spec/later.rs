//! Keys that parse now and are enforced later: each is refused where it is set (R14), never ignored.
//!
//! A key leaves this file when its enforcement arrives.

use toml::de::DeValue;

use super::SpecError;
use super::credentials;
use super::keys::{Keys, Scalar};
use super::reader::{Node, Reader, Table};
use crate::policy::BackendChoice;

/// Why a backend cannot be chosen yet.
pub(super) fn backend_gap(backend: BackendChoice) -> Option<&'static str> {
    match backend {
        BackendChoice::MicroVm => Some("a VM cannot be booted by this build"),
        BackendChoice::Auto | BackendChoice::Native | BackendChoice::None => None,
    }
}

pub(super) fn engines(top: &Table<'_>, keys: &Keys) {
    let backend = keys.backend.as_ref().and_then(|b| backend_gap(b.value));
    if let (Some(why), Some(node)) = (backend, top.get("backend")) {
        top.reader
            .later("`backend = \"microvm\"`", node, Some(why), true);
    }
}

pub(super) fn network(net: &Table<'_>) -> Result<(), SpecError> {
    let reader = net.reader;
    if let (Some(strict), Some(node)) = (net.bool("strict_allowlist")?, net.get("strict_allowlist"))
        && !strict.value
    {
        return Err(reader
            .error(
                node.span(),
                "`network.strict_allowlist = false` would ask about unlisted hosts, and there is nobody to ask",
            )
            .with_hint("add the hosts to `network.allowed_domains`"));
    }
    if let Some(node) = net.get("tls_terminate") {
        if !node.get_ref().is_table() {
            return Err(reader.wrong_type("network.tls_terminate", "a table", node));
        }
        reader.later("`network.tls_terminate`", node, None, false);
    }
    Ok(())
}

pub(super) fn check_port(
    reader: &Reader<'_>,
    key: &str,
    node: &Node<'_>,
    port: u64,
) -> Result<(), SpecError> {
    if (1..=65535).contains(&port) {
        return Ok(());
    }
    Err(reader.error(
        node.span(),
        format!("`network.{key}` must be a port from 1 to 65535"),
    ))
}

/// `[exec]`: a list of programs is not held yet.
pub(super) fn exec(table: &Table<'_>) -> Result<Scalar<bool>, SpecError> {
    table.strings("deny")?;
    if table.entry("deny").is_some_and(is_set) {
        refuse(table, "deny", None, true);
    }
    table.bool("deny_writable")
}

/// Whole tables of later work, read strictly and refused where they say something.
pub(super) fn tables(top: &Table<'_>) -> Result<(), SpecError> {
    if let Some(linux) = top.table("linux", "linux")?
        && linux.bool("weaker_nested")?.is_some_and(|w| w.value)
    {
        refuse(&linux, "weaker_nested", None, false);
    }
    if let Some(commands) = top.table("commands", "commands")? {
        commands.strings("excluded")?;
        refuse_non_empty(&commands, "excluded", None);
    }
    Ok(())
}

/// What of `[credentials]` hides: entries with `mode = "deny"`. Masks come later.
pub(super) fn credentials(top: &Table<'_>, keys: &mut Keys) -> Result<(), SpecError> {
    let Some(table) = &top.table("credentials", "credentials")? else {
        return Ok(());
    };
    if table
        .bool("allow_plaintext_inject")?
        .is_some_and(|a| a.value)
    {
        refuse(table, "allow_plaintext_inject", None, false);
    }
    if let Some(sigv4) = table.table("sigv4", "credentials.sigv4")? {
        for key in ["streaming", "presigned", "sigv4a"] {
            sigv4.choice(key, &[("passthrough", ())])?;
            refuse(&sigv4, key, None, false);
        }
    }
    for (key, name) in [
        ("files", "credentials.files"),
        ("env_vars", "credentials.env_vars"),
        ("aws_pairs", "credentials.aws_pairs"),
    ] {
        for (entry, node) in table.tables(key, name)? {
            if credential(&entry, key)? == Some(Credential::Deny) {
                match key {
                    "files" => keys.fs.deny_read.extend(credentials::file(&entry, node)?),
                    _ => keys.env.unset.push(credentials::variable(&entry, node)?),
                }
            } else {
                keys.masks = true;
                // A mask lets more out than a deny: only the deny tightens, and an entry that says neither might.
                let tightens = key != "aws_pairs" && entry.entry("mode").is_none();
                table
                    .reader
                    .later(&format!("`{name}`"), node, None, tightens);
            }
        }
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Credential {
    Deny,
    Mask,
}

/// Reads one entry, so that a typing mistake is named before the refusal.
fn credential(entry: &Table<'_>, kind: &str) -> Result<Option<Credential>, SpecError> {
    if kind == "aws_pairs" {
        for key in [
            "access_key_id_var",
            "secret_access_key_var",
            "session_token_var",
        ] {
            entry.string(key)?;
        }
        return Ok(None);
    }
    entry.string(if kind == "files" { "path" } else { "name" })?;
    entry.string("extract")?;
    entry.choice("decode", &[("jwt", ())])?;
    entry.strings("mask_claims")?;
    entry.strings("inject_hosts")?;
    entry.choice(
        "on_extract_no_match",
        &[("warn", ()), ("deny", ()), ("error", ())],
    )?;
    entry.bool("mask_duplicates")?;
    let modes = [("deny", Credential::Deny), ("mask", Credential::Mask)];
    Ok(entry.choice("mode", &modes)?.map(|m| m.value))
}

fn refuse_non_empty(table: &Table<'_>, key: &'static str, why: Option<&str>) {
    if table.entry(key).is_some_and(is_set) {
        refuse(table, key, why, false);
    }
}

fn is_set(node: &Node<'_>) -> bool {
    !matches!(node.get_ref(), DeValue::Array(items) if items.is_empty())
}

/// Refuses a key that is set at all.
fn refuse(table: &Table<'_>, key: &'static str, why: Option<&str>, tightens: bool) {
    if let Some(node) = table.entry(key) {
        let what = format!("`{}`", table.path(key));
        table.reader.later(&what, node, why, tightens);
    }
}
