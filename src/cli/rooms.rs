//! The calls into other rooms that are not plain functions of a type, in one place.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::args::CheckKind;
use super::check::Answer;
use super::child_env::Changes;
use super::context::Prepared;
use super::{Ending, Fault};
use crate::host::HostFacts;
use crate::session;

/// Proxy variables for the child.
pub(super) fn proxy_env(_ready: &Prepared) -> Changes {
    unimplemented!("proxy::child_env")
}

/// Ends this process by the signal that ended the command, without a core file (semantics 25).
pub(super) fn die_by(signal: i32) -> ExitCode {
    ExitCode::from(session::die_as(signal))
}

/// Whether a path may be read, written or executed.
pub(super) fn check_path(_ready: &Prepared, _kind: CheckKind, _path: &Path) -> Answer {
    unimplemented!("plan::check")
}

/// Records a project file as trusted; the grants that count from now on, in words.
pub(super) fn trust(_path: &Path, _host: &HostFacts) -> Result<Vec<String>, Fault> {
    unimplemented!("spec::trust")
}

/// Where private caches are kept.
pub(super) fn caches_dir(host: &HostFacts) -> PathBuf {
    host.state_dir.join("caches")
}

/// Connects standard input and output to a host through the SOCKS proxy.
pub(super) fn connect(_host: &str, _port: u16) -> Result<Ending, Fault> {
    unimplemented!("proxy::connect")
}

/// The resolved plan as text.
pub(super) fn explain(_ready: &Prepared, _json: bool) -> Result<String, Fault> {
    unimplemented!("plan::explain")
}
