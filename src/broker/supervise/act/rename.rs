//! Moving and linking: rename, link.
//!
//! Both are done alone: what moves must be what was decided about, down to every entry of a directory.

use std::ffi::{CStr, CString};
use std::os::fd::AsFd;

use nix::errno::Errno;

use super::super::areas::Area;
use super::super::judge::{Asked, Needs, Site, find, kind, sound};
use super::super::memory::Fd;
use super::super::resolve::{Goal, Last, Spot, Walk};
use super::super::{Broker, Cause, Stop, place, subtree};
use super::{Outcome, Turn};
use crate::broker::action::{Action, Kind};
use crate::broker::decide::{RenameFlags, Target, Verdict, decide, decide_link, decide_rename};
use crate::broker::gitdir::Passed;
use crate::sys::at::{self, Look};
use crate::sys::libc;

/// A path argument: where it starts and where it is written.
type Path = (i32, u64);

/// What is linked.
enum Source {
    /// What has this name.
    Name(Spot, CString),
    /// An object the caller holds.
    Object(Fd),
    /// What the path names is a directory, on this mount.
    Directory(u64),
}

impl Turn<'_> {
    pub(super) fn rename(&self, old: Path, new: Path, flags: u32) -> Result<Outcome, Stop> {
        const KNOWN: u32 = libc::RENAME_NOREPLACE | libc::RENAME_EXCHANGE | libc::RENAME_WHITEOUT;
        let exchange = flags & libc::RENAME_EXCHANGE != 0;
        let broker = self.broker;
        if flags & !KNOWN != 0 || exchange && flags != libc::RENAME_EXCHANGE {
            return Ok(Outcome::Continue);
        }
        // Each path is looked at only when the one before has been found to lead somewhere.
        let (old_path, new_path) = (self.caller.text(old.1), self.caller.text(new.1));
        let from = self.walk().start(old.0, &old_path?)?;
        let to = self.walk().start(new.0, &new_path?)?;
        let (Last::Name(old_name), Last::Name(new_name)) = (&from.last, &to.last) else {
            return Ok(Outcome::Continue);
        };
        let (from_area, from_look) = broker.area_at(&self.caller, &from)?;
        let (to_area, to_look) = broker.area_at(&self.caller, &to)?;
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
            let here = broker.site(&self.caller, &from.dir, &from_look, from_area)?;
            let there = broker.site(&self.caller, &to.dir, &to_look, to_area)?;
            let Some(moved) = find(&from.dir, old_name)? else {
                // The kernel has walked both paths before it looks at a name.
                at::access(to.dir.as_fd(), c"", libc::X_OK)?;
                return Err(Errno::ENOENT.into());
            };
            let replaced = find(&to.dir, new_name)?;
            let rename = Move {
                from: (&here, old_name, &moved),
                to: (&there, new_name, replaced.as_ref()),
                flags,
            };
            possible(&rename, (from.slash, to.slash))?;
            let asked = |source: bool| Asked {
                action: if source { "rename" } else { "rename-to" },
                site: if source { &here } else { &there },
                name: if source { old_name } else { new_name },
                needs: Needs::Directory,
            };
            let mounted = |look: &&Look| look.mount != from_look.mount;
            if mounted(&&moved) {
                return Err(broker.held(Action::RenameFrom, &asked(true), &moved));
            }
            if let Some(replaced) = replaced.as_ref().filter(mounted) {
                let action = Action::RenameTo(kind(Some(&moved)));
                return Err(broker.held(action, &asked(false), replaced));
            }
            for (source, look) in [
                (true, Some(&moved)),
                (false, replaced.as_ref().filter(|_| exchange)),
            ] {
                let Asked { site, name, .. } = asked(source);
                let path = place::join(site.guest(), name.to_bytes());
                if look.is_some_and(|look| look.is(libc::S_IFDIR)) && broker.areas.any_below(&path)
                {
                    // What is mounted below would move along, and with it the path its rules are about, that its grant is for, and
                    // that the next run looks for.
                    return Err(Broker::denied(Cause::Unsupported, &asked(source)));
                }
            }
            broker.stays_hidden((&here, old_name), (&there, new_name), "rename")?;
            if exchange {
                broker.stays_hidden((&there, new_name), (&here, old_name), "rename")?;
            }
            if let Passed::Done = broker.pass_rename(&rename)? {
                return Ok(Outcome::Value(0));
            }
            broker.repositories.goes(&from.dir, old_name.to_bytes())?;
            broker.repositories.goes(&to.dir, new_name.to_bytes())?;
            at::rename(
                (from.dir.as_fd(), &place::with_slash(old_name, from.slash)?),
                (to.dir.as_fd(), &place::with_slash(new_name, to.slash)?),
                flags,
            )?;
            let is_dir = |look: &Look| look.is(libc::S_IFDIR);
            if is_dir(&moved) || replaced.as_ref().is_some_and(is_dir) {
                broker.directories.bump();
            }
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
            self.note(self.read_only("rename-to", &to.dir, new_name, Needs::Directory));
        }
        Ok(Outcome::Continue)
    }

    pub(super) fn link(&self, old: Path, new: Path, flags: i32) -> Result<Outcome, Stop> {
        let broker = self.broker;
        if flags & !(libc::AT_SYMLINK_FOLLOW | libc::AT_EMPTY_PATH) != 0 {
            return Ok(Outcome::Continue);
        }
        let (old_path, new_path) = (self.caller.text(old.1)?, self.caller.text(new.1));
        let source = if old_path.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
            Source::Object(self.caller.base(&broker.root, old.0, c"")?)
        } else {
            let mut walk = self.walk();
            let spot = walk.start(old.0, &old_path)?;
            linked(&mut walk, spot, flags & libc::AT_SYMLINK_FOLLOW != 0)?
        };
        let to = self.walk().start(new.0, &new_path?)?;
        let Last::Name(new_name) = &to.last else {
            return Ok(Outcome::Continue);
        };
        let (area, look) = broker.area_at(&self.caller, &to)?;
        let Some(area) = area.filter(|area| Area::is_covered(area)) else {
            if find(&to.dir, new_name)?.is_none() {
                self.note(self.read_only("link", &to.dir, new_name, Needs::Directory));
            }
            return Ok(Outcome::Continue);
        };
        broker.locked(true, |_| {
            let there = broker.site(&self.caller, &to.dir, &look, area)?;
            if find(&to.dir, new_name)?.is_some() {
                return Err(Errno::EEXIST.into());
            }
            if to.slash {
                return Err(Errno::ENOENT.into());
            }
            let asked = Asked {
                action: "link",
                site: &there,
                name: new_name,
                needs: Needs::Directory,
            };
            let (linked, from) = match &source {
                Source::Directory(mount) if *mount == look.mount => {
                    return Err(no_link_of_a_directory(&to.dir).into());
                }
                Source::Directory(_) => return Err(Errno::EXDEV.into()),
                Source::Name(spot, name) => {
                    let linked = find(&spot.dir, name)?.ok_or(Errno::ENOENT)?;
                    let (from_area, from_look) = broker.area_at(&self.caller, spot)?;
                    let from = match from_area.filter(|area| Area::is_covered(area)) {
                        Some(area) => Some((
                            broker.site(&self.caller, &spot.dir, &from_look, area)?,
                            name.clone(),
                        )),
                        // Not of this tree, so not of this mount.
                        None => return Err(Errno::EXDEV.into()),
                    };
                    (linked, from)
                }
                Source::Object(object) => {
                    let linked = at::look(object.as_fd(), c"")?;
                    let area = broker.areas.of(object.as_fd(), &linked)?;
                    let from = match area.filter(|area| Area::is_covered(area)) {
                        Some(area) => broker.name_of(&self.caller, object, &linked, area)?,
                        None => return Err(Errno::EXDEV.into()),
                    };
                    (linked, from)
                }
            };
            if linked.mount != look.mount {
                if let Some((site, name)) = &from {
                    let source = Asked {
                        site,
                        name,
                        ..asked
                    };
                    broker.ruled(Action::LinkFrom, &source, &linked)?;
                }
                return Err(Errno::EXDEV.into());
            }
            if linked.is(libc::S_IFDIR) {
                return Err(no_link_of_a_directory(&to.dir).into());
            }
            let verdict = broker.decide_link(from.as_ref(), &linked, &there, new_name)?;
            if let (Verdict::Deny(_), Some((site, name))) = (verdict, &from)
                && let Verdict::Deny(reason) =
                    broker.decide(Action::LinkFrom, site, name, kind(Some(&linked)))?
            {
                // A second name of a closed file: the file is what the line is about.
                let source = Asked {
                    action: "link",
                    site,
                    name,
                    needs: Needs::Directory,
                };
                return Err(Broker::denied_for(reason, &source, &asked));
            }
            let checks = Broker::cleared(verdict, true, &asked)?;
            if let Some((site, name)) = &from {
                broker.stays_hidden((site, name), (&there, new_name), "link")?;
            }
            broker.pass_to_act(checks, &asked)?;
            let target = (to.dir.as_fd(), new_name.as_c_str());
            match &source {
                Source::Name(spot, name) => {
                    let name = place::with_slash(name, spot.slash)?;
                    at::link((spot.dir.as_fd(), &name), target)?;
                }
                Source::Object(object) => at::link_object(object.as_fd(), target)?,
                Source::Directory(_) => return Err(Errno::EPERM.into()),
            }
            Ok(Outcome::Value(0))
        })
    }
}

