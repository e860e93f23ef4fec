//! The life cycle of a job, with a manual clock.

use crate::support::NOON;

mod ends;
mod events;
mod fetch_and_ack;
mod reservations;
mod retries;
mod schedule;
mod workers;

/// A moment that is far from any boundary.
const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;

/// An id without a job.
const NOBODY: &str = "019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f";
