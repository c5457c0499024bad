//! One file as a layer: what of it counts, and what is ignored because nobody has trusted the file (semantics 18).

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use super::keys::Keys;
use super::params::Params;
use super::reader::{Present, Reader};
use super::source::Source;
use super::{LayerInfo, SpecError, import, surface};
use crate::policy::{Layer, Origin, Ruled};

/// Where a file's relative paths start, and what `~` is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) base: &'a Path,
    pub(super) home: &'a Path,
    /// Where the call was made: relative paths of another tool's settings start there.
    pub(super) cwd: &'a Path,
}

/// A layer that takes part.
#[derive(Debug, Clone)]
pub(super) struct Layered {
    pub(super) info: LayerInfo,
    pub(super) keys: Keys,
    /// The file by every name it has, for the protected set.
    pub(super) own: Vec<Ruled<PathBuf>>,
    /// Dotted keys that were set and do not count.
    pub(super) ignored: Vec<String>,
    /// The file sets nothing at all.
    pub(super) is_empty: bool,
    /// What another tool's settings make worth saying.
    pub(super) notices: Vec<String>,
    /// Settings of another tool: nothing of ours is added to the file.
    pub(super) imported: bool,
    /// The view stands in no line of the file.
    pub(super) view_is_implied: bool,
}

/// A key of a project file that would widen something once the file is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Dotted key, e.g. `filesystem.allow_write`.
    pub key: String,
    /// Its value as written, on one line.
    pub value: String,
    /// 1-based line.
    pub line: u32,
}

/// Reads a file. Of an untrusted project file only what tightens counts.
pub(super) fn read(
    source: &Source,
    place: Place<'_>,
    params: &Params,
) -> Result<Layered, SpecError> {
    if source.is_json() {
        return read_json(source, place);
    }
    let Parsed {
        keys,
        present,
        is_empty,
    } = parse(source, place, params)?;
    let mut ignored = Vec::new();
    let keys = if source.layer == (Layer::Project { trusted: false }) {
        let keys = keys.tightening_only();
        for p in present {
            if !keys.counts_untrusted(&p.key) && !ignored.contains(&p.key) {
                ignored.push(p.key);
            }
        }
        keys
    } else {
        keys
    };
    let note = match ignored.len() {
        0 => None,
        1 => Some("1 key ignored: the file is not trusted".to_owned()),
        n => Some(format!("{n} keys ignored: the file is not trusted")),
    };
    Ok(Layered {
        info: LayerInfo {
            layer: source.layer.clone(),
            file: source.file.clone(),
            note,
        },
        own: own_names(source),
        keys,
        ignored,
        is_empty,
        notices: Vec::new(),
        imported: false,
        view_is_implied: false,
    })
}

/// Settings of another tool, given as a spec (R29).
fn read_json(source: &Source, place: Place<'_>) -> Result<Layered, SpecError> {
    let imported = import::document(source, place)?;
    // They know no parameters.
    let params = Params::lenient();
    let reader = Reader {
        source,
        base: place.cwd,
        home: place.home,
        params: &params,
        present: RefCell::default(),
        later: RefCell::default(),
    };
    let (mut keys, _) = surface::read_table(&reader, &imported.table)?;
    if let Some(later) = reader.later.take().into_iter().next() {
        return Err(later.error);
    }
    keys.builtin.cwd_writable = imported.cwd_writable.map(|span| Ruled {
        value: true,
        origin: source.origin(span.start),
    });
    Ok(Layered {
        info: LayerInfo {
            layer: source.layer.clone(),
            file: source.file.clone(),
            note: Some(imported.note),
        },
        own: own_names(source),
        keys,
        ignored: Vec::new(),
        is_empty: false,
        notices: imported.notices,
        imported: true,
        view_is_implied: imported.view_is_implied,
    })
}

/// What trusting the file would accept, in the order written.
pub(super) fn grants(
    source: &Source,
    place: Place<'_>,
    params: &Params,
) -> Result<Vec<Grant>, SpecError> {
    let Parsed { keys, present, .. } = parse(source, place, params)?;
    let tight = keys.tightening_only();
    Ok(present
        .into_iter()
        .filter(|p| !tight.counts_untrusted(&p.key))
        .map(|p| Grant {
            value: source.slice(&p.span),
            line: source.origin(p.span.start).line.unwrap_or_default(),
            key: p.key,
        })
        .collect())
}

struct Parsed {
    keys: Keys,
    present: Vec<Present>,
    is_empty: bool,
}

/// Parses, and refuses what this build cannot enforce. In an untrusted file a grant of that kind is merely ignored.
fn parse(source: &Source, place: Place<'_>, params: &Params) -> Result<Parsed, SpecError> {
    let reader = Reader {
        source,
        base: place.base,
        home: place.home,
        params,
        present: RefCell::default(),
        later: RefCell::default(),
    };
    let (keys, is_empty) = surface::read(&reader)?;
    let untrusted = source.layer == (Layer::Project { trusted: false });
    for later in reader.later.take() {
        if !untrusted || later.tightens {
            return Err(later.error);
        }
    }
    let mut present = reader.present.take();
    present.sort_by(|a, b| (a.span.start, &a.key).cmp(&(b.span.start, &b.key)));
    present.dedup();
    Ok(Parsed {
        keys,
        present,
        is_empty,
    })
}

fn own_names(source: &Source) -> Vec<Ruled<PathBuf>> {
    let Some(file) = &source.file else {
        return Vec::new();
    };
    let origin = Origin {
        layer: source.layer.clone(),
        file: Some(file.clone()),
        line: None,
    };
    let real = std::fs::canonicalize(file).ok().filter(|r| r != file);
    std::iter::once(file.clone())
        .chain(real)
        .map(|value| Ruled {
            value,
            origin: origin.clone(),
        })
        .collect()
}
