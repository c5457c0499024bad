use super::*;
use proptest::prelude::*;

const BASE: &str = "/base/dir";
const HOME: &str = "/home/u";

fn parse(text: &str, kind: ListKind) -> Result<PathEntry, PathEntryError> {
    PathEntry::parse(text, false, kind, Path::new(BASE), Path::new(HOME))
}

/// `=PATH` for an exact entry, `~ANCHORED TEXT` for a pattern, `!reason` for an error.
fn show(text: &str, kind: ListKind) -> String {
    match parse(text, kind) {
        Ok(PathEntry::Exact(p)) => format!("={}", p.display()),
        Ok(PathEntry::Pattern(p)) if p.is_anchored() => format!("anchored {}", p.text),
        Ok(PathEntry::Pattern(p)) => format!("tail {}", p.text),
        Err(e) => format!("!{e}"),
    }
}

#[test]
fn spellings_of_exact_entries() {
    use ListKind::Protected;
    for (text, want) in [
        ("/abs/x", "=/abs/x"),
        ("/", "=/"),
        ("//abs///x/", "=/abs/x"),
        ("/abs/./x/.", "=/abs/x"),
        ("~", "=/home/u"),
        ("~/", "=/home/u"),
        ("~/x", "=/home/u/x"),
        ("~//x", "=/home/u/x"),
        ("./x", "=/base/dir/x"),
        (".", "=/base/dir"),
        ("./", "=/base/dir"),
        ("x", "=/base/dir/x"),
        ("x/y/", "=/base/dir/x/y"),
        ("../x", "=/base/x"),
        ("ws/../ws/prot", "=/base/dir/ws/prot"),
        ("/../../x", "=/x"),
        ("a$$b", "=/base/dir/a$b"),
        ("$$$$", "=/base/dir/$$"),
        ("a~b", "=/base/dir/a~b"),
        ("./~x", "=/base/dir/~x"),
        ("x{y}\\z", "=/base/dir/x{y}\\z"),
        ("w s ü'\"\n-x", "=/base/dir/w s ü'\"\n-x"),
        ("-rf", "=/base/dir/-rf"),
    ] {
        assert_eq!(show(text, Protected), want, "{text:?}");
    }
}

#[test]
fn one_component_without_a_slash_is_a_pattern_in_deny_write_only() {
    assert_eq!(show(".env", ListKind::DenyWrite), "tail .env");
    assert_eq!(show(".env/", ListKind::DenyWrite), "tail .env/");
    assert_eq!(show("./.env", ListKind::DenyWrite), "=/base/dir/.env");
    assert_eq!(show("a/.env", ListKind::DenyWrite), "=/base/dir/a/.env");
    assert_eq!(show(".", ListKind::DenyWrite), "=/base/dir");
    assert_eq!(show("..", ListKind::DenyWrite), "=/base");
    assert_eq!(show("~", ListKind::DenyWrite), "=/home/u");
    assert_eq!(show("/etc", ListKind::DenyWrite), "=/etc");
    for kind in [
        ListKind::Protected,
        ListKind::DenyRead,
        ListKind::Grant,
        ListKind::AllowCreate,
    ] {
        assert_eq!(show(".env", kind), "=/base/dir/.env", "{kind:?}");
    }
    let literal = PathEntry::parse(
        ".env",
        true,
        ListKind::DenyWrite,
        Path::new(BASE),
        Path::new(HOME),
    );
    assert_eq!(literal, Ok(PathEntry::Exact("/base/dir/.env".into())));
}

#[test]
fn a_trailing_double_star_is_the_directory() {
    use ListKind::{AllowCreate, DenyRead, DenyWrite, Grant, Protected};
    for kind in [Protected, DenyWrite, AllowCreate, DenyRead, Grant] {
        for (text, want) in [
            ("/v/**", "=/v"),
            ("/v/**/", "=/v"),
            ("~/v/**", "=/home/u/v"),
            ("~/**", "=/home/u"),
            ("./v/**", "=/base/dir/v"),
            ("./**", "=/base/dir"),
            ("/**", "=/"),
        ] {
            assert_eq!(show(text, kind), want, "{text} {kind:?}");
        }
    }
    assert_eq!(show("ws/v/**", DenyRead), "=/base/dir/ws/v");
    assert_eq!(show("ws/v/**", Grant), "=/base/dir/ws/v");
    assert_eq!(show("ws/v/**", DenyWrite), "tail ws/v/**");
    assert_eq!(show("ws/v/**", Protected), "tail ws/v/**");
    assert_eq!(show(".git/hooks/**", AllowCreate), "tail .git/hooks/**");
    assert_eq!(show("**", DenyRead), "tail **");
}

