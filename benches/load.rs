//! The load generator: clients that repeat a unit of work until time or jobs run out.

use crate::case::Case;
use crate::client::Connection;
use crate::histogram::Histogram;
use crate::scenario::{Requests, Scenario};
use anyhow::Context;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// The time limit for the last responses of a run.
const PATIENCE: Duration = Duration::from_secs(30);
/// The most failures on a connection before it stops: the run has failed anyway, and more requests would only fill the
/// log.
const MOST_ERRORS: u64 = 100;

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    pub jobs: u64,
    pub seconds: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub errors: u64,
    pub first_error: Option<String>,
}

impl Measured {
    /// Adds a further run; latencies are the maximum of both.
    pub fn add(&mut self, more: Measured) {
        self.jobs += more.jobs;
        self.seconds += more.seconds;
        (self.p50_ms, self.p99_ms) = (self.p50_ms.max(more.p50_ms), self.p99_ms.max(more.p99_ms));
        self.errors += more.errors;
        self.first_error = self.first_error.take().or(more.first_error);
    }

    /// Jobs per second.
    pub fn rate(&self) -> f64 {
        self.jobs as f64 / self.seconds.max(1e-9)
    }
}

/// A client that repeats a unit of work.
pub trait Client: Send + 'static {
    /// Does one unit of work.
    fn step(&mut self) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// Concurrent clients.
pub struct Load<C> {
    clients: Vec<C>,
    /// Jobs per unit of work.
    jobs: usize,
    /// Jobs left for all runs, which bounds the memory of Redis.
    jobs_left: Arc<AtomicI64>,
}

impl Load<(Connection, Requests)> {
    /// Opens connections to a server, each with prepared requests.
    pub async fn connect(
        address: SocketAddr,
        case: &Case,
        scenario: Scenario,
        connections: usize,
        jobs: u64,
    ) -> anyhow::Result<Self> {
        let mut clients = Vec::with_capacity(connections);
        for worker in 0..connections {
            let connection = Connection::open(address).await.context("cannot connect to the server")?;
            clients.push((connection, Requests::new(case, scenario, worker)?));
        }
        Ok(Load { jobs: scenario.jobs(), ..Load::new(clients, jobs) })
    }
}

impl<C: Client> Load<C> {
    /// Creates a load of clients whose unit of work is one job, with `jobs` in total.
    pub fn new(clients: Vec<C>, jobs: u64) -> Self {
        Load { clients, jobs: 1, jobs_left: Arc::new(AtomicI64::new(jobs as i64)) }
    }

    /// Runs all clients for a while, or until the jobs are used up.
    pub async fn run(&mut self, duration: Duration) -> anyhow::Result<Measured> {
        let started = Instant::now();
        let until = started + duration;
        let mut tasks = tokio::task::JoinSet::new();
        for client in self.clients.drain(..) {
            let jobs_left = Arc::clone(&self.jobs_left);
            tasks.spawn(repeat(client, self.jobs as i64, jobs_left, until));
        }
        let tallies = tokio::time::timeout(duration + PATIENCE, tasks.join_all()).await;
        let tallies = tallies.context("the server stopped answering")?;
        let seconds = started.elapsed().as_secs_f64();
        let (mut measured, mut latencies) = (Measured { seconds, ..Measured::default() }, Histogram::new());
        for (client, tally) in tallies {
            self.clients.push(client);
            latencies.merge(&tally.latencies);
            measured.jobs += tally.units * self.jobs as u64;
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

async fn repeat<C: Client>(mut client: C, jobs: i64, jobs_left: Arc<AtomicI64>, until: Instant) -> (C, Tally) {
    let mut tally = Tally { units: 0, errors: 0, first_error: None, latencies: Histogram::new() };
    let mut started = Instant::now();
    while started < until && tally.errors < MOST_ERRORS && jobs_left.fetch_sub(jobs, Ordering::Relaxed) >= jobs {
        let outcome = client.step().await;
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
