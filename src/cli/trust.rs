//! `ccbox trust FILE`: from now on the grants of this project file count (semantics 18).

use std::fmt::Write as _;

use super::args::TrustArgs;
use super::{Ending, Fault, answer, rooms};
use crate::host::HostFacts;
use crate::report::text::{escape, escape_os};

/// Records path, owner and hash, and prints every grant that is accepted by it.
pub(super) fn trust(args: &TrustArgs) -> Result<Ending, Fault> {
    let host = HostFacts::collect()?;
    let path = host.cwd.join(&args.file);
    let grants = rooms::trust(&path, &host)?;
    let mut out = format!("trusted: {}\n", escape_os(path.as_os_str()));
    if grants.is_empty() {
        out.push_str("  it grants nothing\n");
    }
    for grant in grants {
        let _ = writeln!(out, "  {}", escape(&grant));
    }
    answer(&out)
}
