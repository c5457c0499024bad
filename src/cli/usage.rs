//! clap's errors → one line in the shape of the contract, 125.
//!
//! clap prints several lines and ends with 2; a caller of a wrapper must be able to tell the wrapper's failure from the
//! command's (R61), so nothing of clap's own printing is used but the help.

use std::ffi::{OsStr, OsString};

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::exit::Failure;
use crate::report::text::shell_line;

/// A call that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct UsageError {
    /// What is wrong.
    pub message: String,
    /// What to type instead.
    pub hint: Option<String>,
}

impl Failure for UsageError {
    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}

impl UsageError {
    /// An error with the next step.
    #[must_use]
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: Some(hint.into()),
        }
    }
}

/// `--help` and `--version` are answers, everything else is an error.
#[derive(Debug, PartialEq, Eq)]
pub enum Understood {
    /// Text for stdout, exit 0.
    Answer(String),
    /// 125.
    Wrong(UsageError),
}

/// Turns what clap says into one of ours. `argv` is the whole call, program name first.
#[must_use]
pub fn translate(error: &clap::Error, argv: &[OsString]) -> Understood {
    let arg = || {
        bare(&context(error, ContextKind::InvalidArg).unwrap_or_else(|| "an argument".to_owned()))
    };
    let kind = error.kind();
    if matches!(kind, ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return Understood::Answer(error.to_string());
    }
    Understood::Wrong(match kind {
        ErrorKind::UnknownArgument if !arg().starts_with('-') => UsageError::new(
            format!("unexpected argument `{}`", arg()),
            "a command is run by `ccbox run -- COMMAND`",
        ),
        ErrorKind::UnknownArgument => UsageError {
            message: format!("unknown option `{}`", arg()),
            hint: Some(match context(error, ContextKind::SuggestedArg) {
                Some(s) => format!("did you mean `{s}`; options of the command go after its name"),
                None => {
                    "`ccbox run --help` lists the options; those of the command go after its name"
                        .to_owned()
                }
            }),
        },
        ErrorKind::InvalidSubcommand => unknown_command(error, argv),
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            match argv.get(1).and_then(|word| word.to_str()) {
                Some("caches") => {
                    UsageError::new("nothing to do with the caches", "ccbox caches clear")
                }
                _ => UsageError::new("no command given", "ccbox run [OPTIONS] [--] CMD [ARG…]"),
            }
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => invalid_value(error, &arg()),
        ErrorKind::NoEquals | ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => {
            UsageError {
                message: format!("`{}` needs a value", arg()),
                hint: None,
            }
        }
        ErrorKind::TooManyValues => UsageError {
            message: format!("`{}` takes no such value", arg()),
            hint: None,
        },
        ErrorKind::ArgumentConflict => conflict(error, &arg()),
        ErrorKind::MissingRequiredArgument => UsageError {
            message: format!("missing argument: {}", arg()),
            hint: None,
        },
        ErrorKind::InvalidUtf8 => UsageError {
            message: "an option of ccbox is not UTF-8 text".to_owned(),
            hint: Some(
                "only paths, `--env` and the command itself may be arbitrary bytes".to_owned(),
            ),
        },
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::Io
        | ErrorKind::Format
        | _ => UsageError {
            message: first_line(error),
            hint: None,
        },
    })
}

fn context(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(s) => Some(s.clone()),
        ContextValue::Strings(v) => Some(v.join(", ")),
        ContextValue::StyledStr(s) => Some(s.to_string()),
        ContextValue::None
        | ContextValue::Bool(_)
        | ContextValue::StyledStrs(_)
        | ContextValue::Number(_)
        | _ => None,
    }
}

/// `--mode <MODE>` and `--verbose...` as one types them.
fn bare(arg: &str) -> String {
    let name = if arg.starts_with('-') {
        arg.split(' ').next().unwrap_or(arg)
    } else {
        arg
    };
    name.trim_end_matches("...").to_owned()
}

fn unknown_command(error: &clap::Error, argv: &[OsString]) -> UsageError {
    let name = context(error, ContextKind::InvalidSubcommand).unwrap_or_default();
    // `ccbox make test` is what people type who know sudo and env. clap's own idea of similar (`make` ~ `man`) is too wide.
    let typed: Vec<&OsStr> = argv.iter().skip(1).map(OsString::as_os_str).collect();
    let run = format!("ccbox run -- {}", shell_line(typed));
    let hint = match context(error, ContextKind::SuggestedSubcommand) {
        Some(s) if one_edit_apart(&s, &name) => format!("did you mean `ccbox {s}`, or `{run}`"),
        _ => run,
    };
    UsageError {
        message: format!("unknown command `{name}`"),
        hint: Some(hint),
    }
}

/// One letter more, less, other, or two neighbours swapped.
fn one_edit_apart(a: &str, b: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let head = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let (a, b) = (a.get(head..).unwrap_or(&[]), b.get(head..).unwrap_or(&[]));
    let tail = a
        .iter()
        .rev()
        .zip(b.iter().rev())
        .take_while(|(x, y)| x == y)
        .count();
    let rest = |v: &[char]| v.get(..v.len() - tail).unwrap_or(&[]).to_vec();
    let (mine, theirs) = (rest(a), rest(b));
    let swapped = mine.len() == 2 && mine.iter().rev().eq(theirs.iter());
    swapped || (mine.len() <= 1 && theirs.len() <= 1)
}

fn invalid_value(error: &clap::Error, arg: &str) -> UsageError {
    let value = context(error, ContextKind::InvalidValue).unwrap_or_default();
    // A missing value and an empty one are the same mistake, to clap too.
    if value.is_empty() {
        return UsageError {
            message: format!("`{arg}` needs a value"),
            hint: context(error, ContextKind::ValidValue).map(|v| format!("one of {v}")),
        };
    }
    let why = std::error::Error::source(error)
        .map(|s| format!(": {s}"))
        .unwrap_or_default();
    let hint = match (
        context(error, ContextKind::SuggestedValue),
        context(error, ContextKind::ValidValue),
    ) {
        (Some(s), _) => Some(format!("did you mean `{s}`")),
        (None, Some(v)) => Some(format!("one of {v}")),
        (None, None) => None,
    };
    UsageError {
        message: format!("invalid value `{value}` for `{arg}`{why}"),
        hint,
    }
}

fn conflict(error: &clap::Error, arg: &str) -> UsageError {
    let message = match context(error, ContextKind::PriorArg) {
        Some(prior) if bare(&prior) != arg => {
            format!("`{arg}` cannot be used with `{}`", bare(&prior))
        }
        _ => format!("`{arg}` is given twice"),
    };
    UsageError {
        message,
        hint: None,
    }
}

fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or("cannot be understood");
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}
