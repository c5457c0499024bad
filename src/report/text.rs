//! Escaping of hostile text and the fixed shapes of stderr lines.
//!
//! Paths, host names and process names are chosen by the wrapped command, and stderr may be a terminal: everything printed
//! passes through [`escape`], so a line stays one line and cannot move the cursor, change colours or reorder itself.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;

use super::Violation;
use crate::exit::Failure;

/// The prefix of every line that ccbox writes to stderr (R1).
pub const PREFIX: &str = "ccbox: ";

/// Longest line in bytes, end included. Below `PIPE_BUF` (4096, pipe(7)): one `write` of it is atomic and, after `poll` said
/// so, does not block.
pub const MAX_LINE: usize = 2048;

/// Makes text safe for a terminal and for a line-oriented reader: control, bidirectional and invisible characters become
/// `\n`, `\x1b`, `\u{202e}`.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        push_escaped(&mut out, c);
    }
    out
}

/// As [`escape`], for bytes that need not be UTF-8; bytes that are not become `\xNN`.
#[must_use]
pub fn escape_os(text: &OsStr) -> String {
    let mut out = String::with_capacity(text.len());
    for chunk in text.as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            push_escaped(&mut out, c);
        }
        for b in chunk.invalid() {
            let _ = write!(out, "\\x{b:02x}");
        }
    }
    out
}

fn push_escaped(out: &mut String, c: char) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if c.is_ascii_control() => {
            let _ = write!(out, "\\x{:02x}", u32::from(c));
        }
        c if is_hostile(c) => {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        }
        c => out.push(c),
    }
}

/// Characters beyond ASCII that change how a line looks without being seen: C1 controls, line separators, bidirectional
/// controls (CVE-2021-42574), zero-width and tag characters.
fn is_hostile(c: char) -> bool {
    matches!(u32::from(c),
        0x80..=0x9f | 0xad | 0x61c | 0x180e | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfeff
        | 0xfff9..=0xfffb | 0xe0000..=0xe0fff)
}

/// Quotes one argument so that a POSIX shell reads it back byte for byte, and a terminal shows it harmlessly.
#[must_use]
pub fn shell_quote(arg: &OsStr) -> String {
    let bytes = arg.as_bytes();
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"@%+=:,./-_".contains(b);
    if !bytes.is_empty() && bytes.iter().all(plain) {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let harmless = arg
        .to_str()
        .is_some_and(|s| !s.chars().any(|c| c.is_control() || is_hostile(c)));
    if harmless {
        return format!("'{}'", arg.to_string_lossy().replace('\'', "'\\''"));
    }
    // $'…' is POSIX since 2024 and known to bash, zsh, ksh, busybox.
    let mut out = String::from("$'");
    for b in bytes {
        match b {
            b'\'' => out.push_str("\\'"),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            0x20..=0x7e => out.push(char::from(*b)),
            // Octal: at most three digits, so a digit that follows is not swallowed as with \xNN.
            _ => {
                let _ = write!(out, "\\{b:03o}");
            }
        }
    }
    out.push('\'');
    out
}

/// Quotes a whole argument vector on one line.
#[must_use]
pub fn shell_line<'a>(args: impl IntoIterator<Item = &'a OsStr>) -> String {
    let quoted: Vec<String> = args.into_iter().map(shell_quote).collect();
    quoted.join(" ")
}

/// Whether to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// Plain text.
    Never,
    /// Escape sequences around the key word.
    Always,
}

/// The environment and terminal facts colour depends on.
#[derive(Debug, Clone, Copy, Default)]
pub struct ColourFacts<'a> {
    /// The stream is a terminal.
    pub terminal: bool,
    /// `NO_COLOR` (no-color.org: set and not empty).
    pub no_color: Option<&'a OsStr>,
    /// `CLICOLOR_FORCE` (set and not `0`).
    pub clicolor_force: Option<&'a OsStr>,
    /// `CLICOLOR` (`0` turns colour off).
    pub clicolor: Option<&'a OsStr>,
    /// `TERM` (`dumb` has no colour).
    pub term: Option<&'a OsStr>,
}

