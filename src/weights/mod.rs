//! What tenants weigh, asked of the user's webhook. A failing webhook never stops promotion: every question ends within
//! its deadline with weights or with an [`Error`], and last-good weights serve until [`stale_weight`] says otherwise.
//!
//! A rule has one [`Source`]; all share one HTTP client, made by [`client_builder`].

mod ask;
mod breaker;
mod client;
mod doubt;
mod error;
mod fallback;
mod reply;
mod source;
mod trial;
mod webhook;

pub use ask::{Ask, Tenant};
pub use breaker::{Breaker, Pass, State};
pub use client::{Client, causes, client_builder, client_builder_trusting};
pub use doubt::Doubt;
pub use error::{Error, ErrorKind, InvalidUrl};
pub use fallback::{Fallback, stale_weight};
pub use reply::Outcome;
pub use source::{Answer, Source, Status};
pub use trial::{Received, Trial};
pub use webhook::signature;
