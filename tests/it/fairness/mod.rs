//! The fair queue compared with exact fluid sharing.

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

/// The bound for being ahead of the fluid share, in jobs: one, plus rounding.
const AHEAD: f64 = 1.0 + 1e-6;

/// The bound for being behind while weights stay the same, in jobs: one job and the width of a class (2^¼), because the
/// head of a class has the lowest start and only nearly the earliest deadline.
const BEHIND: f64 = 1.2;
