//! Rounds of a simulation, and the tenants in them.

use crate::domain::plan::Gate;
use crate::domain::tenant::Weight;
use std::sync::Arc;

/// A simulated round.
#[derive(Clone, Debug, PartialEq)]
pub struct ShadowRound {
    pub gate: Gate,
    pub depth: u64,
    pub batch: u64,
    pub promoted: u64,
    /// Tenants whose jobs were promoted, the one with most jobs first.
    pub served: Vec<ServedTenant>,
}

/// A tenant whose jobs a simulated round promoted.
#[derive(Clone, Debug, PartialEq)]
pub struct ServedTenant {
    pub tenant: Arc<str>,
    pub weight: Weight,
    pub jobs: u64,
}

/// A tenant in simulated staging.
#[derive(Clone, Copy, Debug)]
pub struct SimulatedTenant<'a> {
    pub tenant: &'a Arc<str>,
    pub weight: Weight,
    pub jobs: u64,
    /// Time since which the first job waits.
    pub oldest: Option<i64>,
}