/// A rename that is possible.
struct Move<'a> {
    from: (&'a Site, &'a CStr, &'a Look),
    to: (&'a Site, &'a CStr, Option<&'a Look>),
    flags: u32,
}

impl Broker {
    /// Decides a rename and makes the checks it needs. Only a walk or a gate has an outcome of its own.
    fn pass_rename(&self, asked_for: &Move<'_>) -> Result<Passed, Stop> {
        let Move { from, to, flags } = asked_for;
        let (here, old_name, moved) = *from;
        let (there, new_name, replaced) = *to;
        let asked = |source: bool| Asked {
            action: if source { "rename" } else { "rename-to" },
            site: if source { here } else { there },
            name: if source { old_name } else { new_name },
            needs: Needs::Directory,
        };
        let ((_, from_dir), (_, to_dir)) = match (here.tree(), there.tree()) {
            (Some(from), Some(to)) => (from, to),
            (None, None) => return Ok(Passed::Act),
            // Two areas of one mount: to the caller they are two mounts.
            _ => return Err(Errno::EXDEV.into()),
        };
        let no_facts = || Self::denied(Cause::Unsupported, &asked(true));
        let from_facts = self.facts(here, old_name).ok_or_else(no_facts)?;
        let to_facts = self.facts(there, new_name).ok_or_else(no_facts)?;
        let source = Target {
            dir: from_dir,
            name: old_name.to_bytes(),
            kind: kind(Some(moved)),
            facts: &from_facts,
        };
        let target = Target {
            dir: to_dir,
            name: new_name.to_bytes(),
            kind: kind(replaced),
            facts: &to_facts,
        };
        let exchange = flags & libc::RENAME_EXCHANGE != 0;
        let flags = RenameFlags {
            exchange,
            whiteout: flags & libc::RENAME_WHITEOUT != 0,
        };
        let verdict = decide_rename(&self.set, &source, &target, flags);
        sound(&from_facts)?;
        sound(&to_facts)?;
        let denied = |verdict| matches!(verdict, Verdict::Deny(_));
        let blamed =
            asked(denied(verdict) && denied(decide(&self.set, Action::RenameFrom, &source)));
        let Some(checks) = Self::cleared(verdict, true, &blamed)? else {
            return Ok(Passed::Act);
        };
        if checks.walk {
            let there_and_back = [
                (&source, &target, &here.fd, old_name),
                (&target, &source, &there.fd, new_name),
            ];
            let directions = if exchange { 2 } else { 1 };
            for (from, to, dir, name) in there_and_back.into_iter().take(directions) {
                if let Some(cause) = subtree::refused(&self.set, from, to, dir, name) {
                    let whole = Asked {
                        action: "move",
                        ..asked(true)
                    };
                    return Err(Self::denied(cause, &whole));
                }
            }
            sound(&from_facts)?;
            sound(&to_facts)?;
        }
        match checks.gate {
            None => Ok(Passed::Act),
            Some(gate) => self.pass(
                gate,
                &asked(false),
                Some((here, old_name)),
                asked_for.flags & libc::RENAME_NOREPLACE != 0,
                0,
            ),
        }
    }

    fn decide_link(
        &self,
        from: Option<&(Site, CString)>,
        linked: &Look,
        there: &Site,
        new_name: &CString,
    ) -> Result<Verdict, Stop> {
        let from_tree = from.and_then(|(site, _)| site.tree());
        let Some((_, to_dir)) = there.tree() else {
            // A name without rules; but never for an object that has some.
            return if from_tree.is_some() {
                Err(Errno::EXDEV.into())
            } else {
                Ok(Verdict::Allow)
            };
        };
        let to_facts = self.facts(there, new_name).ok_or(Errno::EACCES)?;
        let target = Target {
            dir: to_dir,
            name: new_name.to_bytes(),
            kind: Kind::Absent,
            facts: &to_facts,
        };
        let verdict = match (from, from_tree) {
            (None, _) => decide_link(&self.set, None, &target),
            (Some(_), None) => return Err(Errno::EXDEV.into()),
            (Some((site, name)), Some((_, dir))) => {
                let facts = self.facts(site, name).ok_or(Errno::EACCES)?;
                let source = Target {
                    dir,
                    name: name.to_bytes(),
                    kind: kind(Some(linked)),
                    facts: &facts,
                };
                let verdict = decide_link(&self.set, Some(&source), &target);
                sound(&facts)?;
                verdict
            }
        };
        sound(&to_facts)?;
        Ok(verdict)
    }
}

/// The right to make a name is asked for before (vfs_link() of the kernel).
fn no_link_of_a_directory(to: &Fd) -> Errno {
    let may = at::access(to.as_fd(), c"", libc::W_OK | libc::X_OK);
    may.err().unwrap_or(Errno::EPERM)
}

/// What linkat(2) links: following a final link if asked to.
fn linked(walk: &mut Walk<'_>, mut spot: Spot, follow: bool) -> Result<Source, Stop> {
    loop {
        let Last::Name(name) = &spot.last else {
            return Ok(Source::Directory(at::look(spot.dir.as_fd(), c"")?.mount));
        };
        let name = name.clone();
        let found = find(&spot.dir, &name)?.ok_or(Errno::ENOENT)?;
        if spot.slash && !found.is(libc::S_IFLNK) && !found.is(libc::S_IFDIR) {
            return Err(Errno::ENOTDIR.into());
        }
        if !found.is(libc::S_IFLNK) || !follow && !spot.slash {
            return Ok(Source::Name(spot, name));
        }
        match walk.follow(&spot, &name)? {
            Goal::Spot(next) => spot = next,
            Goal::Object(object) => return Ok(Source::Object(object)),
        }
    }
}

/// What the kernel refuses whatever the rules are, as far as it decides about names and kinds: do_renameat2() and may_delete(), in their
/// order. What is left to it is refused by it.
fn possible(rename: &Move<'_>, slashes: (bool, bool)) -> Result<(), Errno> {
    let (here, old_name, moved) = rename.from;
    let (there, new_name, replaced) = rename.to;
    let exchange = rename.flags & libc::RENAME_EXCHANGE != 0;
    let is_dir = |look: &Look| look.is(libc::S_IFDIR);
    match replaced {
        Some(_) if rename.flags & libc::RENAME_NOREPLACE != 0 => return Err(Errno::EEXIST),
        None if exchange => return Err(Errno::ENOENT),
        Some(replaced) if exchange && slashes.1 && !is_dir(replaced) => {
            return Err(Errno::ENOTDIR);
        }
        _ => {}
    }
    if !is_dir(moved) && (slashes.0 || slashes.1 && !exchange) {
        return Err(Errno::ENOTDIR);
    }
    let old = place::join(here.guest(), old_name.to_bytes());
    let new = place::join(there.guest(), new_name.to_bytes());
    if place::below(there.guest(), &old).is_some() {
        return Err(Errno::EINVAL);
    }
    if place::below(here.guest(), &new).is_some() {
        return Err(if exchange {
            Errno::EINVAL
        } else {
            Errno::ENOTEMPTY
        });
    }
    let mismatch = match replaced.filter(|_| !exchange).map(is_dir) {
        Some(false) if is_dir(moved) => Errno::ENOTDIR,
        Some(true) if !is_dir(moved) => Errno::EISDIR,
        _ => return Ok(()),
    };
    // The right to change the directories is asked for before.
    for dir in [&here.fd, &there.fd] {
        at::access(dir.as_fd(), c"", libc::W_OK | libc::X_OK)?;
    }
    Err(mismatch)
}
