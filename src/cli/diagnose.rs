//! After a failure: why, in words that help (semantics 28: `run` tries first and asks afterwards).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::machine::Machine;
use super::usage::UsageError;
use crate::host::HostFacts;

/// Runs the functional probe; `None` where it finds nothing wrong with this host.
pub(super) fn cause(exe: &Path, machine: &Machine) -> Option<UsageError> {
    let answer = super::probe::found(exe, machine, false);
    let native = answer.native()?;
    if native.available {
        return None;
    }
    Some(UsageError {
        message: native
            .reason
            .clone()
            .unwrap_or_else(|| "unknown reason".to_owned()),
        hint: native
            .hint
            .clone()
            .or_else(|| Some("`ccbox probe` shows every check".to_owned())),
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
