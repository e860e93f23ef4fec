//! What tenants weigh, asked of the user's webhook. A failing webhook never stops promotion: every question ends within
//! its deadline with weights or with an [`Error`], and last-good weights serve until [`stale_weight`] says otherwise.
//!
//! A rule has one [`Source`]; all share one HTTP client, made by [`client_builder`].

mod age;
mod breaker;
mod client;

pub use age::stale_weight;
pub use breaker::{Breaker, Pass, State};
pub use client::client_builder;
