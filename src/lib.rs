//! ccbox wraps one command in a sandbox.
//!
//! The data flow is a straight line; everything left of `Session` only reads:
//!
//! ```text
//! argv ─► Args ─► Layers ─► Policy ─► Plan ─► Invocation ─► Session ─► Outcome ─► report
//! ```
//!
//! * [`cli`] turns argv into `Args` and walks the line (`cli/run.rs`)
//! * [`spec`] parses TOML layers with provenance and merges them into a [`policy::Policy`]
//! * [`policy`] holds the merged, still abstract rules; it is pure and depends on nothing
//! * [`host`] collects facts about this machine into plain data
//! * [`plan`] resolves policy and facts into an ordered, backend-neutral [`plan::Plan`]
//! * [`backend`] renders a plan into an [`backend::Invocation`]: argv, descriptors, environment
//! * [`session`] owns the live run: child, proxies, signals, terminal
//! * [`broker`] decides each write inside writable trees while the child runs (Linux)
//! * [`proxy`] serves HTTP and SOCKS on sockets of the child's network namespace
//! * [`report`] is the only module that writes to stderr or to the event stream
//! * [`sys`] is the only module with `unsafe`

pub mod backend;
pub mod broker;
pub mod cli;
pub mod exit;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
pub mod host;
pub mod plan;
pub mod policy;
pub mod proxy;
pub mod report;
pub mod session;
pub mod spec;
pub mod sys;
