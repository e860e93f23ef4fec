//! Load: many connections that repeat a scenario until time or jobs run out.

use super::client::Connection;
use super::histogram::Histogram;
use super::scenario::{Requests, Scenario};
use anyhow::Context;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// How long the last answers may take before the run is given up.
const PATIENCE: Duration = Duration::from_secs(30);
/// More failures on one connection end it: the run has failed anyway, and its requests would only fill the log.
const MOST_ERRORS: u64 = 100;

/// What a run gave.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    pub(super) jobs: u64,
    pub(super) seconds: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) errors: u64,
    pub(super) first_error: Option<String>,
}

impl Measured {
    /// Jobs a second.
    pub(super) fn rate(&self) -> f64 {
        self.jobs as f64 / self.seconds.max(1e-9)
    }
}

/// Open connections, each with its requests.
pub(super) struct Load {
    scenario: Scenario,
    clients: Vec<(Connection, Requests)>,
    /// Jobs that may still be used, over all runs: what bounds the memory of Redis.
    jobs_left: Arc<AtomicI64>,
}

impl Load {
    pub(super) async fn connect(
        address: SocketAddr,
        scenario: Scenario,
        connections: usize,
        jobs: u64,
    ) -> anyhow::Result<Self> {
        let mut clients = Vec::with_capacity(connections);
        for worker in 0..connections {
            let connection = Connection::open(address).await.context("cannot connect to the server")?;
            clients.push((connection, Requests::new(scenario, worker)?));
        }
        Ok(Load { scenario, clients, jobs_left: Arc::new(AtomicI64::new(jobs as i64)) })
    }

    /// Repeats the scenario on all connections for a while, or until the jobs are used up.
    pub(super) async fn run(&mut self, duration: Duration) -> anyhow::Result<Measured> {
        let started = Instant::now();
        let until = started + duration;
        let mut tasks = tokio::task::JoinSet::new();
        for client in self.clients.drain(..) {
            let jobs_left = Arc::clone(&self.jobs_left);
            tasks.spawn(repeat(client, self.scenario.jobs() as i64, jobs_left, until));
        }
        let tallies = tokio::time::timeout(duration + PATIENCE, tasks.join_all()).await;
        let tallies = tallies.context("the server stopped answering")?;
        let seconds = started.elapsed().as_secs_f64();
        let (mut measured, mut latencies) = (Measured { seconds, ..Measured::default() }, Histogram::new());
        for (client, tally) in tallies {
            self.clients.push(client);
            latencies.merge(&tally.latencies);
            measured.jobs += tally.units * self.scenario.jobs() as u64;
            measured.errors += tally.errors;
            measured.first_error = measured.first_error.or(tally.first_error);
        }
        (measured.p50_ms, measured.p99_ms) = (latencies.percentile_ms(0.5), latencies.percentile_ms(0.99));
        Ok(measured)
    }
}

struct Tally {
    units: u64,
    errors: u64,
    first_error: Option<String>,
    latencies: Histogram,
}

type Client = (Connection, Requests);

async fn repeat(mut client: Client, jobs: i64, jobs_left: Arc<AtomicI64>, until: Instant) -> (Client, Tally) {
    let mut tally = Tally { units: 0, errors: 0, first_error: None, latencies: Histogram::new() };
    let (connection, requests) = &mut client;
    let mut started = Instant::now();
    while started < until && tally.errors < MOST_ERRORS && jobs_left.fetch_sub(jobs, Ordering::Relaxed) >= jobs {
        let outcome = requests.step(connection).await;
        let ended = Instant::now();
        match outcome {
            Ok(()) => {
                tally.units += 1;
                tally.latencies.record(ended - started);
            }
            Err(error) => {
                tally.errors += 1;
                tally.first_error.get_or_insert_with(|| format!("{error:#}"));
            }
        }
        started = ended;
    }
    (client, tally)
}
