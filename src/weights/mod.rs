//! What tenants weigh, asked of the user's webhook. A failing webhook never stops promotion: every question ends within
//! its deadline with weights or with an [`Error`], and last-good weights serve until [`stale_weight`] says otherwise.
//!
//! A rule has one [`Source`]; all share one HTTP client, made by [`client_builder`].

mod age;
mod ask;
mod breaker;
mod client;
mod error;
mod reply;
mod source;
mod webhook;

pub use age::stale_weight;
pub use ask::{Ask, Tenant};
pub use breaker::{Breaker, Pass, State};
pub use client::{Client, causes, client_builder, client_builder_trusting};
pub use error::{Error, ErrorKind, InvalidUrl};
pub use reply::Outcome;
pub use source::{Answer, Source, Status};
pub use webhook::signature;
