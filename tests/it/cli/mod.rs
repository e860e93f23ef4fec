//! The command line.

mod commands;
mod debug;
mod examples;
mod explain;
mod start;
mod weights;
