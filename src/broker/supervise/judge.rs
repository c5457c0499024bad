//! From a pinned directory to a verdict, inside the lock.
//!
//! What is decided holds for the path the directory has *now*; so that it holds while the broker acts as well, no directory may move in
//! between (P2). Plain operations share the lock; renames, links, and whatever can make a directory a git directory take it alone. So
//! the kinds of the names that were decided about, and the entries around them, stand still where the decision depends on them.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use nix::errno::Errno;

use super::areas::{Area, Kind as AreaKind, On};
use super::caller::Caller;
use super::denial::Denied;
use super::memory::Fd;
use super::{Broker, Cause, Stop, Unlocked, place, resolve, subtree};
use crate::broker::action::{Action, Kind};
use crate::broker::decide::{Dir, Reason, Target, Verdict, decide};
use crate::broker::git_paths::Gate;
use crate::broker::gitdir::pass::Spot;
use crate::broker::gitdir::{self, Ask, GateError, Passed, Pinned};
use crate::sys::at::{self, Look};
use crate::sys::libc;

/// Entries that can make the directory around them a git directory, folded.
const COMPLETING: [&[u8]; 6] = [
    b"head",
    b"refs",
    b"objects",
    b"worktrees",
    b"commondir",
    b".git",
];

/// A covered directory, by its path at this moment.
#[derive(Debug, Clone)]
pub(super) struct Site {
    pub(super) fd: Fd,
    place: Arc<Place>,
}

/// What follows from the path of a covered directory.
#[derive(Debug)]
pub(super) struct Place {
    /// Path inside.
    pub(super) guest: Vec<u8>,
    /// The area it lies in.
    area: Option<usize>,
    /// The tree it lies in and its path there; `None` where no rule holds (served).
    tree: Option<(usize, Dir)>,
}

impl Site {
    pub(super) fn new(fd: &Fd, place: Arc<Place>) -> Self {
        Self {
            fd: Fd::clone(fd),
            place,
        }
    }

    /// Path inside.
    pub(super) fn guest(&self) -> &[u8] {
        &self.place.guest
    }

    /// The tree it lies in and its path there; `None` where no rule holds (served).
    pub(super) fn tree(&self) -> Option<&(usize, Dir)> {
        self.place.tree.as_ref()
    }
}

/// What has to be done before the act, under the exclusive lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Checks {
    pub(super) walk: bool,
    pub(super) gate: Option<Gate>,
}

impl Broker {
    /// Runs `act` under the shared lock, and where it asks for that (or `alone` does) under the exclusive one.
    pub(super) fn locked<T>(
        &self,
        alone: bool,
        mut act: impl FnMut(bool) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        if !alone {
            let _shared = self.lock.shared().map_err(|why| self.unlocked(why))?;
            match act(false) {
                Err(Stop::Exclusive) => {}
                other => return other,
            }
        }
        let _exclusive = self.lock.alone().map_err(|why| self.unlocked(why))?;
        act(true)
    }

    /// Nothing is decided without the lock.
    fn unlocked(&self, why: Unlocked) -> Errno {
        match why {
            Unlocked::Refused => Errno::EACCES,
            Unlocked::Held { by, news } => {
                if news {
                    self.sink.held_up(by);
                }
                Errno::EIO
            }
        }
    }

    /// The area of a directory, with what it looks like.
    pub(super) fn area(
        &self,
        caller: &Caller<'_>,
        dir: &Fd,
    ) -> Result<(Option<&Area>, Look), Errno> {
        let look = at::look(dir.as_fd(), c"")?;
        self.area_of(caller, dir, look)
    }

    /// The area of the directory that a path leads to.
    pub(super) fn area_at(
        &self,
        caller: &Caller<'_>,
        spot: &resolve::Spot,
    ) -> Result<(Option<&Area>, Look), Errno> {
        match spot.look {
            Some(look) => self.area_of(caller, &spot.dir, look),
            None => self.area(caller, &spot.dir),
        }
    }

    fn area_of(
        &self,
        caller: &Caller<'_>,
        dir: &Fd,
        look: Look,
    ) -> Result<(Option<&Area>, Look), Errno> {
        let area = match self.areas.on(look.mount) {
            On::None => None,
            On::Area(area) => Some(area),
            On::Path => {
                let place = self.place_of(caller, dir, &look)?;
                place.area.and_then(|index| self.areas.get(index))
            }
        };
        Ok((area, look))
    }

