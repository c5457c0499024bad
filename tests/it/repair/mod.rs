//! What a run was refused, as lines of a spec.

mod allow;
mod check;
mod learn;
