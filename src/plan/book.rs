//! The rule book: every rule that came to hold, strongest first.

use std::path::{Path, PathBuf};

use super::rules::{Named, Rules};
use super::{BookRule, Effect, RuleBook};

/// Writes down the rules for `check` and `explain`: both spellings of each deny (R25).
pub(super) fn write(rules: &Rules, single: &Rules) -> RuleBook {
    let mut out = Vec::new();
    let mut add = |effect: Effect, [real, spelled]: [&Path; 2], named: &Named| {
        for path in std::iter::once(real).chain((spelled != real).then_some(spelled)) {
            out.push(BookRule {
                effect,
                path: path.to_path_buf(),
                rule: named.words.clone(),
                origin: named.origin.clone(),
            });
        }
    };
    let mut nevers: Vec<_> = rules.nevers.iter().chain(single.nevers.iter()).collect();
    nevers.sort_by_key(|n| n.strength);
    for n in nevers {
        add(
            Effect::NeverWrite,
            [&n.walk.real, &n.walk.spelled],
            &n.named,
        );
    }
    for h in rules.hides.iter().chain(&single.hides) {
        add(Effect::Hide, [&h.walk.real, &h.walk.spelled], &h.named);
    }
    for g in &rules.grants {
        let via = (!g.is_identity()).then_some(g);
        let effect = if rules.write_through(g.path(), via).is_ok() {
            Effect::Write
        } else {
            Effect::Read
        };
        let path: PathBuf = g.guest.clone().unwrap_or_else(|| g.path().to_path_buf());
        add(
            effect,
            [&path, g.guest.as_ref().map_or(&g.walk.spelled, |_| &path)],
            &g.named,
        );
    }
    RuleBook { rules: out }
}
