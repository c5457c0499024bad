//! Man pages and completions, as they are checked in: what is printed is what was linted and tested.
//!
//! `tests/it/generated.rs` makes them from the clap tree and fails where they drifted.

use super::args::Shell;
use super::usage::UsageError;
use super::{Ending, Fault, answer};

macro_rules! pages {
    ($($name:literal),* $(,)?) => {
        /// Name of a page (`ccbox-run.1`) and its text.
        pub const PAGES: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../../man/", $name)))),*
        ];
    };
}

pages![
    "ccbox.1",
    "ccbox-run.1",
    "ccbox-shell.1",
    "ccbox-sh.1",
    "ccbox-explain.1",
    "ccbox-profile.1",
    "ccbox-check.1",
    "ccbox-probe.1",
    "ccbox-init.1",
    "ccbox-trust.1",
    "ccbox-learn.1",
    "ccbox-allow.1",
    "ccbox-caches.1",
    "ccbox-caches-clear.1",
    "ccbox-connect.1",
    "ccbox-completions.1",
    "ccbox-man.1",
    "ccbox.toml.5",
];

/// Prints a page's source.
pub(super) fn man(page: Option<&str>) -> Result<Ending, Fault> {
    let asked = page.unwrap_or("ccbox");
    match find(asked) {
        Some(text) => answer(text),
        None => Err(UsageError::new(
            format!("no man page `{asked}`"),
            "ccbox, ccbox.toml, or the name of a subcommand",
        )
        .into()),
    }
}

/// By full name, without the section, or by subcommand.
fn find(asked: &str) -> Option<&'static str> {
    let stem = |name: &'static str| name.rsplit_once('.').map_or(name, |(s, _)| s);
    PAGES
        .iter()
        .find(|(name, _)| {
            *name == asked
                || stem(name) == asked
                || stem(name).strip_prefix("ccbox-") == Some(asked)
        })
        .map(|(_, text)| *text)
}

/// Prints a completion script.
pub(super) fn completions(shell: Shell) -> Result<Ending, Fault> {
    answer(match shell {
        Shell::Bash => include_str!("../../completions/ccbox.bash"),
        Shell::Zsh => include_str!("../../completions/_ccbox"),
        Shell::Fish => include_str!("../../completions/ccbox.fish"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_found_by_the_names_people_type() {
        for (asked, name) in [
            ("ccbox", "ccbox.1"),
            ("run", "ccbox-run.1"),
            ("ccbox-run", "ccbox-run.1"),
            ("ccbox-run.1", "ccbox-run.1"),
            ("ccbox.toml", "ccbox.toml.5"),
        ] {
            let want = PAGES.iter().find(|(n, _)| *n == name).map(|(_, t)| *t);
            assert_eq!(find(asked), want, "{asked}");
        }
        assert_eq!(find("nothing"), None);
    }
}
