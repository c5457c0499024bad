//! Where the runs of one user meet, so that none moves a directory while another decides about a path in it (docs/adr/0007).
//!
//! It has to be one place for all of them, so it follows from the user's number alone: `HOME` and `XDG_STATE_HOME` differ between a shell,
//! a service and a harness. `/run/user/UID` comes and goes with the logins of the user, and what is below `/dev/shm` goes with the last
//! one, while runs may go on; two runs would meet in two places then. So it is a directory in `/tmp`, where only its owner can move it away.

use std::path::{Path, PathBuf};

use super::Gap;
use super::caches::state_can_be_kept;
use super::context::Ctx;
use crate::broker::plan::BrokerPlan;
use crate::host::fs_view::Kind;

const SHARED: &str = "/tmp";
/// Not even root may delete or rename what is somebody else's in there by accident; others cannot (inode(7)).
const STICKY: u32 = 0o1000;
const OTHERS_WRITE: u32 = 0o022;
const OTHERS: u32 = 0o077;

/// The one place, where it can be used. Whoever can make things in `/tmp` may have put anything else at its name.
pub(super) fn common(ctx: Ctx<'_>) -> Option<PathBuf> {
    unusable(ctx).is_none().then(|| name(ctx))
}

fn name(ctx: Ctx<'_>) -> PathBuf {
    Path::new(SHARED).join(format!(".ccbox-{}", ctx.host.uid))
}

/// The place of this run: the common one, or where that cannot be, one for the runs with the same state.
pub(super) fn place(ctx: Ctx<'_>) -> Option<PathBuf> {
    let own = || state_can_be_kept(ctx).then(|| ctx.host.state_dir.join("runs"));
    common(ctx).or_else(own)
}

/// Says that it is not the common one.
pub(super) fn gap(ctx: Ctx<'_>, broker: Option<&BrokerPlan>) -> Option<Gap> {
    let broker = broker?;
    let why = unusable(ctx)?;
    let place = name(ctx);
    let others = if broker.lock_dir.is_some() {
        "a run with another state directory"
    } else {
        "another run"
    };
    Some(Gap {
        name: "other-runs",
        text: format!(
            "`{}` {why}, so nothing keeps {others} in the same tree from moving a directory while this one decides about a path in it",
            place.display()
        ),
    })
}

/// Why the common place is none.
fn unusable(ctx: Ctx<'_>) -> Option<&'static str> {
    let shared = ctx
        .fs
        .meta(Path::new(SHARED))
        .filter(|m| m.kind == Kind::Dir);
    let safe = shared.is_some_and(|m| {
        (m.uid == 0 || m.uid == ctx.host.uid)
            && (m.mode & STICKY != 0 || m.mode & OTHERS_WRITE == 0)
    });
    if !safe {
        return Some("lies where anybody could replace it");
    }
    let place = name(ctx);
    match ctx.fs.kind(&place) {
        None if ctx.fs.can_create_in(Path::new(SHARED)) => None,
        None => Some("cannot be made"),
        Some(Kind::Dir) => {
            let own = ctx.fs.meta(&place).filter(|m| m.uid == ctx.host.uid);
            match own {
                None => Some("belongs to another user"),
                Some(m) if m.mode & OTHERS != 0 => Some("is open to other users"),
                Some(_) if !ctx.fs.can_create_in(&place) => Some("cannot be written"),
                Some(_) => None,
            }
        }
        Some(Kind::File | Kind::Link | Kind::Other) => Some("is no directory"),
    }
}
