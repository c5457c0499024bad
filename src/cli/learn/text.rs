//! What was learned, as the text of a spec.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Write as _;

use crate::cli::allow::{self, Entry};
use crate::cli::args::LearnArgs;
use crate::cli::context::Prepared;
use crate::report::text::{escape, escape_os, shell_line};
use crate::session::Outcome;

/// What a spec has to say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Needed {
    /// The working directory, as TOML, and whether something in it was changed.
    pub(super) cwd: String,
    pub(super) changes: bool,
    /// Private caches were used, which only the host view has.
    pub(super) caches: bool,
    pub(super) entries: BTreeSet<Entry>,
    /// For a person to decide.
    pub(super) remarks: Vec<String>,
}

/// Which run it was, and whether it was whole.
pub(super) fn heading(
    args: &LearnArgs,
    ready: &Prepared,
    outcome: Outcome,
    denied: usize,
) -> String {
    let line = shell_line(args.command.iter().map(OsString::as_os_str));
    let end = match outcome {
        Outcome::Exited(0) | Outcome::NotStarted { .. } => String::new(),
        Outcome::Exited(code) => format!("# It ended with {code}, so it may have needed more.\n"),
        Outcome::Signalled(n) | Outcome::Limited { signal: n, .. } => {
            format!("# Signal {n} ended it, so it may have needed more.\n")
        }
    };
    let refused = match denied {
        0 => String::new(),
        n => format!("# Refused all the same: {n}; `ccbox allow --last` lists them.\n"),
    };
    format!(
        "# What `{}` used in {}, by ccbox learn. Read it before you use it.\n{end}{refused}",
        escape(&line),
        escape_os(ready.host.cwd_real.as_os_str())
    )
}

/// The spec.
pub(super) fn text_of(need: &Needed) -> String {
    let mut out = String::new();
    for remark in &need.remarks {
        let _ = writeln!(out, "# {remark}");
    }
    let _ = writeln!(out, "\n[[bind_mounts]]\nhost_path = {}", need.cwd);
    if !need.changes {
        out.push_str("read_only = true # nothing in it was changed\n");
    }
    let entries: Vec<(&Entry, String)> = need.entries.iter().map(|e| (e, String::new())).collect();
    let mut lists = allow::toml_of(&entries);
    if need.caches {
        // Private caches stand in the home directory, which the bound view does not show.
        let view = "[filesystem]\nview = \"host\" # package caches were used: private copies of them need it\n";
        lists = match lists.strip_prefix("[filesystem]\n") {
            Some(rest) => format!("{view}{rest}"),
            None if lists.is_empty() => view.to_owned(),
            None => format!("{view}\n{lists}"),
        };
    }
    if let Some(at) = lists.find("[network]\n") {
        lists.insert_str(at + "[network]\n".len(), "baseline = false\n");
    } else {
        lists.push_str("\n[network]\nmode = \"off\" # no host was reached\n");
    }
    let _ = write!(out, "\n{}", lists.trim_start_matches('\n'));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(entries: &[(&'static str, &'static str, &str)]) -> Needed {
        Needed {
            cwd: "\"/w\"".to_owned(),
            changes: true,
            entries: entries
                .iter()
                .map(|(table, key, value)| Entry {
                    table,
                    key,
                    value: format!("{value:?}"),
                })
                .collect(),
            ..Needed::default()
        }
    }

    #[test]
    fn a_spec_says_only_what_is_needed() {
        let bind = "\n[[bind_mounts]]\nhost_path = \"/w\"\n";
        let off = "\n[network]\nmode = \"off\" # no host was reached\n";
        assert_eq!(text_of(&need(&[])), format!("{bind}\n{}", &off[1..]));
        let read = ("filesystem", "allow_read", "/a");
        let lists = "[filesystem]\nallow_read = [\n    \"/a\",\n]\n";
        assert_eq!(text_of(&need(&[read])), format!("{bind}\n{lists}{off}"));
        let host = ("network", "allowed_domains", "h:1");
        let net = "[network]\nbaseline = false\nallowed_domains = [\n    \"h:1\",\n]\n";
        assert_eq!(text_of(&need(&[host])), format!("{bind}\n{net}"));
        let unchanged = Needed {
            changes: false,
            remarks: vec!["why".to_owned()],
            ..need(&[host])
        };
        let text = text_of(&unchanged);
        assert!(
            text.starts_with("# why\n") && text.contains("read_only = true"),
            "{text}"
        );
    }

    /// Private copies of caches are in the home directory, and only the host view shows that.
    #[test]
    fn caches_ask_for_the_host_view() {
        for entries in [
            &[][..],
            &[("filesystem", "allow_write", "/a")],
            &[("network", "allowed_domains", "h")],
        ] {
            let text = text_of(&Needed {
                caches: true,
                ..need(entries)
            });
            let read: toml::Table = toml::from_str(&text).unwrap();
            assert_eq!(read["filesystem"]["view"].as_str(), Some("host"), "{text}");
            assert!(!text.contains("\n\n\n"), "{text}");
            for (table, key, value) in entries {
                let list = read[*table][*key].as_array().unwrap();
                assert_eq!(list[0].as_str(), Some(*value), "{text}");
            }
        }
    }
}
