//! Processes of macOS, by libproc.
//!
//! Every process has a number that no other ever gets, and keeps that of the one that started it when that one ends
//! (`proc_uniqidentifierinfo` of XNU's bsd/sys/proc_info.h, which the C library's crate does not have).

use std::io;
use std::mem::MaybeUninit;

use super::family::Member;

/// `PROC_ALL_PIDS`.
const ALL: u32 = 1;
/// `PROC_PIDT_SHORTBSDINFO`.
const SHORT: libc::c_int = 13;
/// `PROC_PIDUNIQIDENTIFIERINFO`.
const UNIQUE: libc::c_int = 17;
/// `SSTOP` and `SZOMB` of sys/proc.h.
const STOPPED: u32 = 4;
const ENDED: u32 = 5;

/// `struct proc_uniqidentifierinfo`.
#[repr(C)]
struct Unique {
    uuid: [u8; 16],
    id: u64,
    parent: u64,
    version: i32,
    parent_version: i32,
    reserved: [u64; 2],
}

/// `struct proc_bsdshortinfo`.
#[repr(C)]
struct Short {
    pid: u32,
    parent: u32,
    group: u32,
    status: u32,
    command: [u8; 16],
    flags: u32,
    ids: [u32; 6],
    reserved: u32,
}

/// All processes that have not ended.
pub fn all() -> io::Result<Vec<Member>> {
    // As many as there may be: the list is cut, not refused, where there are more.
    let mut pids = vec![0_i32; 32 * 1024];
    let bytes = libc::c_int::try_from(size_of_val(pids.as_slice())).map_err(io::Error::other)?;
    // SAFETY: proc_listpids writes at most `bytes` bytes of pids into the vector, which has that many.
    let filled = unsafe { libc::proc_listpids(ALL, 0, pids.as_mut_ptr().cast(), bytes) };
    let Some(filled) = usize::try_from(filled).ok().filter(|n| *n > 0) else {
        return Err(io::Error::last_os_error());
    };
    pids.truncate(filled / size_of::<i32>());
    Ok(pids.into_iter().filter_map(of).collect())
}

/// One of them; `None` where it has ended, or is not this user's.
#[must_use]
pub fn of(pid: i32) -> Option<Member> {
    let unique: Unique = ask(pid, UNIQUE)?;
    let short: Short = ask(pid, SHORT)?;
    (short.status != ENDED).then_some(Member {
        pid,
        id: unique.id,
        parent: unique.parent,
        stopped: short.status == STOPPED,
    })
}

/// proc_pidinfo of a flavour that fills a `T`, which holds nothing but numbers.
fn ask<T>(pid: i32, flavour: libc::c_int) -> Option<T> {
    let mut out = MaybeUninit::<T>::zeroed();
    let bytes = libc::c_int::try_from(size_of::<T>()).ok()?;
    // SAFETY: proc_pidinfo writes at most `bytes` bytes into `out`, which has that many.
    let got = unsafe { libc::proc_pidinfo(pid, flavour, 0, out.as_mut_ptr().cast(), bytes) };
    // SAFETY: zeroed, and the two types it is used with are valid for every content.
    (got == bytes).then(|| unsafe { out.assume_init() })
}

/// The sizes that XNU's header gives.
const _: () = assert!(size_of::<Unique>() == 56 && size_of::<Short>() == 64);
