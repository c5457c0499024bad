//! Write-denies, found by the paths above the one that is asked about: a spec may protect a thousand, and a plan asks about each.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::ops::Deref;
use std::path::Path;

use super::paths::upwards;
use super::quick::Quick;
use super::rules::Never;

/// A list that does not change, with an index that is made when it is first needed.
#[derive(Debug, Clone, Default)]
pub(super) struct Nevers {
    all: Vec<Never>,
    /// Places in `all` by the path a rule leads to.
    at: OnceCell<HashMap<OsString, Vec<usize>, Quick>>,
}

impl Nevers {
    /// The strictest rule that covers `path`; of equals the first.
    pub(super) fn strictest(&self, path: &Path) -> Option<&Never> {
        let at = self.at.get_or_init(|| {
            let mut at: HashMap<OsString, Vec<usize>, Quick> = HashMap::default();
            for (n, never) in self.all.iter().enumerate() {
                at.entry(never.walk.real.clone().into_os_string())
                    .or_default()
                    .push(n);
            }
            at
        });
        upwards(path)
            .filter_map(|above| at.get(above.as_os_str()))
            .flatten()
            .filter_map(|n| Some((*n, self.all.get(*n)?)))
            .filter(|(_, never)| never.covers(path))
            .min_by_key(|(n, never)| (never.strength, *n))
            .map(|(_, never)| never)
    }

    pub(super) fn into_vec(self) -> Vec<Never> {
        self.all
    }
}

impl From<Vec<Never>> for Nevers {
    fn from(all: Vec<Never>) -> Self {
        Self {
            all,
            at: OnceCell::new(),
        }
    }
}

impl Deref for Nevers {
    type Target = [Never];

    fn deref(&self) -> &[Never] {
        &self.all
    }
}
