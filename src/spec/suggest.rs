//! The nearest spelling of a mistyped word.

/// The candidate a user most likely meant: equal but for case and separators, a few slips away, or begun the same way.
pub(super) fn nearest<'a>(
    typed: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let plain = normal(typed);
    candidates
        .into_iter()
        .filter_map(|c| score(&plain, &normal(c)).map(|s| (s, c)))
        .min_by_key(|(s, _)| *s)
        .map(|(_, c)| c)
}

fn score(typed: &str, candidate: &str) -> Option<usize> {
    let (whole, begun) = distances(typed, candidate);
    if whole <= candidate.len().max(3) / 3 {
        return Some(whole);
    }
    // `allow` for `allow_write`, `protcted` for `protected_paths`, `enabled` for `network_enabled`: worse than any slip,
    // better than nothing.
    if typed.len() >= 3 && begun <= typed.len() / 4 {
        return Some(100 + begun);
    }
    (typed.len() >= 4 && candidate.ends_with(typed)).then_some(200)
}

/// Case and separators do not count: `allowedDomains`, `Allowed-Domains` and `allowed_domains` are one word.
fn normal(word: &str) -> String {
    word.chars()
        .filter(|c| !matches!(c, '_' | '-' | ' '))
        .flat_map(char::to_lowercase)
        .take(64)
        .collect()
}

/// Optimal string alignment (insertions, deletions, substitutions, swaps of neighbours): from `a` to `b`, and from `a` to
/// the nearest beginning of `b`.
fn distances(a: &str, b: &str) -> (usize, usize) {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, cb) in b.iter().enumerate() {
            let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX - 1);
            let mut best = (at(&row, j) + 1)
                .min(at(&last, j + 1) + 1)
                .min(at(&last, j) + usize::from(ca != cb));
            let swapped =
                i > 0 && j > 0 && a.get(i - 1) == Some(cb) && b.get(j - 1) == Some(ca) && ca != cb;
            if swapped {
                best = best.min(at(&before, j - 1) + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    let whole = last.last().copied().unwrap_or_default();
    (whole, last.into_iter().min().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::{distances, nearest};

    const KEYS: &[&str] = &[
        "protected_paths",
        "egress_allowlist",
        "mode",
        "network",
        "network_enabled",
        "allow_write",
        "allow_read",
    ];

    #[test]
    fn finds_what_was_meant() {
        for (typed, want) in [
            ("protcted_paths", Some("protected_paths")),
            ("protcted", Some("protected_paths")),
            ("Network", Some("network")),
            ("networkEnabled", Some("network_enabled")),
            ("network-enabled", Some("network_enabled")),
            ("mdoe", Some("mode")),
            ("allow_wirte", Some("allow_write")),
            ("allow", Some("allow_write")),
            ("enabled", Some("network_enabled")),
            ("zzz", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, KEYS.iter().copied()), want, "{typed}");
        }
    }

    #[test]
    fn counts_slips() {
        for (a, b, want) in [
            ("", "", 0),
            ("a", "", 1),
            ("ab", "ba", 1),
            ("abc", "axc", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distances(a, b).0, want, "{a} {b}");
        }
    }
}
