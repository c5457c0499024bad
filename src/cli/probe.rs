//! `ccbox probe`, alias `doctor`.

use std::path::Path;

use super::args::ProbeArgs;
use super::machine::Machine;
use super::usage::UsageError;
use super::{Ending, Fault, answer};
use crate::exit::Failure;
use crate::host::HostFacts;
use crate::host::probe::{Obstacle, Probe, judge, observe, render};
use crate::session;

/// What the probe says.
pub(super) fn found(exe: &Path, machine: &Machine, deep: bool) -> Probe {
    let mut seen = observe::observe(exe, deep);
    seen.platform = machine.platform;
    seen.uid = machine.uid;
    if machine.is_mac() {
        seen.seatbelt = Some(
            session::seatbelt::probe(&machine.tools).map_err(|e| Obstacle {
                reason: e.to_string(),
                fix: e.hint(),
            }),
        );
    }
    judge(&seen)
}

/// Probes and prints; 0 also where nothing works: the answer was found.
pub(super) fn probe(args: ProbeArgs, machine: &Machine) -> Result<Ending, Fault> {
    let host = HostFacts::collect()?;
    let found = found(&host.exe, machine, args.deep);
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
