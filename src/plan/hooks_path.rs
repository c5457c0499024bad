//! Where git looks for hooks when it is told to look elsewhere: `core.hooksPath` (git-config(1)).
//!
//! Read once, before the run: inside nobody can set it, because the gate lets no such key through.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::context::Ctx;
use super::paths::normal;
use crate::broker::gate::config;

/// Hooks that git runs in a work tree (githooks(5)), for a directory that holds other things as well.
pub(super) const NAMES: [&str; 21] = [
    "applypatch-msg",
    "pre-applypatch",
    "post-applypatch",
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-rebase",
    "post-checkout",
    "post-merge",
    "pre-push",
    "pre-receive",
    "update",
    "post-receive",
    "reference-transaction",
    "pre-auto-gc",
    "post-rewrite",
    "sendemail-validate",
    "fsmonitor-watchman",
    "post-index-change",
];

/// The caller's own configuration files.
pub(super) fn files_of_caller(ctx: Ctx<'_>) -> [PathBuf; 2] {
    let home = &ctx.host.home_real;
    let xdg = ctx
        .path_var("XDG_CONFIG_HOME")
        .unwrap_or_else(|| home.join(".config"));
    [home.join(".gitconfig"), xdg.join("git/config")]
}

/// The directories that one configuration file names, for a work tree at `top`.
pub(super) fn of_file(ctx: Ctx<'_>, file: &Path, top: &Path) -> Vec<PathBuf> {
    if !ctx.exists(file) {
        return Vec::new();
    }
    let text = ctx.fs.read(file).unwrap_or_default();
    values(&text)
        .iter()
        .filter(|value| !value.is_empty())
        .map(|value| {
            let value = match value.strip_prefix(b"~/") {
                Some(rest) => ctx.host.home_real.join(OsStr::from_bytes(rest)),
                None => PathBuf::from(OsStr::from_bytes(value)),
            };
            normal(&top.join(value))
        })
        .collect()
}

/// Every value of the key. A file that the strict reader refuses is searched line by line: one path too many is only stricter.
fn values(text: &[u8]) -> Vec<Vec<u8>> {
    if let Ok(entries) = config::parse(text) {
        return entries
            .into_iter()
            .filter(|e| e.section == "core" && e.subsection.is_none() && e.key == "hookspath")
            .filter_map(|e| e.value)
            .collect();
    }
    text.split(|b| *b == b'\n')
        .filter_map(|line| {
            let at = line.iter().position(|b| *b == b'=')?;
            let (key, value) = line.split_at(at);
            let key = key.trim_ascii().to_ascii_lowercase();
            let value = value.get(1..)?.trim_ascii();
            let value = value.strip_prefix(b"\"").unwrap_or(value);
            let value = value.strip_suffix(b"\"").unwrap_or(value);
            key.ends_with(b"hookspath").then(|| value.to_vec())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_plain_and_of_unusual_files() {
        let one = |text: &str| {
            let found = values(text.as_bytes());
            found
                .first()
                .map(|v| String::from_utf8_lossy(v).into_owned())
        };
        assert_eq!(
            one("[core]\n\thooksPath = a/b # c\n").as_deref(),
            Some("a/b")
        );
        assert_eq!(one("[core \"x\"]\n\thooksPath = a\n"), None);
        assert_eq!(one("[user]\n\thooksPath = a\n"), None);
        // Deprecated syntax, which the gate does not read.
        let odd = "[a.b]\nx = y\n[core]\n HOOKSPATH=\"c d\"\n";
        assert_eq!(one(odd).as_deref(), Some("c d"));
    }
}
