//! ccbox.toml(5) has every key of every table, each in the section of its table, and no other.

use super::super::schema::TABLES;

const PAGE: &str = include_str!("../../../man/ccbox.toml.5");

/// The section of a table: its lines.
fn section(table: &str) -> Vec<&'static str> {
    let heads: &[String] = match table {
        "" => &["TOP LEVEL".to_owned()],
        _ => &[format!("[{table}]"), format!("[[{table}]]")],
    };
    let starts = |l: &&str| {
        l.strip_prefix(".Sh ")
            .is_some_and(|h| heads.iter().any(|x| x == h))
    };
    PAGE.lines()
        .skip_while(|l| !starts(l))
        .skip(1)
        .take_while(|l| !l.starts_with(".Sh "))
        .collect()
}

#[test]
fn every_key_is_in_the_section_of_its_table() {
    let tables: Vec<&str> = TABLES.iter().map(|(name, _)| *name).collect();
    for (table, keys) in TABLES {
        // `credentials.files` and its like are told where their array is.
        let (place, inner) = table
            .split_once('.')
            .map_or((*table, false), |(t, _)| (t, true));
        let lines = section(place);
        assert!(!lines.is_empty(), "no section for `{table}`");
        for key in *keys {
            let told = if tables.contains(key) {
                continue;
            } else if inner {
                let word =
                    |l: &&str| l.starts_with(".Ic ") && l.split([' ', ',']).any(|w| w == *key);
                lines.iter().any(word)
            } else {
                lines.iter().any(|l| {
                    l.split_once(".It Ic ")
                        .is_some_and(|(_, k)| k.split([' ', ',']).any(|w| w == *key))
                })
            };
            assert!(told, "`{key}` of `{table}` is not in ccbox.toml(5)");
        }
        if inner {
            continue;
        }
        for line in &lines {
            if let Some(key) = line
                .strip_prefix(".It Ic ")
                .filter(|k| !k.contains([' ', ',']))
            {
                assert!(keys.contains(&key), "`{key}` is no key of `{table}`");
            }
        }
    }
}

/// Keys of other tools' settings are in the page as well as in docs/imports.md.
#[test]
fn settings_of_other_tools_are_in_both_references() {
    let page = include_str!("../../../docs/imports.md");
    let from = PAGE.find(".Sh SETTINGS OF OTHER TOOLS").unwrap();
    let told = &PAGE[from..];
    let told = &told[..told[4..].find(".Sh ").unwrap()];
    for key in [
        "allowedDomains",
        "deniedDomains",
        "allowUnixSockets",
        "denyRead",
        "allowWrite",
        "denyWrite",
        "failIfUnavailable",
        "excludedCommands",
        "additionalDirectories",
        "blockReadsOutsideWorkingDirectories",
        "Edit(",
        "Read(",
        "WebFetch(",
    ] {
        assert!(page.contains(key) && told.contains(key), "{key}");
    }
}
