//! The fair queue beside exact fluid sharing.

mod bench;
mod differential;
mod fluid;
mod levels;
mod live;
mod live_shares;
mod live_turns;
mod property;
mod scenario;
mod turns;

/// The furthest a tenant may be ahead: one job, and rounding.
const AHEAD: f64 = 1.0 + 1e-6;

/// The furthest it may be behind while weights stay: one job, and a class's width (2^¼), because the head of a
/// class is its lowest start and only nearly its earliest deadline.
const BEHIND: f64 = 1.2;