    /// Where a directory is; means something inside the lock only.
    fn place_of(&self, caller: &Caller<'_>, dir: &Fd, look: &Look) -> Result<Arc<Place>, Errno> {
        let moves = self.directories.now();
        if let Some(place) = caller.memory.seen(look, moves, caller.now) {
            return Ok(place);
        }
        let path = place::path(dir.as_fd())?;
        let area = self.areas.with_path(look.mount, &path);
        let place = self.place_at(caller, area, &path)?;
        // The name of a removed directory is not its name, and its inode number will be somebody else's.
        if !path.ends_with(place::DELETED) {
            caller.memory.saw(look, moves, caller.now, &place);
        }
        Ok(place)
    }

    /// Where a covered directory is; `None` where it is not covered. To be called inside the lock.
    pub(super) fn known(
        &self,
        caller: &Caller<'_>,
        dir: &Fd,
        look: &Look,
    ) -> Result<Option<Arc<Place>>, Errno> {
        if matches!(self.areas.on(look.mount), On::None) {
            return Ok(None);
        }
        let place = self.place_of(caller, dir, look)?;
        let area = place.area.and_then(|index| self.areas.get(index));
        Ok(area.is_some_and(Area::is_covered).then_some(place))
    }

    /// What follows from a path in an area.
    pub(super) fn place_at(
        &self,
        caller: &Caller<'_>,
        area: Option<&Area>,
        path: &[u8],
    ) -> Result<Arc<Place>, Errno> {
        let number = area.map_or(usize::MAX, |area| area.index);
        caller.memory.place(number, path, || {
            let tree = match area.map(|area| (area.kind, area)) {
                Some((AreaKind::Tree(index), area)) => {
                    let below = place::below(path, &area.guest).ok_or(Errno::EACCES)?;
                    let below = place::components(below);
                    let dir = Dir::new(&self.set, index, &below).ok_or(Errno::EACCES)?;
                    Some((index, dir))
                }
                _ => None,
            };
            Ok(Place {
                guest: path.to_vec(),
                area: area.map(|area| area.index),
                tree,
            })
        })
    }

    /// Where a covered directory is. To be called inside the lock.
    pub(super) fn site(
        &self,
        caller: &Caller<'_>,
        dir: &Fd,
        look: &Look,
        area: &Area,
    ) -> Result<Site, Errno> {
        let place = self.place_of(caller, dir, look)?;
        // It has gone to another area since it was looked at, or out of all of them.
        if !area.is_covered() || place.area != Some(area.index) {
            return Err(Errno::EACCES);
        }
        Ok(Site::new(dir, place))
    }

    /// Whether an entry of this name may change what the directory around it is.
    pub(super) fn is_completing(name: &[u8]) -> bool {
        let folded = crate::broker::fold::fold(name, crate::broker::fold::NameRules::Windows);
        COMPLETING.iter().any(|c| *c == folded.as_ref())
    }