impl Colour {
    /// Decides after no-color.org and bixense.com/clicolors: `NO_COLOR`, then `CLICOLOR_FORCE`, then the terminal.
    #[must_use]
    pub fn decide(f: ColourFacts<'_>) -> Self {
        let set = |v: Option<&OsStr>| v.is_some_and(|v| !v.is_empty());
        let zero = |v: Option<&OsStr>| v.is_some_and(|v| v == "0");
        let forced = set(f.clicolor_force) && !zero(f.clicolor_force);
        let able = f.terminal && !zero(f.clicolor) && f.term.is_none_or(|t| t != "dumb");
        if !set(f.no_color) && (forced || able) {
            Self::Always
        } else {
            Self::Never
        }
    }

    fn paint(self, sgr: &str, word: &str) -> String {
        match self {
            Self::Never => word.to_owned(),
            Self::Always => format!("\x1b[{sgr}m{word}\x1b[0m"),
        }
    }
}

/// A finished line: prefix, text, newline, cut at [`MAX_LINE`]. `text` is already escaped.
#[must_use]
pub fn line(text: &str) -> String {
    let room = MAX_LINE - PREFIX.len() - "…\n".len();
    if text.len() <= room {
        return format!("{PREFIX}{text}\n");
    }
    let cut = (0..=room)
        .rev()
        .find(|i| text.is_char_boundary(*i))
        .unwrap_or(0);
    format!("{PREFIX}{}…\n", text.get(..cut).unwrap_or(""))
}

/// `error: <what>; hint: <next step>`, without prefix and newline.
#[must_use]
pub fn error_text(failure: &dyn Failure, colour: Colour) -> String {
    let mut out = format!(
        "{} {}",
        colour.paint("1;31", "error:"),
        escape(&failure.to_string())
    );
    if let Some(hint) = failure.hint() {
        let _ = write!(out, "; {} {}", colour.paint("36", "hint:"), escape(&hint));
    }
    out
}

/// `denied <action> <target> [<process> <pid>]: <rule>`, without prefix and newline.
#[must_use]
pub fn violation_text(v: &Violation, colour: Colour) -> String {
    let who = labelled_process(v.process.as_deref(), v.pid);
    format!(
        "{} {} {}{who}: {}",
        colour.paint("33", "denied"),
        v.action,
        escape(&v.target),
        escape(&v.rule)
    )
}

/// ` [<process> <pid>]`, as far as it is known.
#[must_use]
pub fn labelled_process(name: Option<&str>, pid: Option<i32>) -> String {
    match (name, pid) {
        (Some(name), Some(pid)) => format!(" [{} {pid}]", escape(name)),
        (Some(name), None) => format!(" [{}]", escape(name)),
        (None, Some(pid)) => format!(" [{pid}]"),
        (None, None) => String::new(),
    }
}

/// `<count> times: <action> <target> [<process>]`, without prefix and newline.
#[must_use]
pub fn repeated_text(v: &Violation, count: u64) -> String {
    let who = v.process.as_ref().map(|p| format!(" [{}]", escape(p)));
    let (action, target) = (v.action, escape(&v.target));
    format!(
        "{count} times: {action} {target}{}",
        who.unwrap_or_default()
    )
}

/// `hint: <spec line>`, without prefix and newline.
#[must_use]
pub fn hint_text(hint: &str, colour: Colour) -> String {
    format!("{} {}", colour.paint("36", "hint:"), escape(hint))
}

