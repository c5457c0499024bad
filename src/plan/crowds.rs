//! Thousands of denied entries in one directory: the directory is denied as a whole.
//!
//! bubblewrap reads the mount table anew for every bind, so its time grows with the square of their number (measured with 0.8.0: 200
//! files 0.07 s, 2,000 files 2.8 s). A directory closed entirely is stricter than asked, never weaker, and a notice says so. Where the
//! creation broker holds names, protected entries that are too many are simply not mounted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::PlanError;
use super::context::Ctx;
use super::paths::within;
use super::rules::{Hide, Named, Never, Rules, Strength, built_in};

/// Entries of one directory that are still mounted one by one.
const CROWD: usize = 256;
/// The same where closing the directory closes a whole grant.
const CROWD_AT_ROOT: usize = 1000;
/// Protected entries that are mounted where the broker holds their names as well.
const MOST_PROTECTED: usize = 512;
/// Mounts beyond which starting would take longer than anybody waits.
const MOST_MOUNTS: usize = 4000;

/// Replaces crowds in `rules`; the single rules go to `told`, for the rule book.
pub(super) fn merge(ctx: Ctx<'_>, rules: &mut Rules, notices: &mut Vec<String>) -> Rules {
    let mut told = Rules::default();
    let roots: Vec<PathBuf> = rules
        .grants
        .iter()
        .map(|g| g.path().to_path_buf())
        .chain([ctx.cwd_real()])
        .collect();
    let at_root = |dir: &Path| roots.iter().any(|r| within(r, dir));

    let crowded = crowds(
        rules
            .nevers
            .iter()
            .filter(|n| n.walk.kind.is_some())
            .map(|n| n.walk.real.as_path()),
        |dir, n| n > if at_root(dir) { CROWD_AT_ROOT } else { CROWD },
    );
    let closed = crowded.iter().filter(|_| !ctx.has_broker());
    for (dir, n) in closed.clone() {
        notices.push(format!(
            "`{}` holds {n} protected entries and is read-only as a whole",
            dir.display()
        ));
    }
    let (mut many, mut few): (Vec<Never>, Vec<Never>) = std::mem::take(&mut rules.nevers)
        .into_vec()
        .into_iter()
        .partition(|n| {
            n.walk
                .real
                .parent()
                .is_some_and(|p| crowded.contains_key(p))
        });
    if ctx.has_broker() {
        // Each mount only adds that metadata stays as it is; names are held anyway.
        let mut mounted = 0;
        let (kept, further): (Vec<Never>, Vec<Never>) = few.into_iter().partition(|n| {
            let listed = matches!(n.strength, Strength::Protected | Strength::DenyWrite);
            mounted += usize::from(listed && n.walk.kind.is_some());
            !listed || mounted <= MOST_PROTECTED
        });
        few = kept;
        many.extend(further);
    }
    few.extend(closed.map(|(dir, n)| Never {
        walk: ctx.walk(dir),
        except: Vec::new(),
        strength: Strength::Protected,
        named: crowd(dir, *n, "protected"),
    }));
    rules.nevers = few.into();
    told.nevers = many.into();

    // Hiding a directory that leads to a grant would hide the grant's way; there the entries stay single.
    let crowded = crowds(
        rules
            .hides
            .iter()
            .filter(|h| h.walk.kind.is_some())
            .map(|h| h.walk.real.as_path()),
        |dir, n| n > CROWD && !at_root(dir),
    );
    for (dir, n) in &crowded {
        notices.push(format!(
            "`{}` holds {n} hidden entries and is hidden as a whole",
            dir.display()
        ));
    }
    let (many, mut few): (Vec<Hide>, Vec<Hide>) =
        std::mem::take(&mut rules.hides).into_iter().partition(|h| {
            h.walk
                .real
                .parent()
                .is_some_and(|p| crowded.contains_key(p))
        });
    few.extend(crowded.iter().map(|(dir, n)| Hide {
        walk: ctx.walk(dir),
        named: crowd(dir, *n, "hidden"),
        liftable: false,
    }));
    rules.hides = few;
    told.hides = many;
    told
}

/// Directories with more entries than `too_many` allows.
fn crowds<'a>(
    paths: impl Iterator<Item = &'a Path>,
    too_many: impl Fn(&Path, usize) -> bool,
) -> BTreeMap<PathBuf, usize> {
    let mut count: BTreeMap<&Path, usize> = BTreeMap::new();
    for dir in paths.filter_map(Path::parent) {
        *count.entry(dir).or_default() += 1;
    }
    count
        .into_iter()
        .filter(|(dir, n)| *dir != Path::new("/") && too_many(dir, *n))
        .map(|(dir, n)| (dir.to_path_buf(), n))
        .collect()
}

fn crowd(dir: &Path, n: usize, what: &str) -> Named {
    Named {
        words: format!("{n} {what} entries in \"{}\"", dir.display()),
        origin: built_in("crowds"),
    }
}

/// Refuses what would take minutes to mount.
pub(super) fn bearable(mounts: usize) -> Result<(), PlanError> {
    if mounts <= MOST_MOUNTS {
        return Ok(());
    }
    Err(PlanError {
        message: format!(
            "the rules need {mounts} mounts, more than the {MOST_MOUNTS} this engine sets up in bearable time"
        ),
        hint: Some("name directories instead of the files in them".to_owned()),
    })
}
