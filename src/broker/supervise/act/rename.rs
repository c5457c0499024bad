//! Moving and linking: rename, link.
//!
//! Both are done alone: what moves must be what was decided about, down to every entry of a directory.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;

use super::super::areas::Area;
use super::super::facts::Around;
use super::super::judge::{Asked, Needs, Site, find, kind};
use super::super::resolve::{Goal, Last, Spot, Walk};
use super::super::{Broker, Cause, Stop, place, subtree};
use super::{Outcome, Turn};
use crate::broker::action::Kind;
use crate::broker::decide::{RenameFlags, Target, Verdict, decide_link, decide_rename};
use crate::sys::at::{self, Look};

/// A path argument: where it starts and where it is written.
type Path = (i32, u64);

/// What is linked.
enum Source {
    /// What has this name.
    Name(Spot, CString),
    /// An object the caller holds.
    Object(OwnedFd),
}

impl Turn<'_> {
    pub(super) fn rename(&self, old: Path, new: Path, flags: u32) -> Result<Outcome, Stop> {
        const KNOWN: u32 = libc::RENAME_NOREPLACE | libc::RENAME_EXCHANGE | libc::RENAME_WHITEOUT;
        let exchange = flags & libc::RENAME_EXCHANGE != 0;
        let broker = self.broker;
        if flags & !KNOWN != 0 || exchange && flags != libc::RENAME_EXCHANGE {
            return Ok(Outcome::Continue);
        }
        let (old_path, new_path) = (self.caller.text(old.1)?, self.caller.text(new.1)?);
        let from = self.walk().start(old.0, &old_path)?;
        let to = self.walk().start(new.0, &new_path)?;
        let (Last::Name(old_name), Last::Name(new_name)) = (&from.last, &to.last) else {
            return Ok(Outcome::Continue);
        };
        let (from_area, from_look) = broker.area(&from.dir)?;
        let (to_area, to_look) = broker.area(&to.dir)?;
        let covered = |area: Option<&'_ Area>| area.is_some_and(Area::is_covered);
        let (Some(from_area), Some(to_area)) = (from_area, to_area) else {
            return self.rename_elsewhere(&from, old_name, &to, new_name, (&from_look, &to_look));
        };
        if from_look.mount != to_look.mount {
            return Ok(Outcome::Continue);
        }
        if !covered(Some(from_area)) || !covered(Some(to_area)) {
            return self.rename_elsewhere(&from, old_name, &to, new_name, (&from_look, &to_look));
        }
        broker.locked(true, |_| {
            let here = broker.site(&from.dir, from_area)?;
            let there = broker.site(&to.dir, to_area)?;
            let moved = find(&from.dir, old_name)?.ok_or(Errno::ENOENT)?;
            let replaced = find(&to.dir, new_name)?;
            possible(&moved, replaced.as_ref(), flags, from_look.mount)?;
            let asked = |source: bool| Asked {
                action: "rename",
                site: if source { &here } else { &there },
                name: if source { old_name } else { new_name },
                needs: Needs::Directory,
            };
            for (source, look) in [
                (true, Some(&moved)),
                (false, replaced.as_ref().filter(|_| exchange)),
            ] {
                let Asked { site, name, .. } = asked(source);
                let path = place::join(&site.guest, name.to_bytes());
                if look.is_some_and(|look| look.is(libc::S_IFDIR)) && broker.areas.any_below(&path)
                {
                    // What is mounted below would move along, and with it the path its rules are about.
                    return Err(Broker::denied(Cause::Unsupported, &asked(source)));
                }
            }
            if let (Some(from_dir), Some(to_dir)) = (&here.dir, &there.dir) {
                let from_facts = Around::new(&here.fd, from_dir.depth(), old_name);
                let to_facts = Around::new(&there.fd, to_dir.depth(), new_name);
                let source = Target {
                    dir: from_dir,
                    name: old_name.to_bytes(),
                    kind: kind(Some(&moved)),
                    facts: &from_facts,
                };
                let target = Target {
                    dir: to_dir,
                    name: new_name.to_bytes(),
                    kind: kind(replaced.as_ref()),
                    facts: &to_facts,
                };
                let verdict = decide_rename(
                    &broker.set,
                    &source,
                    &target,
                    RenameFlags {
                        exchange,
                        whiteout: flags & libc::RENAME_WHITEOUT != 0,
                    },
                );
                let blame = broker.leaves(&source);
                if let Some(checks) = Broker::cleared(verdict, true, &asked(blame))? {
                    if checks.walk {
                        let back = exchange && kind(replaced.as_ref()) == Kind::Dir;
                        let refused =
                            subtree::refused(&broker.set, &source, &target, &here.fd, old_name)
                                .or_else(|| {
                                    back.then(|| {
                                        subtree::refused(
                                            &broker.set,
                                            &target,
                                            &source,
                                            &there.fd,
                                            new_name,
                                        )
                                    })?
                                });
                        if let Some(cause) = refused {
                            return Err(Broker::denied(cause, &asked(true)));
                        }
                    }
                    if checks.gate.is_some() {
                        return Err(Broker::gate(checks, &asked(false)));
                    }
                }
            } else if here.dir.is_some() != there.dir.is_some() {
                return Err(Errno::EXDEV.into());
            }
            at::rename(
                (from.dir.as_fd(), &place::with_slash(old_name, from.slash)?),
                (to.dir.as_fd(), &place::with_slash(new_name, to.slash)?),
                flags,
            )?;
            Ok(Outcome::Value(0))
        })
    }

    fn rename_elsewhere(
        &self,
        from: &Spot,
        old_name: &CString,
        to: &Spot,
        new_name: &CString,
        looks: (&Look, &Look),
    ) -> Result<Outcome, Stop> {
        if looks.0.mount == looks.1.mount && find(&from.dir, old_name)?.is_some() {
            self.note(self.read_only("rename", &to.dir, new_name, Needs::Directory));
        }
        Ok(Outcome::Continue)
    }

    pub(super) fn link(&self, old: Path, new: Path, flags: i32) -> Result<Outcome, Stop> {
        let broker = self.broker;
        if flags & !(libc::AT_SYMLINK_FOLLOW | libc::AT_EMPTY_PATH) != 0 {
            return Ok(Outcome::Continue);
        }
        let (old_path, new_path) = (self.caller.text(old.1)?, self.caller.text(new.1)?);
        let source = if old_path.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
            Some(Source::Object(self.caller.base(
                broker.root.as_fd(),
                old.0,
                c"",
            )?))
        } else {
            let mut walk = self.walk();
            let spot = walk.start(old.0, &old_path)?;
            linked(&mut walk, spot, flags & libc::AT_SYMLINK_FOLLOW != 0)?
        };
        let to = self.walk().start(new.0, &new_path)?;
        let (Some(source), Last::Name(new_name)) = (source, &to.last) else {
            return Ok(Outcome::Continue);
        };
        let (area, look) = broker.area(&to.dir)?;
        let Some(area) = area.filter(|area| Area::is_covered(area)) else {
            if find(&to.dir, new_name)?.is_none() {
                self.note(self.read_only("link", &to.dir, new_name, Needs::Directory));
            }
            return Ok(Outcome::Continue);
        };
        broker.locked(true, |_| {
            let there = broker.site(&to.dir, area)?;
            if find(&to.dir, new_name)?.is_some() {
                return Err(Errno::EEXIST.into());
            }
            let asked = Asked {
                action: "link",
                site: &there,
                name: new_name,
                needs: Needs::Directory,
            };
            let (linked, from) = match &source {
                Source::Name(spot, name) => {
                    let linked = find(&spot.dir, name)?.ok_or(Errno::ENOENT)?;
                    let from_area = broker.area(&spot.dir)?.0;
                    let from = match from_area.filter(|area| Area::is_covered(area)) {
                        Some(area) => Some((broker.site(&spot.dir, area)?, name.clone())),
                        // Not of this tree, so not of this mount.
                        None => return Err(Errno::EXDEV.into()),
                    };
                    (linked, from)
                }
                Source::Object(object) => {
                    let linked = at::look(object.as_fd(), c"")?;
                    let area = broker.areas.of(object.as_fd(), &linked)?;
                    let from = match area.filter(|area| Area::is_covered(area)) {
                        Some(area) => broker.name_of(object, &linked, area)?,
                        None => return Err(Errno::EXDEV.into()),
                    };
                    (linked, from)
                }
            };
            if linked.mount != look.mount {
                return Err(Errno::EXDEV.into());
            }
            if linked.is(libc::S_IFDIR) {
                return Err(Errno::EPERM.into());
            }
            let verdict = broker.decide_link(from.as_ref(), &linked, &there, new_name)?;
            if let Some(checks) = Broker::cleared(verdict, true, &asked)? {
                return Err(Broker::gate(checks, &asked));
            }
            let target = place::with_slash(new_name, to.slash)?;
            let target = (to.dir.as_fd(), target.as_c_str());
            match &source {
                Source::Name(spot, name) => {
                    let name = place::with_slash(name, spot.slash)?;
                    at::link((spot.dir.as_fd(), &name), target)?;
                }
                Source::Object(object) => at::link_object(object.as_fd(), target)?,
            }
            Ok(Outcome::Value(0))
        })
    }
}

