//! Git directories on the disk: what the pure rules ask about them, and the checks they demand, carried out.
//!
//! [`super::git_paths`] and [`super::gate`] say *what* is looked up and judged; this module does it, outside of the sandbox,
//! while the child is waiting. Everything starts from a descriptor of the directory that the operation is about:
//!
//! * [`facts`] looks around it (`..` and names, never a path that is resolved again)
//! * [`repositories`] remembers which repositories were made in this run, so that all others are the project's
//! * [`pass`] carries a [`super::git_paths::Gate`] out, under the exclusive lock
//! * [`stage`] is for a configuration that is written by hand
//! * [`look`] and [`install`] read what may be anything and put a file of ccbox's own in its place
//!
//! The child may write the same directories through the broker only, so whoever holds the exclusive lock sees them stand
//! still. Programs of the host are not held up; they are trusted, and git's own lock files are respected.
//!
//! How the supervisor uses it, for one name:
//!
//! ```text
//! let facts = Pinned::new(&dir_fd, &dir, name, &above[tree], &repositories);
//! verdict = decide(set, action, &Target { dir, name, kind, facts: &facts });   // a shared lock is held
//! if let Some(errno) = facts.failed() { refuse }                              // a look failed: the verdict is worth nothing
//! NeedsGate(gate)        => exclusive lock, decide again, then pass(gate, …)
//! takes `.git` away      => repositories.goes(…) before the act
//! puts a new `.git`      => repositories.came(…) after it
//! ```

pub mod facts;
pub mod install;
pub mod look;
pub mod pass;
pub mod repositories;
pub mod stage;
#[cfg(test)]
mod tests;

pub use facts::{Above, Pinned};
pub use pass::{Ask, GateError, Passed, pass};
pub use repositories::Repositories;
pub use stage::Staged;
