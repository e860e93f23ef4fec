//! The fair queue beside exact fluid sharing.

mod differential;
mod fluid;
mod levels;
mod model;
mod property;
mod scenario;
mod stored;
mod stored_shares;
mod stored_turns;
mod turns;

/// The furthest a tenant may be ahead: one job, and rounding.
const AHEAD: f64 = 1.0 + 1e-6;

/// The furthest it may be behind while weights stay: one job, and a class's width (2^¼), because the head of a
/// class is its lowest start and only nearly its earliest deadline.
const BEHIND: f64 = 1.2;
