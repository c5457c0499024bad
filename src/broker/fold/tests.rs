use super::*;

fn unix(name: &str) -> String {
    String::from_utf8_lossy(&fold(name.as_bytes(), NameRules::Unix)).into_owned()
}

fn windows(name: &str) -> String {
    String::from_utf8_lossy(&fold(name.as_bytes(), NameRules::Windows)).into_owned()
}

#[test]
fn names_that_some_file_system_takes_for_one_fold_alike() {
    for (name, want) in [
        (".env", ".env"),
        (".ENV", ".env"),
        (".\u{200c}e\u{ad}nv\u{feff}", ".env"),
        (".Git", ".git"),
        ("hoo\u{212a}s", "hooks"),
        ("\u{17f}ervice.key", "service.key"),
        ("STRASSE", "strasse"),
        ("stra\u{df}e", "strasse"),
        ("stra\u{1e9e}e", "strasse"),
        ("\u{3a3}\u{3c2}", "\u{3c3}\u{3c3}"),
        ("\u{c4}", "\u{e4}"),
        ("a b.", "a b."),
        ("a:b", "a:b"),
    ] {
        assert_eq!(unix(name), want, "{name:?}");
    }
}

#[test]
fn windows_names_lose_streams_dots_and_private_code_points() {
    for (name, want) in [
        (".env.", ".env"),
        (".env . .", ".env"),
        (".env::$DATA", ".env"),
        (".ENV:x.sample", ".env"),
        (".env\u{f03a}x", ".env"),
        (".env\u{f02e}", ".env"),
        (".env\u{f020}", ".env"),
        ("\u{f02e}env", ".env"),
        ("..", ".."),
        (".", "."),
        ("plain", "plain"),
    ] {
        assert_eq!(windows(name), want, "{name:?}");
    }
}

#[test]
fn bytes_that_are_not_utf8_stay_and_their_neighbours_fold() {
    assert_eq!(&*fold(b"\xffA\xfe", NameRules::Unix), b"\xffa\xfe");
    // Dropping the ignorable code point would leave the bytes of another one.
    let tricky = b"\xe2\x80\xe2\x80\x8b\x8b.env";
    let folded = fold(tricky, NameRules::Unix);
    assert_eq!(fold(&folded, NameRules::Unix), folded);
}

#[test]
fn short_names_are_known_by_their_form() {
    for name in [
        "GIT~1",
        "git~1",
        "PROGRA~1",
        "ENVLOC~2.TXT",
        "A~12.B",
        "E~1.",
    ] {
        assert!(is_short_name(name.as_bytes()), "{name}");
    }
    for name in [
        "~",
        "a~",
        "~x",
        "file~",
        "a~1b",
        "longername~1",
        "a~1.text",
        ".env~",
        "emacs.txt~",
    ] {
        assert!(!is_short_name(name.as_bytes()), "{name}");
    }
}

#[test]
fn every_character_folds_to_a_fixed_point() {
    for c in '\0'..=char::MAX {
        let name = c.to_string();
        for rules in [NameRules::Unix, NameRules::Windows] {
            let folded = once(name.as_bytes(), rules);
            assert_eq!(once(&folded, rules), folded, "{:x} {rules:?}", u32::from(c));
        }
        // Both cases of a letter are one name.
        for other in [c.to_lowercase().to_string(), c.to_uppercase().to_string()] {
            assert_eq!(unix(&name), unix(&other), "{:x}", u32::from(c));
        }
    }
}

proptest::proptest! {
    #[test]
    fn folding_is_idempotent(name in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..12), text in "\\PC{0,6}") {
        for rules in [NameRules::Unix, NameRules::Windows] {
            for name in [name.as_slice(), text.as_bytes()] {
                let folded = fold(name, rules);
                proptest::prop_assert_eq!(fold(&folded, rules), folded.clone());
            }
        }
    }
}
