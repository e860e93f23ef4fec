//! The command line.

mod commands;
mod debug;
mod demo;
mod examples;
mod start;
mod weights;
