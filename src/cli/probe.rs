//! `ccbox probe`, alias `doctor`.

use super::args::ProbeArgs;
use super::usage::UsageError;
use super::{Ending, Fault, answer};
use crate::host::HostFacts;
use crate::host::probe::{judge, observe, render};

/// Probes and prints; 0 also where nothing works: the answer was found.
pub(super) fn probe(args: ProbeArgs) -> Result<Ending, Fault> {
    let host = HostFacts::collect()?;
    let found = judge(&observe::observe(&host.exe, args.deep));
    if !args.json {
        return answer(&render(&found));
    }
    let mut text = serde_json::to_string_pretty(&found).map_err(|e| UsageError {
        message: format!("cannot write the answer as JSON: {e}"),
        hint: None,
    })?;
    text.push('\n');
    answer(&text)
}
