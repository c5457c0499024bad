//! Tests of the planner: the cases by name, the tables row by row, and properties over random policies.

mod ask;
mod broker;
mod broker_names;
mod broker_props;
mod cases;
mod crowds;
mod eval;
mod links;
mod moved;
mod other_runs;
pub(crate) mod props;
mod read_floor;
mod sockets;
mod tables;
mod views;
