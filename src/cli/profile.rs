//! `ccbox profile`: the backend's text only, on any platform.

use std::path::Path;

use super::args::{ProfileArgs, ProfileFormat};
use super::context::{Extra, Prepared, prepare, prepare_shown, shown_command};
use super::engine::{self, Chosen};
use super::machine::Machine;
use super::render;
use super::{Ending, Fault, answer};
use crate::backend::bwrap::PROXY_PORT;
use crate::backend::seatbelt::{self, RunFacts};
use crate::host::bwrap::PLACES;
use crate::host::{HostFacts, Platform, RealFs};
use crate::plan;
use crate::spec::SpecSource;

/// Tag, port and directory of a profile that is only shown: each run has its own (semantics 43).
const EXAMPLE_TAG: &str = "ccbox-0000000000000000";
const EXAMPLE_TMP: &str = "/private/var/folders/zz/ccbox/T/ccbox-0000000000000000";

/// Prints the arguments of bubblewrap, whether it is installed or not, or the profile, whatever system this is.
pub(super) fn profile(
    args: &ProfileArgs,
    specs: Vec<SpecSource>,
    machine: &Machine,
) -> Result<Ending, Fault> {
    match args.format {
        ProfileFormat::Seatbelt => {
            // As a run on macOS has it, with the built-in profiles of that system.
            let mac = Machine {
                platform: Platform::Macos,
                ..machine.clone()
            };
            let by_path = Extra {
                by_path: true,
                ..Extra::default()
            };
            let command = shown_command(&args.command);
            let host = HostFacts::collect()?;
            let ready = prepare(host, &args.policy, specs, &command, by_path, &mac)?;
            answer(&example(&ready)?)
        }
        ProfileFormat::Bwrap => {
            let ready = prepare_shown(&args.policy, specs, &args.command, machine)?;
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

/// A profile that is only shown.
pub(super) fn example(ready: &Prepared) -> Result<String, Fault> {
    let policy = &ready.loaded.policy;
    let rules = plan::seatbelt::rules(policy, &ready.host, &RealFs, Path::new(EXAMPLE_TMP))?;
    let run = RunFacts {
        tag: EXAMPLE_TAG.to_owned(),
        proxy_port: PROXY_PORT,
        terminals: Vec::new(),
    };
    Ok(seatbelt::render(&rules, &run)?)
}