    /// The facts around a name of a covered directory.
    pub(super) fn facts<'a>(&'a self, site: &'a Site, name: &'a CStr) -> Option<Pinned<'a>> {
        let (tree, dir) = site.tree()?;
        let above = self.above.get(*tree)?;
        Some(Pinned::new(
            site.fd.as_fd(),
            dir,
            name.to_bytes(),
            above,
            &self.repositories,
        ))
    }

    /// Decides a call that concerns one name.
    pub(super) fn decide(
        &self,
        action: Action,
        site: &Site,
        name: &CStr,
        kind: Kind,
    ) -> Result<Verdict, Stop> {
        let (Some((_, dir)), Some(facts)) = (site.tree(), self.facts(site, name)) else {
            return Ok(Verdict::Allow);
        };
        let target = Target {
            dir,
            name: name.to_bytes(),
            kind,
            facts: &facts,
        };
        let verdict = decide(&self.set, action, &target);
        sound(&facts)?;
        Ok(verdict)
    }

    /// Turns a verdict into what is to be done: `None` to act at once. `asked` says what was asked, for the report.
    pub(super) fn cleared(
        verdict: Verdict,
        alone: bool,
        asked: &Asked<'_>,
    ) -> Result<Option<Checks>, Stop> {
        let (walk, gate) = match verdict {
            Verdict::Allow => return Ok(None),
            Verdict::Deny(reason) => return Err(Self::denied(cause(reason), asked)),
            Verdict::NeedsGate(_) | Verdict::NeedsSubtreeWalk(_) if !alone => {
                return Err(Stop::Exclusive);
            }
            Verdict::NeedsGate(gate) => (false, Some(gate)),
            Verdict::NeedsSubtreeWalk(gate) => (true, gate),
        };
        Ok(Some(Checks { walk, gate }))
    }

    /// The present name of an object that was reached by a descriptor; `None` where it has none, or is what its area starts with.
    pub(super) fn name_of(
        &self,
        caller: &Caller<'_>,
        object: &OwnedFd,
        look: &Look,
        area: &Area,
    ) -> Result<Option<(Site, CString)>, Stop> {
        let path = place::path(object.as_fd())?;
        if path == area.guest || look.links == 0 {
            return Ok(None);
        }
        let slash = path.iter().rposition(|&b| b == b'/').ok_or(Errno::EACCES)?;
        let (above, name) = path.split_at(slash);
        let name = name.get(1..).unwrap_or_default();
        // A file made without a name (`O_TMPFILE`) keeps the words of that; every name it got was decided on when it got it.
        let unnamed = format!("#{}", look.ino).into_bytes();
        if name.strip_suffix(place::DELETED) == Some(&unnamed) {
            return Ok(None);
        }
        let above = above.strip_prefix(b"/").unwrap_or_default();
        let above = if above.is_empty() { b"." } else { above };
        let above = CString::new(above).map_err(|_| Errno::EACCES)?;
        let how = at::How {
            flags: place::PATH_DIR,
            mode: 0,
            resolve: libc::RESOLVE_NO_SYMLINKS,
        };
        let dir = Fd::new(at::open(self.root.as_fd(), &above, how).map_err(|_| Errno::EACCES)?);
        let name = CString::new(name).map_err(|_| Errno::EACCES)?;
        // Another name of a file whose own is gone may be a protected one.
        if !find(&dir, &name)?.is_some_and(|found| found.same(look)) {
            return Err(Errno::EACCES.into());
        }
        let dir_look = at::look(dir.as_fd(), c"")?;
        Ok(Some((self.site(caller, &dir, &dir_look, area)?, name)))
    }

    /// Makes the check that a verdict demands, under the exclusive lock. `from` is what is renamed to the name.
    pub(super) fn pass(
        &self,
        gate: Gate,
        asked: &Asked<'_>,
        from: Option<(&Site, &CStr)>,
        noreplace: bool,
        mode: u32,
    ) -> Result<Passed, Stop> {
        let unsupported = || Self::denied(Cause::Unsupported, asked);
        let to_facts = self.facts(asked.site, asked.name).ok_or_else(unsupported)?;
        let to = spot(asked.site, asked.name, &to_facts).ok_or_else(unsupported)?;
        let from_facts = from.and_then(|(site, name)| self.facts(site, name));
        let from = from
            .zip(from_facts.as_ref())
            .and_then(|((site, name), facts)| spot(site, name, facts));
        let ask = Ask {
            set: &self.set,
            to,
            from,
            noreplace,
            mode,
        };
        gitdir::pass(gate, &ask).map_err(|error| match error {
            GateError::Refused(refusal) => Self::denied(Cause::Git(refusal.to_string()), asked),
            GateError::Failed(errno) => Stop::Errno(errno),
        })
    }

    /// The check for a call that moves nothing.
    pub(super) fn pass_plain(
        &self,
        checks: Option<Checks>,
        asked: &Asked<'_>,
        exclusive: bool,
        mode: u32,
    ) -> Result<Passed, Stop> {
        match checks {
            None => Ok(Passed::Act),
            Some(Checks {
                walk: false,
                gate: Some(gate),
            }) => self.pass(gate, asked, None, exclusive, mode),
            Some(_) => Err(Self::denied(Cause::Unsupported, asked)),
        }
    }

    /// As [`Self::pass_plain`], where no check does what was asked.
    pub(super) fn pass_to_act(
        &self,
        checks: Option<Checks>,
        asked: &Asked<'_>,
    ) -> Result<(), Stop> {
        match self.pass_plain(checks, asked, false, 0)? {
            Passed::Act => Ok(()),
            Passed::Done | Passed::Give(_) | Passed::Stage(..) => Err(Errno::EACCES.into()),
        }
    }

    /// In a private cache no rule is about names, but it shows the host's files: what may not be read there by its name must not be moved or
    /// linked to one that may. To be called inside the exclusive lock. In other trees the rules say so themselves.
    pub(super) fn stays_hidden(
        &self,
        from: (&Site, &CStr),
        to: (&Site, &CStr),
        action: &'static str,
    ) -> Result<(), Stop> {
        let Some(reads) = self.reads.as_ref().filter(|r| r.decides) else {
            return Ok(());
        };
        let (site, name) = from;
        let Some((tree, dir)) = site.tree() else {
            return Ok(());
        };
        let top = self.trees.get(*tree).map(|tree| tree.guest.as_slice());
        let Some(top) = top.filter(|_| dir.is_private()) else {
            return Ok(());
        };
        let old = place::join(site.guest(), name.to_bytes());
        let new = place::join(to.0.guest(), to.1.to_bytes());
        let refused = reads.loses(&old, &new).map(Cause::Hidden).or_else(|| {
            let below = |path: &[u8], rel: &[&[u8]]| place::join(path, &rel.join(&b'/'));
            let rules = subtree::Rules {
                refuses: &|rel, _| {
                    let lost = reads.loses(&below(&old, rel), &below(&new, rel));
                    lost.map(Cause::Hidden)
                },
                may_hide: &|_| true,
            };
            let through = reads.leads_through(&old, top);
            through.then(|| rules.walk(&site.fd, name)).flatten()
        });
        refused.map_or(Ok(()), |cause| {
            Err(Stop::Denied(Box::new(Denied {
                action,
                guest: old,
                cause,
                anyway: false,
            })))
        })
    }

    /// As [`Self::denied`], where the line is about another name than the one the kernel would have asked about.
    pub(super) fn denied_for(reason: Reason, told: &Asked<'_>, asked: &Asked<'_>) -> Stop {
        Stop::Denied(Box::new(Denied {
            action: told.action,
            guest: place::join(told.site.guest(), told.name.to_bytes()),
            cause: cause(reason),
            anyway: asked.would_fail(),
        }))
    }

    /// A refusal of the broker, to be reported once the lock is free.
    pub(super) fn denied(cause: Cause, asked: &Asked<'_>) -> Stop {
        Stop::Denied(Box::new(Denied {
            action: asked.action,
            guest: place::join(asked.site.guest(), asked.name.to_bytes()),
            cause,
            // The kernel would have refused as well: nothing to report.
            anyway: asked.would_fail(),
        }))
    }
}

