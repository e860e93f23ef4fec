//! The command line.

mod commands;
mod debug;
mod examples;
mod simulate;
mod start;
mod weights;
