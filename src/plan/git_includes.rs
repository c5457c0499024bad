//! Files that a git configuration includes (`include.path`, `includeIf.*.path`; git-config(1), Includes): whoever writes them writes the
//! configuration.
//!
//! Read once, before the run: inside nobody can add one, because the gate lets no such key through. Conditions are not looked at: one
//! path too many is only stricter.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::context::Ctx;
use super::paths::normal;
use crate::broker::gate::config;

/// git gives up at this depth (MAX_INCLUDE_DEPTH of config.c).
const DEPTH: usize = 10;

/// What `file` includes, and what that includes, whether it exists or not.
pub(super) fn of_file(ctx: Ctx<'_>, file: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(ctx, file, DEPTH, &mut found);
    found
}

fn collect(ctx: Ctx<'_>, file: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    if depth == 0 || !ctx.exists(file) {
        return;
    }
    // What the caller cannot read, its git cannot read either.
    let text = ctx.fs.read(file).unwrap_or_default();
    let dir = file.parent().unwrap_or(file);
    for value in values(&text) {
        let path = match value.strip_prefix(b"~/") {
            Some(rest) => ctx.host.home_real.join(OsStr::from_bytes(rest)),
            None => PathBuf::from(OsStr::from_bytes(&value)),
        };
        let path = normal(&dir.join(path));
        if !found.contains(&path) {
            found.push(path.clone());
            collect(ctx, &path, depth - 1, found);
        }
    }
}

/// Every included path. A file that the strict reader refuses is searched line by line for the key, whatever its section is.
fn values(text: &[u8]) -> Vec<Vec<u8>> {
    let all: Vec<Vec<u8>> = match config::parse(text) {
        Ok(entries) => entries
            .into_iter()
            .filter(|e| matches!(e.section.as_str(), "include" | "includeif") && e.key == "path")
            .filter_map(|e| e.value)
            .collect(),
        Err(_) => text.split(|b| *b == b'\n').filter_map(odd).collect(),
    };
    all.into_iter().filter(|v| !v.is_empty()).collect()
}

/// The value of a line that may be such a key, its section before it on the same line or not.
fn odd(line: &[u8]) -> Option<Vec<u8>> {
    let at = line.iter().position(|b| *b == b'=')?;
    let (key, value) = line.split_at(at);
    let key = key.rsplit(|b| *b == b']').next()?;
    let value = value.get(1..)?.trim_ascii();
    let value = value.strip_prefix(b"\"").unwrap_or(value);
    let value = value.strip_suffix(b"\"").unwrap_or(value);
    key.trim_ascii()
        .eq_ignore_ascii_case(b"path")
        .then(|| value.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_plain_and_of_unusual_files() {
        for (text, want) in [
            ("[include]\n\tpath = a # c\n", vec!["a"]),
            (
                "[includeIf \"gitdir:~/x/\"]\npath=\"b c\"\n[INCLUDE]\nPath = d\n",
                vec!["b c", "d"],
            ),
            ("[other]\npath = a\n[include]\n\tpath =\n", vec![]),
            // Syntax that the gate does not read.
            ("[a.b]\nx = y\n[include] path = e\n", vec!["e"]),
        ] {
            let got: Vec<_> = values(text.as_bytes())
                .iter()
                .map(|v| String::from_utf8_lossy(v).into_owned())
                .collect();
            assert_eq!(got, want, "{text}");
        }
    }
}
