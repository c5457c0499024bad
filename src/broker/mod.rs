//! The creation broker: decides, outside of the sandbox, each write the child asks for inside writable trees (D4).
//!
//! This module holds the parts that need no kernel; each is a pure function over names and bytes:
//!
//! * [`gate`] reads a git configuration file and says whether a change to it may stand
//! * [`git_paths`] says which entries of a git directory are open, closed or gated
//! * [`fold`] maps a name to the form in which denied names are compared
//! * [`decide`] turns one operation on one name into allow, deny, ask the gate, or look through the subtree
//! * [`calls`] says which system calls trap
//! * [`reads`] says which names may not be read, where a pattern asks
//! * [`plan`] is what the planner asks for: covered trees and their rules
//!
//! Nothing here opens a file. What has to be looked up is asked through [`git_paths::Facts`].

pub mod action;
pub mod calls;
pub mod decide;
pub mod fold;
pub mod gate;
pub mod git_paths;
pub mod gitdir;
pub mod guests;
pub mod plan;
pub mod reads;
pub mod supervise;
#[cfg(test)]
mod testgit;