impl super::super::Broker {
    /// It is the source that may not go.
    fn leaves(&self, source: &Target<'_>) -> bool {
        let action = crate::broker::action::Action::RenameFrom;
        matches!(
            crate::broker::decide::decide(&self.set, action, source),
            Verdict::Deny(_)
        )
    }

    fn decide_link(
        &self,
        from: Option<&(Site, CString)>,
        linked: &Look,
        there: &Site,
        new_name: &CString,
    ) -> Result<Verdict, Stop> {
        let Some(to_dir) = &there.dir else {
            // A name without rules; but never for an object that has some.
            return if from.is_some_and(|(site, _)| site.dir.is_some()) {
                Err(Errno::EXDEV.into())
            } else {
                Ok(Verdict::Allow)
            };
        };
        let to_facts = Around::new(&there.fd, to_dir.depth(), new_name);
        let target = Target {
            dir: to_dir,
            name: new_name.to_bytes(),
            kind: Kind::Absent,
            facts: &to_facts,
        };
        let Some((site, name)) = from else {
            return Ok(decide_link(&self.set, None, &target));
        };
        let Some(from_dir) = &site.dir else {
            return Err(Errno::EXDEV.into());
        };
        let from_facts = Around::new(&site.fd, from_dir.depth(), name);
        let source = Target {
            dir: from_dir,
            name: name.to_bytes(),
            kind: kind(Some(linked)),
            facts: &from_facts,
        };
        Ok(decide_link(&self.set, Some(&source), &target))
    }
}