#[test]
fn equivalent_spellings_of_a_directory_read_the_same() {
    for text in ["ws/v", "ws/v/", "ws/v/**", "./ws/./v"] {
        assert_eq!(show(text, ListKind::DenyRead), "=/base/dir/ws/v", "{text}");
    }
}

#[test]
fn patterns_keep_their_anchor() {
    assert_eq!(show("*.key", ListKind::DenyWrite), "tail *.key");
    assert_eq!(show("./*.key", ListKind::DenyWrite), "anchored ./*.key");
    assert_eq!(show("~/a?", ListKind::DenyRead), "anchored ~/a?");
    assert_eq!(show("/x/**/y", ListKind::Protected), "anchored /x/**/y");
    assert_eq!(
        show("**/.git/hooks/**", ListKind::DenyWrite),
        "tail **/.git/hooks/**"
    );
    let PathEntry::Pattern(p) = parse("./*.key", ListKind::DenyWrite).unwrap() else {
        panic!("a pattern");
    };
    assert!(p.matches(Path::new("/base/dir/a.key")));
    assert!(!p.matches(Path::new("/base/dir/sub/a.key")));
    assert!(!p.matches(Path::new("/x/base/dir/a.key")));
}

#[test]
fn refused_entries_say_why_and_what_to_write() {
    let long_name = "n".repeat(256);
    let long_path = format!("/{}", "d/".repeat(2100));
    for (text, kind, reason, hint) in [
        ("", ListKind::Grant, "an empty path", None),
        (
            "a\0b",
            ListKind::Grant,
            "a path cannot hold a NUL byte",
            None,
        ),
        (
            "$HOME/y",
            ListKind::Protected,
            "`$HOME` is not expanded in a path",
            Some("write `~/` for the home directory; `$$` is a literal dollar"),
        ),
        (
            "${TMPDIR}/y",
            ListKind::Grant,
            "`$TMPDIR` is not expanded in a path",
            Some(
                "write the path out, or use `${param:KEY}` with `-D KEY=VALUE`; `$$` is a literal dollar",
            ),
        ),
        (
            "~root/x",
            ListKind::Grant,
            "`~user` is not expanded",
            Some("write the path out, or `./~root/x` for a name that starts with a tilde"),
        ),
        (
            "../*.key",
            ListKind::DenyWrite,
            "`..` in a pattern",
            Some("start the pattern at `/`, `~/` or `./`"),
        ),
        (
            "/out/*.o",
            ListKind::Grant,
            "a pattern cannot grant anything",
            Some(
                "name the directory (a trailing `/**` is fine), or write { path = \"…\", literal = true } for a name that holds `*`, `?` or `[`",
            ),
        ),
        (
            "**",
            ListKind::Grant,
            "a pattern cannot grant anything",
            Some(
                "name the directory (a trailing `/**` is fine), or write { path = \"…\", literal = true } for a name that holds `*`, `?` or `[`",
            ),
        ),
        (
            "a[1",
            ListKind::DenyWrite,
            "`[` without `]`",
            Some("write { path = \"…\", literal = true } for a name that holds such characters"),
        ),
        (
            &long_name,
            ListKind::Protected,
            "a name of 256 bytes in a path, the limit is 255",
            None,
        ),
        (
            &long_path,
            ListKind::Protected,
            "a path of 4200 bytes, the limit is 4095",
            None,
        ),
    ] {
        let error = parse(text, kind).expect_err(text);
        assert_eq!(error.reason, reason, "{text:?}");
        assert_eq!(error.hint.as_deref(), hint, "{text:?}");
    }
    assert!(parse(&"n".repeat(255), ListKind::Protected).is_ok());
}

