//! The command line.

mod commands;
mod debug;
mod examples;
mod start;
mod weights;
