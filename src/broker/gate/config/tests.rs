//! Tables of the syntax; what git makes of the same bytes is in `differential`.

use super::*;

/// `section.sub.key=value` per entry, `section.sub.key` for a key without a value.
fn flat(file: &[u8]) -> Result<Vec<String>, String> {
    Ok(parse(file)
        .map_err(|e| e.to_string())?
        .iter()
        .map(|e| {
            let name = String::from_utf8_lossy(&e.name()).into_owned();
            match &e.value {
                Some(v) => format!("{name}={}", String::from_utf8_lossy(v)),
                None => name,
            }
        })
        .collect())
}

#[test]
fn what_git_writes_is_read() {
    let table: &[(&str, &[&str])] = &[
        ("", &[]),
        ("\n\n", &[]),
        ("# c\n; c\n \t# c", &[]),
        (
            "[core]\n\tbare = false\n\tfilemode = true\n",
            &["core.bare=false", "core.filemode=true"],
        ),
        ("[Core]\n\tBaRe = False\n", &["core.bare=False"]),
        ("[core]\n\tbare\n", &["core.bare"]),
        ("[core]\n\tbare", &["core.bare"]),
        ("[core]\n\tbare=", &["core.bare="]),
        ("[core]bare=true", &["core.bare=true"]),
        ("[a][b]x=1\n", &["b.x=1"]),
        (
            "[branch \"Topic/x\"]\n\tmerge = refs/heads/x\n",
            &["branch.Topic/x.merge=refs/heads/x"],
        ),
        (
            "[branch \"a\\\"b\\\\c.d\"]\nremote=.\n",
            &["branch.a\"b\\c.d.remote=."],
        ),
        ("[branch \t \"x\"]\nremote=.\n", &["branch.x.remote=."]),
        ("[a]\nb = x  y \t\n", &["a.b=x  y"]),
        ("[a]\nb = \" x \"\n", &["a.b= x "]),
        ("[a]\nb = x # c\n", &["a.b=x"]),
        ("[a]\nb = \"x # y\" ; c\n", &["a.b=x # y"]),
        ("[a]\nb = x\\\n  y\n", &["a.b=x  y"]),
        ("[a]\nb = \"x\\\ny\"\n", &["a.b=xy"]),
        ("[a]\nb = x\\ny\\tz\\\"\\\\\n", &["a.b=x\ny\tz\"\\"]),
        ("[a]\r\nb = x\r\n", &["a.b=x"]),
        ("\u{feff}[a]\nb = x\n", &["a.b=x"]),
        ("[a]\nb = gr\u{fc}n\n", &["a.b=gr\u{fc}n"]),
        ("[a]\n\n[a]\nb = 1\nb = 1\n", &["a.b=1", "a.b=1"]),
        ("[a]\nb = x[y]=z\n", &["a.b=x[y]=z"]),
    ];
    for (file, want) in table {
        assert_eq!(
            flat(file.as_bytes()).as_deref(),
            Ok(want
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .as_slice()),
            "{file:?}"
        );
    }
}

#[test]
fn what_is_unusual_is_refused_with_its_line() {
    let table: &[(&[u8], &str)] = &[
        (b"a = b\n", "line 1: a key before the first section"),
        (b"[a]\nb = x\0y\n", "line 2: a control character"),
        (b"[a]\nb = x\x07\n", "line 2: a control character"),
        (b"# \x0b\n", "line 1: a control character"),
        (b"[a]\rb=1\n", "line 1: a carriage return inside a line"),
        (b"# x\r[core]\n", "line 1: a carriage return inside a line"),
        (b"[a]\nb = x\r", "line 2: a carriage return inside a line"),
        (b"[a]\nb = x\ty\n", "line 2: a tab inside a value"),
        (b"[a.b]\nc=1\n", "line 1: an unusual character in a name"),
        (b"[]\n", "line 1: a section without a name"),
        (
            b"[a ]\n",
            "line 1: a section name that is not `[name \"name\"]`",
        ),
        (b"[a \"\"]\nb=1\n", "line 1: an empty subsection"),
        (
            b"[a \"b\" ]\n",
            "line 1: a section name that is not `[name \"name\"]`",
        ),
        (
            b"[a \"b\\c\"]\n",
            "line 1: an unusual escape in a section name",
        ),
        (b"[a \"b\n\"]\n", "line 1: a section name over two lines"),
        (b"[a\n]\n", "line 1: an unusual character in a name"),
        (b"[a", "line 1: an unusual character in a name"),
        (b"[a]\nb c\n", "line 2: a key that is not followed by `=`"),
        (b"[a]\nb # c\n", "line 2: a key that is not followed by `=`"),
        (b"[a]\nb_c = 1\n", "line 2: an unusual character in a name"),
        (
            b"[a]\n1b = 1\n",
            "line 2: a line that is neither a section, a key nor a comment",
        ),
        (b"[a]\nb = \"x\n", "line 2: a quotation over two lines"),
        (b"[a]\nb = x\\q\n", "line 2: an unusual escape in a value"),
        (b"[a]\nb = x\\b\n", "line 2: an unusual escape in a value"),
        (
            b"[a]\nb = x\\",
            "line 2: a backslash at the end of the file",
        ),
        (
            b"[a]\nb = x\\\n",
            "line 2: a backslash at the end of the file",
        ),
        (
            b"[a]\n# x \\\nb = 1\n",
            "line 2: a comment that ends in a backslash",
        ),
        (
            b"[a]\nb = 1 # x\\\r\n",
            "line 2: a comment that ends in a backslash",
        ),
        (
            b"\xef\xbb[a]\n",
            "line 1: a line that is neither a section, a key nor a comment",
        ),
        (
            b"\xef\xbb\xbf\xef\xbb\xbf[a]\n",
            "line 1: a line that is neither a section, a key nor a comment",
        ),
    ];
    for (file, want) in table {
        assert_eq!(
            flat(file),
            Err((*want).to_owned()),
            "{}",
            file.escape_ascii()
        );
    }
}

#[test]
fn sizes_are_bounded() {
    let mut long = b"[a]\n".to_vec();
    long.resize(MAX_FILE, b'\n');
    assert_eq!(parse(&long), Ok(vec![]));
    long.push(b'\n');
    assert_eq!(
        parse(&long).map_err(|e| e.reason),
        Err("the file is too long")
    );
    let name = "n".repeat(MAX_NAME);
    assert!(parse(format!("[{name} \"{name}\"]\n{name}=1\n").as_bytes()).is_ok());
    for file in [
        format!("[{name}n]\n"),
        format!("[a \"{name}n\"]\n"),
        format!("[a]\n{name}n = 1\n"),
    ] {
        assert_eq!(
            parse(file.as_bytes()).map_err(|e| e.reason),
            Err("a name that is too long")
        );
    }
}

proptest::proptest! {
    /// Any bytes: an answer, never a panic, and never a name outside of its alphabet.
    #[test]
    fn any_bytes_give_an_answer(file in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        for e in parse(&file).unwrap_or_default() {
            proptest::prop_assert!(e.section.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-')));
            proptest::prop_assert!(e.key.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-')));
        }
    }
}
