//! The command line.

mod commands;
mod debug;
mod demo;
mod examples;
mod explain;
mod lists;
mod simulate;
mod start;
mod top;
mod weights;
