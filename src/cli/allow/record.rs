//! ccbox's own record of what was denied (semantics 31): the last twenty runs with denials, in the user's state directory, which no
//! command can write. A file is private (0600, in a directory 0700), made under a new name and never through a link; one that is
//! anybody else's is not read.

use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::dir::Dir;
use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};
use serde::{Deserialize, Serialize};

use super::offer::{self, Class};
use crate::host::HostFacts;
use crate::plan::{DENIALS, Plan};
use crate::report::text::escape_os;
use crate::report::{Reporter, Violation};

/// Version of the shape.
const VERSION: u32 = 1;
/// Runs that are kept.
const KEPT: usize = 20;
/// Different denials of one run that are kept.
const MOST: usize = 1000;
/// A file that is longer was not written here.
const LONGEST: u64 = 16 << 20;

/// One run with denials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    version: u32,
    pub(super) session_id: String,
    /// RFC 3339.
    pub(super) time: String,
    /// Where the run was started, escaped as lines are.
    pub(super) cwd: String,
    pub(super) denials: Vec<Denied>,
    /// Further ones that are not kept.
    pub(super) more: u64,
}

/// One denial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Denied {
    pub(super) action: String,
    pub(super) target: String,
    pub(super) process: Option<String>,
    pub(super) pid: Option<i32>,
    pub(super) rule: String,
    pub(super) hint: Option<String>,
    pub(super) class: Class,
    pub(super) count: u64,
}

/// Keeps what was denied, if anything was. The run's end does not depend on it: what goes wrong is told under `-v`.
pub(in crate::cli) fn keep(report: &Reporter, host: &HostFacts, plan: &Plan, session_id: &str) {
    let denials = report.denials();
    if denials.is_empty() {
        return;
    }
    let now = SystemTime::now();
    let record = Record {
        version: VERSION,
        session_id: session_id.to_owned(),
        time: humantime::format_rfc3339_seconds(now).to_string(),
        cwd: escape_os(host.cwd_real.as_os_str()),
        more: denials.len().saturating_sub(MOST) as u64,
        denials: denials
            .into_iter()
            .take(MOST)
            .map(|(v, count)| denied(v, count, plan, &host.home_real))
            .collect(),
    };
    if let Err(e) = write(&host.state_dir, host.uid, &record, now) {
        report.verbose(&format!(
            "what was denied is not recorded for `ccbox allow --last`: {}",
            crate::exit::reason(&e)
        ));
    }
}

fn denied(v: Violation, count: u64, plan: &Plan, home: &Path) -> Denied {
    let class = v
        .hint
        .as_ref()
        .map_or(Class::Plain, |hint| offer::class(plan, home, hint));
    Denied {
        action: v.action.to_owned(),
        target: v.target,
        process: v.process,
        pid: v.pid,
        rule: v.rule,
        hint: v.hint.filter(|_| class != Class::Never),
        class,
        count,
    }
}

/// Which run is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Which<'a> {
    /// The newest that was started in this directory.
    Here(&'a Path),
    /// The newest of this name.
    Session(&'a str),
}

/// The newest record that is asked for.
pub(super) fn read(state_dir: &Path, uid: u32, which: Which<'_>) -> io::Result<Option<Record>> {
    let dir = match open(state_dir, uid) {
        Ok(dir) => dir,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let here = match which {
        Which::Here(cwd) => escape_os(cwd.as_os_str()),
        Which::Session(_) => String::new(),
    };
    for name in names(&dir)?.iter().rev() {
        let Ok(record) = read_one(&dir, name, uid) else {
            continue;
        };
        let wanted = match which {
            Which::Here(_) => record.cwd == here,
            Which::Session(id) => record.session_id == id,
        };
        if wanted {
            return Ok(Some(record));
        }
    }
    Ok(None)
}

fn read_one(dir: &OwnedFd, name: &str, uid: u32) -> io::Result<Record> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = File::from(openat(dir, name, flags, Mode::empty())?);
    let meta = file.metadata()?;
    if !meta.is_file() || meta.uid() != uid || meta.mode() & 0o077 != 0 || meta.len() > LONGEST {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text)?;
    let record: Record = serde_json::from_slice(&text)?;
    if record.version != VERSION {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(record)
}

fn write(state_dir: &Path, uid: u32, record: &Record, now: SystemTime) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(state_dir.join(DENIALS))?;
    let dir = open(state_dir, uid)?;
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    // Names sort by time.
    let name = format!("{:014}-{}.json", since.as_millis(), std::process::id());
    let flags =
        OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    let mut file = File::from(openat(&dir, name.as_str(), flags, mode)?);
    file.write_all(&serde_json::to_vec(record)?)?;
    let names = names(&dir)?;
    for old in names.iter().rev().skip(KEPT) {
        // Another run may have been faster.
        let _ = unlinkat(&dir, old.as_str(), UnlinkatFlags::NoRemoveDir);
    }
    Ok(())
}

/// Opens the directory and checks that only the caller can have written into it.
fn open(state_dir: &Path, uid: u32) -> io::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let dir = File::from(openat(
        AT_FDCWD,
        &state_dir.join(DENIALS),
        flags,
        Mode::empty(),
    )?);
    let meta = dir.metadata()?;
    if meta.uid() != uid || meta.mode() & 0o022 != 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(dir.into())
}

/// The records, oldest first.
fn names(dir: &OwnedFd) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::from_fd(dir.as_fd().try_clone_to_owned()?)?.iter() {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy();
        let number = name.split('-').next().unwrap_or_default();
        let ours = number.len() == 14 && number.bytes().all(|b| b.is_ascii_digit());
        if ours && name.ends_with(".json") {
            names.push(name.into_owned());
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests;
