//! `ccbox profile`: the backend's text only, on any platform.

use super::args::{ProfileArgs, ProfileFormat};
use super::context::{Extra, prepare};
use super::engine::{self, Chosen};
use super::render;
use super::usage::UsageError;
use super::{Ending, Fault, answer};
use crate::host::HostFacts;
use crate::host::bwrap::PLACES;
use crate::spec::SpecSource;

/// Prints the arguments of bubblewrap, whether it is installed or not.
pub(super) fn profile(args: &ProfileArgs, specs: Vec<SpecSource>) -> Result<Ending, Fault> {
    match args.format {
        ProfileFormat::Seatbelt => Err(UsageError::not_yet("`--format seatbelt`").into()),
        ProfileFormat::Bwrap => {
            let command = if args.command.is_empty() {
                vec!["true".into()]
            } else {
                args.command.clone()
            };
            let ready = prepare(
                HostFacts::collect()?,
                &args.policy,
                specs,
                &command,
                Extra::default(),
            )?;
            let program = PLACES.first().copied().unwrap_or("bwrap");
            let chosen = Chosen::Bwrap(program.into());
            engine::holds(&ready.plan, &chosen)?;
            let net = render::printed_setup(&chosen, ready.plan.network.mode);
            answer(&render::lines(&render::invocation(
                &ready, &chosen, net, false,
            )))
        }
    }
}
