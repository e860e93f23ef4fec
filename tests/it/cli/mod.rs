//! The command line.

mod commands;
mod examples;
mod start;
mod weights;
