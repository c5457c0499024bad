//! `ccbox explain`: the resolved plan, in words or as JSON. Nothing is run.

use super::args::ExplainArgs;
use super::context::prepare;
use super::{Ending, Fault, answer, rooms};
use crate::host::HostFacts;
use crate::spec::SpecSource;

/// Explains what `run` with the same options would do.
pub(super) fn explain(args: &ExplainArgs, specs: Vec<SpecSource>) -> Result<Ending, Fault> {
    let command = if args.command.is_empty() {
        vec!["true".into()]
    } else {
        args.command.clone()
    };
    let ready = prepare(HostFacts::collect()?, &args.policy, specs, &command, None)?;
    answer(&rooms::explain(&ready, args.json)?)
}