#[test]
fn literal_entries_are_exact() {
    for (text, want) in [
        ("ws/a[1]*/f", "/base/dir/ws/a[1]*/f"),
        ("/x/**", "/x/**"),
        ("~/a?", "/home/u/a?"),
        ("a$$*", "/base/dir/a$*"),
        ("a~*", "/base/dir/a~*"),
    ] {
        for kind in [ListKind::Grant, ListKind::DenyWrite, ListKind::DenyRead] {
            let got = PathEntry::parse(text, true, kind, Path::new(BASE), Path::new(HOME));
            assert_eq!(got, Ok(PathEntry::Exact(want.into())), "{text}");
        }
    }
}

#[test]
fn bytes_of_a_parameter_mean_themselves() {
    let text = "/x/a[1]*$HOME/f";
    let quoted = 3..13;
    let quoted = std::slice::from_ref(&quoted);
    let entry = EntryText {
        bytes: text.as_bytes(),
        quoted,
        literal: false,
    };
    let got = PathEntry::parse_text(entry, ListKind::Grant, Path::new(BASE), Path::new(HOME));
    assert_eq!(got, Ok(PathEntry::Exact("/x/a[1]*$HOME/f".into())));
    // A tilde from a parameter is a name, not the home directory.
    let quoted = 0..1;
    let entry = EntryText {
        bytes: b"~",
        quoted: std::slice::from_ref(&quoted),
        literal: false,
    };
    let got = PathEntry::parse_text(entry, ListKind::Grant, Path::new(BASE), Path::new(HOME));
    assert_eq!(got, Ok(PathEntry::Exact("/base/dir/~".into())));
}

#[test]
fn dots_are_kept_for_the_comparison_with_the_kernel() {
    let get = |t: &str| {
        unresolved(
            EntryText::plain(t.as_bytes()),
            ListKind::Protected,
            Path::new(BASE),
            Path::new(HOME),
        )
        .unwrap()
    };
    assert_eq!(get("a/b"), None);
    assert_eq!(get("a/../b"), Some("/base/dir/a/../b".into()));
    assert_eq!(get("~/../b/"), Some("/home/u/../b".into()));
    assert_eq!(get("*.key"), None);
}

proptest! {
    #[test]
    fn exact_paths_are_absolute_and_normal_and_parse_to_themselves(text in "[a-z./~ü-]{1,40}") {
        if let Ok(PathEntry::Exact(p)) = parse(&text, ListKind::Protected) {
            prop_assert!(p.is_absolute());
            prop_assert!(p.components().all(|c| matches!(c, std::path::Component::RootDir | std::path::Component::Normal(_))));
            let again = PathEntry::parse(p.to_str().unwrap(), true, ListKind::Protected, Path::new(BASE), Path::new(HOME));
            prop_assert_eq!(again, Ok(PathEntry::Exact(p)));
        }
    }

    #[test]
    fn any_bytes_parse_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..60), literal: bool) {
        for kind in [ListKind::Grant, ListKind::DenyWrite, ListKind::Protected, ListKind::DenyRead, ListKind::AllowCreate] {
            let text = EntryText { bytes: &bytes, quoted: &[], literal };
            let entry = PathEntry::parse_text(text, kind, Path::new(BASE), Path::new(HOME));
            if literal || kind == ListKind::Grant {
                prop_assert!(!matches!(entry, Ok(PathEntry::Pattern(_))));
            }
        }
    }

    #[test]
    fn a_parameter_never_makes_a_pattern(value in "[a-z*?\\[\\]$~!]{1,12}") {
        let text = format!("/p/{value}");
        let quoted = 3..text.len();
        let entry = EntryText { bytes: text.as_bytes(), quoted: std::slice::from_ref(&quoted), literal: false };
        let got = PathEntry::parse_text(entry, ListKind::DenyRead, Path::new(BASE), Path::new(HOME));
        prop_assert_eq!(got, Ok(PathEntry::Exact(text.clone().into())));
    }
}
