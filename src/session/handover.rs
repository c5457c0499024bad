//! What the inner stage is told: the plan of the run plus facts of this session, as bytes on an inherited descriptor.
//!
//! Paths travel as `OsString`, because serde writes a `PathBuf` as UTF-8 and paths are bytes.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{OwnedFd, RawFd};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::backend::{ExecRule, Floor, InnerPlan, Limit, ReadFloor};
use crate::sys::fds;
use crate::sys::signals::SignalSet;

/// Facts of the session that only ccbox knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Facts {
    /// Number of the control socket.
    pub(super) control: RawFd,
    /// Number of the socket the command's process hands its filter's listener over on, with a floor.
    pub(super) door: Option<RawFd>,
    /// Number of the caller's standard error.
    pub(super) stderr: RawFd,
    /// The caller's signal mask.
    pub(super) mask: SignalSet,
    /// LISTEN_FDS was meant for this run: LISTEN_PID becomes the command's pid.
    pub(super) listen_pid: bool,
}

#[derive(Serialize, Deserialize)]
struct Bytes {
    facts: Facts,
    argv: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    cwd: OsString,
    pins: Vec<(OsString, u64, u64)>,
    writable: Vec<OsString>,
    moved: Vec<(OsString, OsString)>,
    keep_fds: Vec<i32>,
    confine: bool,
    listen: Vec<u16>,
    ignored_signals: Vec<i32>,
    unix_sockets: bool,
    open_network: bool,
    programs: Option<[Vec<OsString>; 2]>,
    floor: Option<[Vec<OsString>; 2]>,
    read_floor: [Vec<OsString>; 2],
    trap_reads: bool,
    trap_sockets: bool,
    own_group: bool,
    limits: Vec<(Limit, u64)>,
}

fn texts(paths: Vec<PathBuf>) -> Vec<OsString> {
    paths.into_iter().map(Into::into).collect()
}

fn paths(texts: Vec<OsString>) -> Vec<PathBuf> {
    texts.into_iter().map(Into::into).collect()
}

/// Packs plan and facts.
pub(super) fn pack(plan: InnerPlan, facts: Facts) -> io::Result<Vec<u8>> {
    if plan.alone.is_some() {
        // Such a run executes nothing of ccbox's.
        return Err(io::ErrorKind::Unsupported.into());
    }
    let bytes = Bytes {
        facts,
        argv: plan.argv,
        env: plan.env,
        cwd: plan.cwd.into(),
        pins: plan
            .pins
            .into_iter()
            .map(|(path, dev, ino)| (path.into(), dev, ino))
            .collect(),
        writable: texts(plan.writable),
        moved: plan
            .moved
            .into_iter()
            .map(|(host, guest)| (host.into(), guest.into()))
            .collect(),
        keep_fds: plan.keep_fds,
        confine: plan.confine,
        listen: plan.listen,
        ignored_signals: plan.ignored_signals,
        unix_sockets: plan.unix_sockets,
        open_network: plan.open_network,
        programs: plan
            .programs
            .map(|rule| [rule.closed, rule.open].map(texts)),
        floor: plan
            .floor
            .map(|floor| [floor.covered, floor.exempt].map(texts)),
        read_floor: [plan.read_floor.closed, plan.read_floor.above].map(texts),
        trap_reads: plan.trap_reads,
        trap_sockets: plan.trap_sockets,
        own_group: plan.own_group,
        limits: plan.limits,
    };
    postcard::to_stdvec(&bytes).map_err(io::Error::other)
}

/// Unpacks what [`pack`] made.
pub(super) fn unpack(bytes: &[u8]) -> io::Result<(InnerPlan, Facts)> {
    let bytes: Bytes = postcard::from_bytes(bytes).map_err(io::Error::other)?;
    let [closed, above] = bytes.read_floor.map(paths);
    let plan = InnerPlan {
        argv: bytes.argv,
        env: bytes.env,
        cwd: bytes.cwd.into(),
        pins: bytes
            .pins
            .into_iter()
            .map(|(path, dev, ino)| (PathBuf::from(path), dev, ino))
            .collect(),
        writable: paths(bytes.writable),
        moved: bytes
            .moved
            .into_iter()
            .map(|(host, guest)| (host.into(), guest.into()))
            .collect(),
        keep_fds: bytes.keep_fds,
        confine: bytes.confine,
        listen: bytes.listen,
        ignored_signals: bytes.ignored_signals,
        unix_sockets: bytes.unix_sockets,
        open_network: bytes.open_network,
        programs: bytes.programs.map(|paths| {
            let [closed, open] = paths.map(self::paths);
            ExecRule { closed, open }
        }),
        floor: bytes.floor.map(|paths| {
            let [covered, exempt] = paths.map(self::paths);
            Floor { covered, exempt }
        }),
        read_floor: ReadFloor { closed, above },
        trap_reads: bytes.trap_reads,
        trap_sockets: bytes.trap_sockets,
        alone: None,
        own_group: bytes.own_group,
        limits: bytes.limits,
    };
    Ok((plan, bytes.facts))
}

/// Reads the bytes from the inherited descriptor.
pub(super) fn read(number: RawFd) -> io::Result<(InnerPlan, Facts)> {
    let fd: OwnedFd = fds::adopt(number)?;
    let mut bytes = Vec::new();
    File::from(fd).read_to_end(&mut bytes)?;
    unpack(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn every_byte_survives() {
        let odd = OsString::from_vec(b"/a\xff\n b".to_vec());
        let plan = InnerPlan {
            argv: vec![odd.clone(), OsString::new()],
            env: vec![(odd.clone(), odd.clone())],
            cwd: odd.clone().into(),
            pins: vec![(odd.clone().into(), 7, u64::MAX)],
            writable: vec![odd.clone().into()],
            moved: vec![("/b".into(), odd.clone().into())],
            keep_fds: vec![3, 9],
            confine: true,
            listen: vec![3128],
            ignored_signals: vec![1],
            unix_sockets: false,
            open_network: true,
            programs: Some(ExecRule {
                closed: vec![odd.clone().into()],
                open: vec!["/bin".into()],
            }),
            floor: Some(Floor {
                covered: vec![odd.clone().into()],
                exempt: vec!["/tmp".into(), odd.clone().into()],
            }),
            read_floor: ReadFloor {
                closed: vec!["/a/b".into()],
                above: vec!["/".into(), "/a".into()],
            },
            trap_reads: true,
            trap_sockets: true,
            alone: None,
            own_group: true,
            limits: vec![(Limit::Cpu, u64::MAX), (Limit::Data, 1)],
        };
        let facts = Facts {
            control: 5,
            door: Some(8),
            stderr: 6,
            mask: [1, 64].into_iter().collect(),
            listen_pid: true,
        };
        let packed = pack(plan.clone(), facts.clone()).unwrap();
        assert_eq!(unpack(&packed).unwrap(), (plan, facts));
        assert!(unpack(&packed[..packed.len() - 1]).is_err());
    }
}
