//! Weights of tenants from the user's webhook. A failing webhook never stops promotion: every
//! request ends within its deadline with weights or an [`Error`], and the last good weights are
//! used until [`stale_weight`] returns others.
//!
//! A rule has one [`WebhookSource`]; all share one HTTP client, created by [`client_builder`].

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

pub use ask::{Ask, AskedTenant};
pub use breaker::{Breaker, BreakerState, Pass};
pub use client::{Client, causes, client_builder, client_builder_trusting};
pub use doubt::Doubt;
pub use error::{Error, ErrorKind, InvalidUrl};
pub use fallback::{Fallback, stale_weight};
pub use reply::ReceivedWeights;
pub use source::{WebhookAnswer, WebhookSource, WebhookStatus};
pub use trial::{Received, Trial};
pub use webhook::signature;
