//! The path of new jobs from a validated request to the store: the ancestors, the plan rule, the
//! tenant and the limits of each job.

mod ancestors;
mod service;
mod workflows;

pub use service::{EnqueueService, Refusal};
