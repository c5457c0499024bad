//! `ccbox profile`: the backend's text only, on any platform.

use std::path::Path;

use super::args::{ProfileArgs, ProfileFormat};
use super::context::prepare_shown;
use super::engine::{self, Chosen};
use super::render;
use super::{Ending, Fault, answer};
use crate::backend::bwrap::PROXY_PORT;
use crate::backend::seatbelt::{self, RunFacts};
use crate::host::RealFs;
use crate::host::bwrap::PLACES;
use crate::plan;
use crate::spec::SpecSource;

/// Tag, port and directory of a profile that is only shown: each run has its own (semantics 43).
const EXAMPLE_TAG: &str = "ccbox-0000000000000000";
const EXAMPLE_TMP: &str = "/private/var/folders/zz/ccbox/T/ccbox-0000000000000000";

/// Prints the arguments of bubblewrap, whether it is installed or not, or the profile, whatever system this is.
pub(super) fn profile(args: &ProfileArgs, specs: Vec<SpecSource>) -> Result<Ending, Fault> {
    let ready = prepare_shown(&args.policy, specs, &args.command)?;
    match args.format {
        ProfileFormat::Seatbelt => {
            let policy = &ready.loaded.policy;
            let rules =
                plan::seatbelt::rules(policy, &ready.host, &RealFs, Path::new(EXAMPLE_TMP))?;
            let run = RunFacts {
                tag: EXAMPLE_TAG.to_owned(),
                proxy_port: PROXY_PORT,
                terminals: Vec::new(),
            };
            answer(&seatbelt::render(&rules, &run)?)
        }
        ProfileFormat::Bwrap => {
            let program = PLACES.first().copied().unwrap_or("bwrap");
            let chosen = Chosen::Bwrap(program.into());
            engine::holds(&ready.plan, &ready.loaded.policy, &chosen)?;
            let net = render::printed_setup(&chosen, ready.plan.network.mode);
            answer(&render::lines(&render::invocation(
                &ready, &chosen, net, false,
            )))
        }
    }
}
