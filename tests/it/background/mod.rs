//! Background tasks: audit, noisy neighbours, retention.

mod audit;
mod noisy_neighbors;
mod retention;
