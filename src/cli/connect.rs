//! `ccbox connect HOST PORT`: ssh's ProxyCommand inside the sandbox (R41).

use super::args::ConnectArgs;
use super::{Ending, Fault, rooms};

/// Connects through the SOCKS proxy of this run.
pub(super) fn connect(args: &ConnectArgs) -> Result<Ending, Fault> {
    rooms::connect(&args.host, args.port)
}