/// An answer to a fact that could not be looked up is worth nothing.
pub(super) fn sound(facts: &Pinned<'_>) -> Result<(), Stop> {
    match facts.failed() {
        None => Ok(()),
        Some(errno) => Err(errno.into()),
    }
}

fn spot<'a>(site: &'a Site, name: &'a CStr, facts: &'a Pinned<'a>) -> Option<Spot<'a>> {
    let (_, path) = site.tree()?;
    Some(Spot {
        dir: site.fd.as_fd(),
        path,
        name: name.to_bytes(),
        facts,
    })
}

/// What is asked of one name, in words for the report.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) action: &'static str,
    pub(super) site: &'a Site,
    pub(super) name: &'a CStr,
    pub(super) needs: Needs,
}

/// Which rights the kernel would ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// Change the directory.
    Directory,
    /// Open the existing object for writing.
    Object,
    /// Own the object.
    Ownership,
    /// Change the directory, which must be empty.
    Empty,
}

impl Asked<'_> {
    /// The user's own rights are not enough, so that it is not the sandbox that stands in the way.
    fn would_fail(&self) -> bool {
        let dir = self.site.fd.as_fd();
        match self.needs {
            Needs::Directory => at::access(dir, c"", libc::W_OK | libc::X_OK).is_err(),
            // A read-only mount on the name is the sandbox's: it stands on a writable one.
            Needs::Object => !matches!(
                at::access(dir, self.name, libc::W_OK),
                Ok(()) | Err(Errno::EROFS)
            ),
            Needs::Ownership => {
                let own = nix::unistd::geteuid().as_raw();
                at::look(dir, self.name).is_ok_and(|look| look.uid != own)
            }
            Needs::Empty => {
                at::access(dir, c"", libc::W_OK | libc::X_OK).is_err()
                    || has_entries(&self.site.fd, self.name)
            }
        }
    }
}

/// A directory with entries cannot be removed.
fn has_entries(dir: &OwnedFd, name: &CStr) -> bool {
    let how = at::How {
        flags: place::flags(libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW),
        ..at::How::default()
    };
    let opened = at::open(dir.as_fd(), name, how).map(nix::dir::Dir::from_fd);
    let Ok(Ok(mut entries)) = opened else {
        return false;
    };
    entries
        .iter()
        .flatten()
        .any(|entry| !matches!(entry.file_name().to_bytes(), b"." | b".."))
}

pub(super) fn cause(reason: Reason) -> Cause {
    match reason {
        Reason::Rule(index) => Cause::Rule(index),
        Reason::Git(why) => Cause::Git(why.to_owned()),
        Reason::BareRepository => Cause::BareRepository,
        Reason::ShortName => Cause::ShortName,
        Reason::Unsupported => Cause::Unsupported,
    }
}

/// The kind of what has a name.
pub(super) fn kind(look: Option<&Look>) -> Kind {
    match look.map(|look| look.mode & libc::S_IFMT) {
        None => Kind::Absent,
        Some(libc::S_IFREG) => Kind::File,
        Some(libc::S_IFDIR) => Kind::Dir,
        Some(libc::S_IFLNK) => Kind::Symlink,
        Some(_) => Kind::Other,
    }
}

/// What has the name now; `None` for nothing.
pub(super) fn find(dir: &OwnedFd, name: &CStr) -> Result<Option<Look>, Errno> {
    match at::look(dir.as_fd(), name) {
        Err(Errno::ENOENT) => Ok(None),
        other => other.map(Some),
    }
}
