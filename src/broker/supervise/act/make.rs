//! Making: mkdir, mknod, symlink.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;

use super::super::areas::Area;
use super::super::judge::{Asked, Needs, find};
use super::super::resolve::Last;
use super::super::{Broker, Stop, place};
use super::{Outcome, Turn};
use crate::broker::action::{Action, Kind};
use crate::sys::at;
use crate::sys::libc;

impl Turn<'_> {
    pub(super) fn mkdir(&self, dirfd: i32, path: u64, mode: i32) -> Result<Outcome, Stop> {
        let mode = mode.cast_unsigned() & 0o7777;
        self.make("mkdir", Action::Mkdir, dirfd, path, &|dir, name| {
            self.caller.memory.set_umask(self.caller.umask()?);
            at::make_dir(dir, name, mode)
        })
    }

    pub(super) fn mknod(
        &self,
        dirfd: i32,
        path: u64,
        mode: i32,
        device: i32,
    ) -> Result<Outcome, Stop> {
        let mode = mode.cast_unsigned() & 0xffff;
        // may_mknod() of the kernel, before any path: the type is in a register.
        match mode & libc::S_IFMT {
            0 | libc::S_IFREG | libc::S_IFIFO | libc::S_IFSOCK | libc::S_IFCHR | libc::S_IFBLK => {}
            _ => return Ok(Outcome::Continue),
        }
        self.make("mknod", Action::Mknod, dirfd, path, &|dir, name| {
            self.caller.memory.set_umask(self.caller.umask()?);
            at::make_node(dir, name, mode, device.cast_unsigned())
        })
    }

    pub(super) fn symlink(&self, text: u64, dirfd: i32, path: u64) -> Result<Outcome, Stop> {
        let text = self.caller.text(text)?;
        self.make("symlink", Action::Symlink, dirfd, path, &|dir, name| {
            at::make_link(&text, dir, name)
        })
    }

    fn make(
        &self,
        what: &'static str,
        action: Action,
        dirfd: i32,
        path: u64,
        act: &dyn Fn(BorrowedFd<'_>, &CStr) -> Result<(), Errno>,
    ) -> Result<Outcome, Stop> {
        let broker = self.broker;
        let path = self.caller.text(path)?;
        let spot = self.walk().start(dirfd, &path)?;
        let Last::Name(name) = &spot.last else {
            // It exists: EEXIST, whatever else happens.
            return Ok(Outcome::Continue);
        };
        let (area, look) = broker.area_at(&self.caller, &spot)?;
        let Some(area) = area.filter(|area| Area::is_covered(area)) else {
            if find(&spot.dir, name)?.is_none() {
                self.note(self.read_only(what, &spot.dir, name, Needs::Directory));
            }
            return Ok(Outcome::Continue);
        };
        broker.locked(Broker::is_completing(name.to_bytes()), |alone| {
            let site = broker.site(&self.caller, &spot.dir, &look, area)?;
            if find(&spot.dir, name)?.is_some() {
                return Err(Errno::EEXIST.into());
            }
            let asked = Asked {
                action: what,
                site: &site,
                name,
                needs: Needs::Directory,
            };
            let verdict = broker.decide(action, &site, name, Kind::Absent)?;
            let checks = Broker::cleared(verdict, alone, &asked)?;
            broker.pass_to_act(checks, &asked)?;
            act(spot.dir.as_fd(), &place::with_slash(name, spot.slash)?)?;
            broker.repositories.came(&spot.dir, name.to_bytes());
            Ok(Outcome::Value(0))
        })
    }
}
