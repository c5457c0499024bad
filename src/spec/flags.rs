//! Command-line sugar as a layer: each flag is a spec key, with the flag as its origin.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::keys::Keys;
use super::reader::choose;
use super::source::shown;
use super::surface::{
    BACKENDS, ENGINES, MODES, SANDBOXES, SESSION_ID_RULE, check_env_name, is_session_id,
};
use super::{FlagRules, SpecError, dots, later};
use crate::policy::host_rule::{HostRule, HostRuleError};
use crate::policy::path::{EntryText, ListKind, PathEntry, PathEntryError, unresolved};
use crate::policy::{Layer, Origin, Ruled};

type Flag = &'static str;

/// Reads the flags; relative paths start at the cwd (semantics 2).
pub(super) fn keys(flags: &FlagRules, cwd: &Path, home: &Path) -> Result<Keys, SpecError> {
    let mut keys = Keys::default();
    let paths = |flag: Flag, values: &[std::ffi::OsString], kind: ListKind| {
        let mut out = Vec::new();
        for value in values {
            for entry in entries(flag, value, kind, cwd, home)? {
                out.push(ruled(flag, entry));
            }
        }
        Ok::<_, SpecError>(out)
    };
    keys.fs.allow_write = paths("--rw", &flags.rw, ListKind::Grant)?;
    keys.fs.allow_read = paths("--ro", &flags.ro, ListKind::Grant)?;
    keys.fs.deny_read = paths("--deny-read", &flags.deny_read, ListKind::DenyRead)?;
    keys.fs.deny_write = paths("--deny-write", &flags.deny_write, ListKind::DenyWrite)?;
    keys.fs.protected = paths("--protect", &flags.protect, ListKind::Protected)?;
    keys.workdir = match &flags.chdir {
        Some(dir) => Some(ruled("--chdir", chdir(dir, cwd, home)?)),
        None => None,
    };
    for text in &flags.allow_host {
        let rule =
            HostRule::parse_allow(text, false).map_err(|e| host_error("--allow-host", text, &e))?;
        keys.net.allowed.push(ruled("--allow-host", rule));
    }
    for text in &flags.deny_host {
        let (rules, note) =
            HostRule::parse_deny(text).map_err(|e| host_error("--deny-host", text, &e))?;
        keys.net
            .denied
            .extend(rules.into_iter().map(|r| ruled("--deny-host", r)));
        keys.net.notices.extend(note);
    }
    keys.net.enabled = flags.no_network.then(|| ruled("--no-network", false));
    environment(flags, &mut keys)?;
    words(flags, &mut keys)?;
    Ok(keys)
}

/// A flag's value with its origin.
fn ruled<T>(flag: Flag, value: T) -> Ruled<T> {
    Ruled {
        value,
        origin: Origin {
            layer: Layer::Flag(flag),
            file: None,
            line: None,
        },
    }
}

fn entries(
    flag: Flag,
    value: &OsStr,
    kind: ListKind,
    cwd: &Path,
    home: &Path,
) -> Result<Vec<PathEntry>, SpecError> {
    let text = EntryText::plain(value.as_bytes());
    let fail = |e: PathEntryError| {
        let error = SpecError::plain(format!(
            "`{flag} {}`: {}",
            shown(&value.to_string_lossy()),
            e.reason
        ));
        e.hint
            .iter()
            .fold(error, |error, hint| error.with_hint(hint))
    };
    let entry = PathEntry::parse_text(text, kind, cwd, home).map_err(fail)?;
    let dotted = unresolved(text, kind, cwd, home).map_err(fail)?;
    dots::readings(entry, dotted.as_deref(), kind).map_err(fail)
}

/// `--chdir` is where the user could `cd` to: `..` goes where the kernel goes.
fn chdir(dir: &Path, cwd: &Path, home: &Path) -> Result<PathBuf, SpecError> {
    if dir.as_os_str().as_bytes().starts_with(b"~") {
        // A quoted tilde: read as in a spec.
        let entry = entries("--chdir", dir.as_os_str(), ListKind::Grant, cwd, home)?;
        if let Some(path) = entry.first().and_then(PathEntry::exact) {
            return Ok(path.to_path_buf());
        }
    }
    if dir.as_os_str().is_empty() {
        return Err(SpecError::plain("`--chdir` without a directory".into()));
    }
    let joined = cwd.join(dir);
    Ok(dots::kernel_reading(&joined).unwrap_or(joined))
}

fn environment(flags: &FlagRules, keys: &mut Keys) -> Result<(), SpecError> {
    for pair in &flags.env_set {
        let bytes = pair.as_bytes();
        let Some(at) = bytes.iter().position(|b| *b == b'=') else {
            let typed = shown(&pair.to_string_lossy());
            return Err(SpecError::plain(format!("`--env {typed}` has no `=`"))
                .with_hint(&format!("`--pass-env {typed}` hands the caller's value on")));
        };
        let (name, value) = bytes.split_at(at);
        check_env_name(&String::from_utf8_lossy(name), false)
            .map_err(|reason| SpecError::plain(format!("`--env`: {reason}")))?;
        let value = value.get(1..).unwrap_or_default().to_vec();
        let pair = (
            OsStr::from_bytes(name).to_os_string(),
            std::ffi::OsString::from_vec(value),
        );
        keys.env.set.push(ruled("--env", pair));
    }
    for name in &flags.env_pass {
        check_env_name(name, true)
            .map_err(|reason| SpecError::plain(format!("`--pass-env`: {reason}")))?;
        keys.env.pass.push(ruled("--pass-env", name.clone()));
    }
    Ok(())
}

fn words(flags: &FlagRules, keys: &mut Keys) -> Result<(), SpecError> {
    keys.mode = word("--mode", flags.mode.as_ref(), MODES)?;
    keys.backend = word("--backend", flags.backend.as_ref(), BACKENDS)?;
    keys.engine = word("--engine", flags.engine.as_ref(), ENGINES)?;
    keys.sandbox = word("--sandbox", flags.sandbox.as_ref(), SANDBOXES)?;
    let backend = keys
        .backend
        .as_ref()
        .and_then(|b| later::backend_gap(b.value));
    if let (Some(typed), Some(why)) = (&flags.backend, backend) {
        return Err(SpecError::plain(format!(
            "`--backend {}` is not supported yet: {why}",
            shown(typed)
        )));
    }
    if let Some(id) = &flags.session {
        if !is_session_id(id) {
            return Err(SpecError::plain(format!(
                "`--session {}`: {SESSION_ID_RULE}",
                shown(id)
            )));
        }
        keys.session_id = Some(ruled("--session", id.clone()));
    }
    Ok(())
}

fn word<T: Copy>(
    flag: Flag,
    typed: Option<&String>,
    words: &[(&str, T)],
) -> Result<Option<Ruled<T>>, SpecError> {
    let Some(typed) = typed else {
        return Ok(None);
    };
    match choose(typed, words) {
        Ok(value) => Ok(Some(ruled(flag, value))),
        Err(hint) => Err(SpecError::plain(format!(
            "unknown value `{}` for `{flag}`",
            shown(typed)
        ))
        .with_hint(&hint)),
    }
}

fn host_error(flag: Flag, text: &str, e: &HostRuleError) -> SpecError {
    let error = SpecError::plain(format!("`{flag} {}`: {}", shown(text), e.reason));
    e.hint
        .iter()
        .fold(error, |error, hint| error.with_hint(hint))
}