/// What linkat(2) links: following a final link if asked to. `None` for a path whose last component is no name: a directory.
fn linked(walk: &mut Walk<'_>, mut spot: Spot, follow: bool) -> Result<Option<Source>, Stop> {
    loop {
        let Last::Name(name) = &spot.last else {
            return Ok(None);
        };
        let name = name.clone();
        let is_link = find(&spot.dir, &name)?
            .ok_or(Errno::ENOENT)?
            .is(libc::S_IFLNK);
        if !is_link || !follow && !spot.slash {
            return Ok(Some(Source::Name(spot, name)));
        }
        match walk.follow(&spot, &name)? {
            Goal::Spot(next) => spot = next,
            Goal::Object(object) => return Ok(Some(Source::Object(object))),
        }
    }
}

/// What the kernel refuses whatever the rules are (do_renameat2() and vfs_rename()), as far as it decides about names and kinds. What is
/// left to it is refused by it.
fn possible(moved: &Look, replaced: Option<&Look>, flags: u32, mount: u64) -> Result<(), Errno> {
    let exchange = flags & libc::RENAME_EXCHANGE != 0;
    match replaced {
        Some(_) if flags & libc::RENAME_NOREPLACE != 0 => return Err(Errno::EEXIST),
        None if exchange => return Err(Errno::ENOENT),
        _ => {}
    }
    // From here a mount of the sandbox does not hold a name: the kernel looks at the mounts of who asks.
    if moved.mount != mount || replaced.is_some_and(|replaced| replaced.mount != mount) {
        return Err(Errno::EBUSY);
    }
    if let Some(replaced) = replaced.filter(|_| !exchange) {
        match (moved.is(libc::S_IFDIR), replaced.is(libc::S_IFDIR)) {
            (true, false) => return Err(Errno::ENOTDIR),
            (false, true) => return Err(Errno::EISDIR),
            _ => {}
        }
    }
    Ok(())
}
