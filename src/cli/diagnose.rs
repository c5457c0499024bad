//! After a failure: why, in words that help (semantics 28: `run` tries first and asks afterwards).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::machine::Machine;
use super::usage::UsageError;
use crate::host::HostFacts;
use crate::policy::EngineChoice;

/// Runs the functional probe; `None` where it finds nothing wrong with this host. One who asked for bubblewrap hears about that.
pub(super) fn cause(exe: &Path, machine: &Machine, asked: EngineChoice) -> Option<UsageError> {
    let answer = super::probe::found(exe, machine, false);
    let bwrap = answer
        .engines
        .iter()
        .find(|e| asked == EngineChoice::Bwrap && e.name == "bwrap");
    let (available, reason, hint) = if let Some(e) = bwrap {
        (e.available, &e.reason, &e.hint)
    } else {
        let native = answer.native()?;
        (native.available, &native.reason, &native.hint)
    };
    if available {
        return None;
    }
    let unknown = || "unknown reason".to_owned();
    let more = || Some("`ccbox probe` shows every check".to_owned());
    Some(UsageError {
        message: reason.clone().unwrap_or_else(unknown),
        hint: hint.clone().or_else(more),
    })
}

/// Where a command that was not found inside stands on the host.
pub(super) fn on_host(name: &OsStr, host: &HostFacts) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        let path = host.cwd.join(name);
        return path.is_file().then_some(path);
    }
    let path = host.var("PATH")?;
    std::env::split_paths(path)
        .map(|dir| dir.join(name))
        .find(|p| p.is_absolute() && p.is_file())
}
