//! Background tasks: audit, history, noisy neighbours, retention.

mod audit;
mod history;
mod noisy_neighbors;
mod retention;
