//! Names with accents: one letter, or a letter and a mark. Some file systems take both for the same name (Unicode's canonical
//! equivalence; APFS and HFS+ do, whether they tell case apart or not).

use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};

/// Accents and letters as one where there is such a letter (NFC).
#[must_use]
pub fn composed(text: &str) -> String {
    let nfc = const { ComposingNormalizerBorrowed::new_nfc() };
    nfc.normalize(text).into_owned()
}

/// Accents apart from their letters (NFD).
#[must_use]
pub fn decomposed(text: &str) -> String {
    let nfd = const { DecomposingNormalizerBorrowed::new_nfd() };
    nfd.normalize(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways() {
        for (one, apart) in [
            ("\u{e9}", "e\u{301}"),
            ("\u{ac00}", "\u{1100}\u{1161}"),
            ("a/b", "a/b"),
        ] {
            assert_eq!(decomposed(one), apart);
            assert_eq!(composed(apart), one);
        }
    }
}
