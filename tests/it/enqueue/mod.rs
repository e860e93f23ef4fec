//! Enqueueing: every entry point of a job, uniqueness, and the envelope.

mod entry_points;
mod envelope;
mod unique;
