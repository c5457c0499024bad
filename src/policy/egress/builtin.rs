//! The lists ccbox itself carries, read from the data files beside this module.

use crate::policy::host_rule::HostRule;
use crate::policy::{Layer, Origin, Ruled};

const BASELINE: &str = include_str!("../data/baseline.txt");
const DENIED: &str = include_str!("../data/denied.txt");

/// The curated baseline. A line that does not parse allows nothing.
pub(super) fn baseline() -> Vec<Ruled<HostRule>> {
    lines(BASELINE)
        .filter_map(|(_, text)| HostRule::parse_allow(text, false).ok())
        .map(|rule| ruled(rule, "baseline"))
        .collect()
}

/// The fixed deny list; `None` if a line does not parse, and then nothing may be allowed.
pub(super) fn denied() -> Option<Vec<Ruled<HostRule>>> {
    lines(DENIED)
        .map(|(group, text)| {
            let (rules, _) = HostRule::parse_deny(text).ok()?;
            Some(rules.into_iter().map(move |rule| ruled(rule, group)))
        })
        .collect::<Option<Vec<_>>>()
        .map(|groups| groups.into_iter().flatten().collect())
}

fn ruled(rule: HostRule, table: &'static str) -> Ruled<HostRule> {
    Ruled {
        value: rule,
        origin: Origin {
            layer: Layer::BuiltIn(table),
            file: None,
            line: None,
        },
    }
}

/// Group and text of each rule line.
fn lines(text: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let mut group = "";
    text.lines().filter_map(move |line| {
        let line = line.split('#').next().unwrap_or(line).trim();
        if let Some(name) = line.strip_suffix(':') {
            group = name;
            return None;
        }
        (!line.is_empty()).then_some((group, line))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::policy::host::Host;

    #[test]
    fn every_line_is_a_rule_in_canonical_spelling() {
        for (_, text) in lines(BASELINE) {
            let rule = HostRule::parse_allow(text, false).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(rule.canonical(), text);
            assert!(!rule.is_any() && !rule.names_loopback() && rule.literal().is_none());
        }
        for (_, text) in lines(DENIED) {
            let (rules, note) = HostRule::parse_deny(text).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!((rules.len(), note), (1, None), "{text}");
            assert_eq!(rules[0].canonical(), text);
        }
        assert!(baseline().len() > 150);
        assert!(denied().unwrap().len() > 50);
    }

    #[test]
    fn no_duplicates() {
        for list in [BASELINE, DENIED] {
            let mut seen = HashSet::new();
            for (_, text) in lines(list) {
                assert!(seen.insert(text), "{text} twice");
            }
        }
    }

    /// A wildcard that opens a domain beside a denied host in it is fine (`*.github.com`, `collector.github.com`); a line that
    /// can never take effect is not.
    #[test]
    fn nothing_is_both_allowed_and_denied() {
        let denied = denied().unwrap();
        for (_, text) in lines(BASELINE) {
            // A host that the rule allows, as plain as possible.
            let host = Host::parse(text.replace('*', "x").as_bytes()).unwrap();
            for d in &denied {
                assert!(
                    !d.value.denies(&host, 443),
                    "{text} is denied by {}",
                    d.value.text
                );
            }
        }
    }

    #[test]
    fn groups_are_the_documented_ones() {
        let groups = |list| {
            let mut g: Vec<_> = lines(list).map(|(group, _)| group).collect();
            g.dedup();
            g
        };
        assert_eq!(
            groups(BASELINE),
            [
                "language models",
                "git hosting",
                "package registries",
                "model catalogues"
            ]
        );
        assert_eq!(groups(DENIED), ["metadata", "telemetry"]);
    }

    /// Shared hosting where anybody can take a name is no baseline, however convenient.
    #[test]
    fn no_open_hosting() {
        for host in [
            "storage.googleapis.com",
            "bucket.s3.amazonaws.com",
            "x.github.io",
            "x.pages.dev",
            "x.workers.dev",
            "x.blob.core.windows.net",
            "x.vercel.app",
            "pastebin.com",
        ] {
            let parsed = Host::parse(host.as_bytes()).unwrap();
            for rule in baseline() {
                assert!(
                    !rule.value.allows(&parsed, 443),
                    "{host} by {}",
                    rule.value.text
                );
            }
        }
    }
}
