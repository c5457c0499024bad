//! Under the name `srt`, the command line of that tool: a script that calls it switches by a link.
//!
//! Only the command line is read here; the settings are read as any given spec (`spec::import`).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::usage::{Understood, UsageError};

/// The name.
const NAME: &str = "srt";
/// Where its settings are, without `-s`.
const SETTINGS: &str = ".srt-settings.json";
/// What it does without a settings file: no hosts, nothing writable.
const DEFAULTS: &str = "{\"network\": {}, \"filesystem\": {}}";

/// Whether this program was called so.
pub(super) fn is_called(argv: &[OsString]) -> bool {
    let name = argv.first().map(Path::new).and_then(Path::file_name);
    name == Some(OsStr::new(NAME))
}

/// The call of ccbox that means the same. Everything from the first word that is no option on belongs to the command.
///
/// # Errors
/// `--help` and `--version`, which are answers; an option that has no meaning here.
pub(super) fn translated(argv: &[OsString], home: &Path) -> Result<Vec<OsString>, Understood> {
    let mut settings: Option<OsString> = None;
    let mut string: Option<OsString> = None;
    let mut debug = false;
    let mut rest = argv.iter().skip(1);
    let mut command: Vec<OsString> = Vec::new();
    while let Some(word) = rest.next() {
        let mut value = |name: &str| {
            rest.next().cloned().ok_or_else(|| UsageError {
                message: format!("`{name}` needs a value"),
                hint: None,
            })
        };
        match word.as_bytes() {
            b"-d" | b"--debug" => debug = true,
            b"-s" | b"--settings" => settings = Some(value("--settings")?),
            b"-c" => string = Some(value("-c")?),
            b"-h" | b"--help" => {
                return Err(Understood::Answer(
                    "srt [-d] [-s FILE] [-c STRING | COMMAND...], by ccbox: see docs/imports.md\n"
                        .to_owned(),
                ));
            }
            b"-V" | b"--version" => {
                return Err(Understood::Answer(format!(
                    "ccbox {}\n",
                    env!("CARGO_PKG_VERSION")
                )));
            }
            b"--" => {
                command.extend(rest.by_ref().cloned());
            }
            long if long.starts_with(b"--settings=") => {
                let file = long.get(b"--settings=".len()..).unwrap_or_default();
                settings = Some(OsStr::from_bytes(file).to_owned());
            }
            option if option.starts_with(b"-") => {
                return Err(UsageError::new(
                    format!("unknown option `{}` of srt", word.to_string_lossy()),
                    "-d, -s FILE and -c STRING are known; options of the command go after its name",
                )
                .into());
            }
            _ => {
                command.push(word.clone());
                command.extend(rest.by_ref().cloned());
            }
        }
    }
    if let Some(string) = string {
        command = ["bash", "-c"].map(OsString::from).to_vec();
        command.push(string);
    }
    let mut out = ["ccbox", "run"].map(OsString::from).to_vec();
    if debug {
        out.push("-vv".into());
    }
    let usual = home.join(SETTINGS);
    match settings {
        Some(file) => out.extend(["-f".into(), file]),
        // Also where it cannot be read: only a file that is not there is none.
        None if std::fs::symlink_metadata(&usual).is_ok() => {
            out.extend(["-f".into(), usual.into_os_string()]);
        }
        None => out.extend(["-p".into(), DEFAULTS.into()]),
    }
    out.push("--".into());
    out.extend(command);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split('|').map(OsString::from).collect()
    }

    #[test]
    fn its_command_line_is_a_call_of_ours() {
        let home = tempfile::tempdir().unwrap();
        for (call, want) in [
            ("/x/srt|ls|-c", format!("ccbox|run|-p|{DEFAULTS}|--|ls|-c")),
            ("srt|-s|a.json|--|-x", "ccbox|run|-f|a.json|--|-x".into()),
            (
                "srt|--settings=a.json|-d|x|-d",
                "ccbox|run|-vv|-f|a.json|--|x|-d".into(),
            ),
            (
                "srt|-s|a|-c|echo $A; b",
                "ccbox|run|-f|a|--|bash|-c|echo $A; b".into(),
            ),
        ] {
            assert!(is_called(&words(call)));
            assert_eq!(
                translated(&words(call), home.path()).unwrap(),
                words(&want),
                "{call}"
            );
        }
        for call in ["srt|-s", "srt|--control-fd|3|x", "srt|-x|y"] {
            assert!(
                matches!(
                    translated(&words(call), home.path()),
                    Err(Understood::Wrong(_))
                ),
                "{call}"
            );
        }
        assert!(matches!(
            translated(&words("srt|--version"), home.path()),
            Err(Understood::Answer(_))
        ));
        assert!(!is_called(&words("ccbox|srt")));
        let usual = home.path().join(SETTINGS);
        std::os::unix::fs::symlink("nowhere", &usual).unwrap();
        let got = translated(&words("srt|x"), home.path()).unwrap();
        assert_eq!(
            got.get(3),
            Some(&usual.into_os_string()),
            "a broken file is no missing one"
        );
    }
}
