//! The command line.

mod commands;
mod debug;
mod demo;
mod examples;
mod lists;
mod start;
mod weights;