/// A notice with its kind: `warning: …`.
#[must_use]
pub fn labelled(label: &str, text: &str, colour: Colour) -> String {
    format!(
        "{} {}",
        colour.paint("33", &format!("{label}:")),
        escape(text)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hostile_characters_become_visible() {
        let table = [
            ("plain ü 漢", "plain ü 漢"),
            ("a\nb\tc\r", "a\\nb\\tc\\r"),
            ("\x1b[31mred", "\\x1b[31mred"),
            ("\x7f", "\\x7f"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("x\u{202e}txt.exe", "x\\u{202e}txt.exe"),
            ("a\u{2066}b\u{2069}", "a\\u{2066}b\\u{2069}"),
            ("zero\u{200b}width", "zero\\u{200b}width"),
            ("line\u{2028}sep", "line\\u{2028}sep"),
        ];
        for (given, want) in table {
            assert_eq!(escape(given), want);
        }
        assert_eq!(
            escape_os(OsStr::from_bytes(b"a\xff\xc3\xbcb\n")),
            "a\\xffüb\\n"
        );
    }

    #[test]
    fn shell_quoting_table() {
        let table: [(&[u8], &str); 8] = [
            (b"--ro-bind", "--ro-bind"),
            (b"/usr/lib", "/usr/lib"),
            (b"", "''"),
            (b"a b", "'a b'"),
            (b"it's", "'it'\\''s'"),
            (b"$HOME", "'$HOME'"),
            (b"a\nb", "$'a\\nb'"),
            (b"\xff1", "$'\\3771'"),
        ];
        for (given, want) in table {
            assert_eq!(shell_quote(OsStr::from_bytes(given)), want);
        }
    }

    #[test]
    fn a_long_line_is_cut_at_a_character() {
        let l = line(&"ü".repeat(3000));
        assert!(l.len() <= MAX_LINE && l.ends_with("…\n"));
        assert_eq!(line("x"), "ccbox: x\n");
    }

    #[test]
    fn colour_rules() {
        let v = OsStr::new;
        let tty = ColourFacts {
            terminal: true,
            ..ColourFacts::default()
        };
        let table = [
            (ColourFacts::default(), Colour::Never),
            (tty, Colour::Always),
            (
                ColourFacts {
                    no_color: Some(v("1")),
                    ..tty
                },
                Colour::Never,
            ),
            (
                ColourFacts {
                    no_color: Some(v("")),
                    ..tty
                },
                Colour::Always,
            ),
            (
                ColourFacts {
                    clicolor: Some(v("0")),
                    ..tty
                },
                Colour::Never,
            ),
            (
                ColourFacts {
                    term: Some(v("dumb")),
                    ..tty
                },
                Colour::Never,
            ),
            (
                ColourFacts {
                    clicolor_force: Some(v("1")),
                    ..ColourFacts::default()
                },
                Colour::Always,
            ),
            (
                ColourFacts {
                    clicolor_force: Some(v("0")),
                    ..ColourFacts::default()
                },
                Colour::Never,
            ),
            (
                ColourFacts {
                    clicolor_force: Some(v("1")),
                    no_color: Some(v("1")),
                    ..tty
                },
                Colour::Never,
            ),
        ];
        for (facts, want) in table {
            assert_eq!(Colour::decide(facts), want, "{facts:?}");
        }
    }

    #[test]
    fn violation_lines_have_the_shape_of_the_contract() {
        let v = Violation {
            action: "network-outbound",
            target: "evil.example:443".into(),
            process: Some("curl".into()),
            pid: Some(4720),
            rule: "not on the allow list".into(),
            hint: None,
        };
        assert_eq!(
            line(&violation_text(&v, Colour::Never)),
            "ccbox: denied network-outbound evil.example:443 [curl 4720]: not on the allow list\n"
        );
        let bare = Violation {
            process: None,
            pid: None,
            ..v
        };
        assert_eq!(
            violation_text(&bare, Colour::Never),
            "denied network-outbound evil.example:443: not on the allow list"
        );
    }

    #[derive(Debug, thiserror::Error)]
    #[error("spec `a\nb` is broken")]
    struct Broken;
    impl Failure for Broken {
        fn hint(&self) -> Option<String> {
            Some("mend it".into())
        }
    }

    #[test]
    fn an_error_is_one_line_with_its_hint() {
        assert_eq!(
            line(&error_text(&Broken, Colour::Never)),
            "ccbox: error: spec `a\\nb` is broken; hint: mend it\n"
        );
    }

    proptest! {
        #[test]
        fn escaped_text_is_one_harmless_line(s in ".*") {
            let e = escape(&s);
            prop_assert!(!e.chars().any(|c| c.is_control() || is_hostile(c)));
            prop_assert_eq!(escape(&e), e);
        }

        #[test]
        fn quoted_arguments_are_harmless(bytes in proptest::collection::vec(1u8..=255, 0..40)) {
            let q = shell_quote(OsStr::from_bytes(&bytes));
            prop_assert!(!q.chars().any(|c| c.is_control() || is_hostile(c)));
        }
    }
}
