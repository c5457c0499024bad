//! argv → typed arguments, with the order of `-f` and `-p` kept.

use std::ffi::OsString;

use clap::{ArgMatches, Args, FromArgMatches};

use super::args::{Cli, Command, RunArgs, command};
use super::usage::{Understood, UsageError, translate};
use crate::spec::SpecSource;

/// A call that was understood.
#[derive(Debug)]
pub(super) struct Call {
    /// As typed.
    pub(super) cli: Cli,
    /// `-f` and `-p` in the order they were typed: later scalars win (semantics 17).
    pub(super) specs: Vec<SpecSource>,
}

/// Reads a whole argument vector, program name first.
///
/// # Errors
/// An answer (`--help`), or one line for the user.
pub(super) fn parse(argv: &[OsString]) -> Result<Call, Understood> {
    if let Some(call) = plain_run(argv) {
        return Ok(call);
    }
    let matches = command()
        .try_get_matches_from(argv)
        .map_err(|e| translate(&e, argv))?;
    let cli = Cli::from_arg_matches(&matches).map_err(|e| translate(&e, argv))?;
    let specs = match matches.subcommand() {
        Some((_, sub)) => specs_in_order(sub),
        None => Vec::new(),
    };
    Ok(Call { cli, specs })
}

/// `ccbox run …` without a mistake, the call that is made by the hundred: only its own options are built, which takes a
/// quarter of the time of the whole tree. Anything else, help included, is left to the tree.
fn plain_run(argv: &[OsString]) -> Option<Call> {
    let (_, rest) = argv.split_first()?;
    if rest.first()? != "run" {
        return None;
    }
    let options = RunArgs::augment_args(clap::Command::new("run"));
    let matches = options.try_get_matches_from(rest).ok()?;
    Some(Call {
        specs: specs_in_order(&matches),
        cli: Cli {
            command: Command::Run(RunArgs::from_arg_matches(&matches).ok()?),
        },
    })
}

fn specs_in_order(sub: &ArgMatches) -> Vec<SpecSource> {
    let mut found: Vec<(usize, SpecSource)> = Vec::new();
    // Subcommands without these options answer `Err`, options that were not typed `Ok(None)`.
    if let Ok(Some(files)) = sub.try_get_many::<std::path::PathBuf>("spec")
        && let Some(at) = sub.indices_of("spec")
    {
        found.extend(at.zip(files.cloned().map(SpecSource::File)));
    }
    if let Ok(Some(texts)) = sub.try_get_many::<String>("inline")
        && let Some(at) = sub.indices_of("inline")
    {
        found.extend(at.zip(texts.cloned().map(SpecSource::Inline)));
    }
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, s)| s).collect()
}

impl From<UsageError> for Understood {
    fn from(e: UsageError) -> Self {
        Self::Wrong(e)
    }
}

#[cfg(test)]
mod tests;
