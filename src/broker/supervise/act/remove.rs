//! Removing: unlink, rmdir.

use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::unistd::geteuid;

use super::super::areas::Area;
use super::super::judge::{Asked, Needs, find, kind};
use super::super::resolve::Last;
use super::super::{Broker, Stop, place};
use super::{Outcome, Turn};
use crate::broker::action::Action;
use crate::sys::at;
use crate::sys::libc;

impl Turn<'_> {
    pub(super) fn unlink(&self, dirfd: i32, path: u64, flags: i32) -> Result<Outcome, Stop> {
        let broker = self.broker;
        if flags & !libc::AT_REMOVEDIR != 0 {
            return Ok(Outcome::Continue);
        }
        let is_rmdir = flags & libc::AT_REMOVEDIR != 0;
        let (what, action, needs) = if is_rmdir {
            ("rmdir", Action::Rmdir, Needs::Empty)
        } else {
            ("unlink", Action::Unlink, Needs::Directory)
        };
        let path = self.caller.text(path)?;
        let spot = self.walk().start(dirfd, &path)?;
        let Last::Name(name) = &spot.last else {
            return Ok(Outcome::Continue);
        };
        let (area, look) = broker.area_at(&self.caller, &spot)?;
        let Some(area) = area.filter(|area| Area::is_covered(area)) else {
            let found = find(&spot.dir, name)?;
            if found.is_some_and(|found| found.is(libc::S_IFDIR) == is_rmdir) {
                self.note(self.read_only(what, &spot.dir, name, needs));
            }
            return Ok(Outcome::Continue);
        };
        // Whoever compares paths must not see a removed directory's inode number under another name.
        broker.locked(
            is_rmdir || Broker::is_completing(name.to_bytes()),
            |alone| {
                let site = broker.site(&self.caller, &spot.dir, &look, area)?;
                let found = find(&spot.dir, name)?.ok_or(Errno::ENOENT)?;
                // What cannot succeed is not decided, and not tried either: it may be something else by then.
                if found.is(libc::S_IFDIR) != is_rmdir {
                    at::access(spot.dir.as_fd(), c"", libc::W_OK | libc::X_OK)?;
                    // may_delete() of the kernel: flags, and the owners in a sticky directory, come first.
                    let own = [look.uid, found.uid].contains(&geteuid().as_raw());
                    if look.kept || found.kept || look.mode & libc::S_ISVTX != 0 && !own {
                        return Err(Errno::EPERM.into());
                    }
                    return Err(if is_rmdir {
                        Errno::ENOTDIR
                    } else {
                        Errno::EISDIR
                    }
                    .into());
                }
                let asked = Asked {
                    action: what,
                    site: &site,
                    name,
                    needs,
                };
                if found.mount != look.mount {
                    return Err(broker.held(action, &asked, &found));
                }
                let verdict = broker.decide(action, &site, name, kind(Some(&found)))?;
                let checks = Broker::cleared(verdict, alone, &asked)?;
                broker.pass_to_act(checks, &asked)?;
                broker.repositories.goes(&spot.dir, name.to_bytes())?;
                let name = place::with_slash(name, spot.slash)?;
                at::remove(spot.dir.as_fd(), &name, is_rmdir)?;
                if is_rmdir {
                    broker.directories.bump();
                }
                Ok(Outcome::Value(0))
            },
        )
    }
}
