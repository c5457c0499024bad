//! `ccbox init`: a commented ccbox.toml, never overwriting one.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::args::InitArgs;
use super::usage::UsageError;
use super::{Ending, Fault, answer, rooms};
use crate::exit;
use crate::host::HostFacts;
use crate::report::text::escape_os;
use crate::spec::init_template;

/// What a project file may be called; two of them are an error (semantics 17).
const NAMES: [&str; 2] = ["ccbox.toml", ".ccbox.toml"];

/// Writes the file into the current directory and records it as trusted (semantics 18).
pub(super) fn init(args: &InitArgs) -> Result<Ending, Fault> {
    let host = HostFacts::collect()?;
    for name in NAMES {
        if std::fs::symlink_metadata(host.cwd.join(name)).is_ok() {
            return Err(UsageError::new(
                format!("`{name}` is already here"),
                "edit it, or move it away first",
            )
            .into());
        }
    }
    let path = host
        .cwd
        .join(NAMES.first().copied().unwrap_or("ccbox.toml"));
    create(&path, &init_template(&args.profile)).map_err(|e| UsageError {
        message: format!("cannot write `{}`: {}", path.display(), exit::reason(&e)),
        hint: None,
    })?;
    rooms::trust(&path, &host)?;
    answer(&format!(
        "wrote {} and recorded it as trusted\n",
        escape_os(path.as_os_str())
    ))
}

/// Exclusively: neither a file nor a link that came in between is touched.
fn create(path: &Path, text: &str) -> std::io::Result<()> {
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(path)?
        .write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_overwritten_and_no_link_followed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ccbox.toml");
        create(&path, "a").unwrap();
        assert!(create(&path, "b").is_err());
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path().join("target"), &link).unwrap();
        assert!(create(&link, "c").is_err());
        assert!(!dir.path().join("target").exists());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a");
    }
}
