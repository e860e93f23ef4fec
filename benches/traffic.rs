//! The traffic of the noisy-neighbour benchmark: workers of a fixed capacity, quiet tenants, a noisy one, and the waits
//! of jobs.

use crate::client::{Connection, request};
use crate::histogram::Histogram;
use crate::scenario::{ID, expect_success, find};
use anyhow::Context;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The interval of fetches of a worker without a job. The workers' fetches are spread over the interval.
const POLL: Duration = Duration::from_millis(10);
/// The argument of a marked job is this prefix and its number.
const MARK: &str = "marked-";
/// Jobs per request of the flood.
const BATCH: usize = 100;

/// The times at which marked jobs were pushed and fetched.
#[derive(Clone, Default)]
pub struct WaitTimes {
    entries: Arc<Mutex<Vec<Entry>>>,
}

type Entry = (Instant, Option<Instant>);

/// The waits of marked jobs.
pub struct WaitSummary {
    /// Jobs that still wait count with their age.
    pub histogram: Histogram,
    /// Number of fetched jobs.
    pub fetched: u64,
    /// Number of jobs that still wait.
    pub waiting: u64,
}

impl WaitTimes {
    fn pushed(&self) -> usize {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.push((Instant::now(), None));
        entries.len() - 1
    }

    fn fetched(&self, number: usize) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, fetched)) = entries.get_mut(number) {
            fetched.get_or_insert_with(Instant::now);
        }
    }

    /// The waits so far.
    pub fn waits(&self) -> WaitSummary {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut waits, now) = (WaitSummary { histogram: Histogram::new(), fetched: 0, waiting: 0 }, Instant::now());
        for (pushed, got) in entries.iter() {
            waits.histogram.record(got.unwrap_or(now) - *pushed);
            *(if got.is_some() { &mut waits.fetched } else { &mut waits.waiting }) += 1;
        }
        waits
    }
}

/// The server, the job type and the duration of the traffic.
#[derive(Clone)]
pub struct Traffic {
    pub address: SocketAddr,
    pub kind: &'static str,
    pub until: Instant,
    pub wait_times: WaitTimes,
}

fn job(kind: &str, tenant: &str, argument: &str) -> String {
    format!(r#"{{"type":"{kind}","queue":"bench","args":["{argument}"],"meta":{{"tenant_id":"{tenant}"}}}}"#)
}

impl Traffic {
    /// Pushes one marked job of a tenant every `interval`, starting after `delay`.
    pub async fn push_steadily(self, tenant: String, delay: Duration, interval: Duration) -> anyhow::Result<u64> {
        let mut connection = Connection::open(self.address).await?;
        let mut next = tokio::time::Instant::now() + delay;
        let mut pushed = 0;
        while next.into_std() < self.until {
            tokio::time::sleep_until(next).await;
            let mark = format!("{MARK}{:06}", self.wait_times.pushed());
            let push = request("/ojs/v1/jobs", &job(self.kind, &tenant, &mark));
            expect_success(&mut connection, &push, "a push").await?;
            (next, pushed) = (next + interval, pushed + 1);
        }
        Ok(pushed)
    }

    /// Pushes `jobs` jobs of the noisy tenant as fast as possible.
    pub async fn flood(self, jobs: usize) -> anyhow::Result<u64> {
        let mut connection = Connection::open(self.address).await?;
        let batch = vec![job(self.kind, "noisy", "flood"); BATCH].join(",");
        let batch = request("/ojs/v1/jobs/batch", &format!("{{\"jobs\":[{batch}]}}"));
        let mut pushed = 0;
        while pushed < jobs && Instant::now() < self.until {
            expect_success(&mut connection, &batch, "a batch").await?;
            pushed += BATCH;
        }
        Ok(pushed as u64)
    }

    /// Works on jobs that take `mean` on average; returns the number of completed jobs.
    pub async fn work(self, number: u32, mean: Duration) -> anyhow::Result<u64> {
        let mut connection = Connection::open(self.address).await?;
        let fetch = format!(r#"{{"queues":["bench"],"count":1,"worker_id":"worker-{number}"}}"#);
        let fetch = request("/ojs/v1/workers/fetch", &fetch);
        let mut done = 0;
        tokio::time::sleep(POLL * number / 20).await;
        while Instant::now() < self.until {
            expect_success(&mut connection, &fetch, "a fetch").await?;
            let Some(id) = fetched_id(connection.body())? else {
                tokio::time::sleep(POLL).await;
                continue;
            };
            if let Some(mark) = mark(connection.body()) {
                self.wait_times.fetched(mark);
            }
            // Evenly distributed from half to one and a half of the mean, and the same in each run.
            let share = 50 + (u64::from(number) * 31 + done * 37) % 101;
            tokio::time::sleep(mean * share as u32 / 100).await;
            let ack = format!(r#"{{"job_id":"{id}","worker_id":"worker-{number}"}}"#);
            expect_success(&mut connection, &request("/ojs/v1/workers/ack", &ack), "an ack").await?;
            done += 1;
        }
        Ok(done)
    }
}

/// The id of the job in a fetch response, if it has one.
pub fn fetched_id(body: &[u8]) -> anyhow::Result<Option<String>> {
    let Some(at) = find(body, b"\"id\":\"") else { return Ok(None) };
    let id = body.get(at + 6..at + 6 + ID.len()).context("a fetch returned an id of an unexpected form")?;
    Ok(Some(String::from_utf8_lossy(id).into_owned()))
}

fn mark(body: &[u8]) -> Option<usize> {
    let at = find(body, MARK.as_bytes())? + MARK.len();
    std::str::from_utf8(body.get(at..at + 6)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marked_job_is_recognised() {
        let text = job("a.b", "t", "marked-000017");
        assert_eq!(mark(text.as_bytes()), Some(17));
        assert_eq!(mark(job("a.b", "t", "flood").as_bytes()), None);
        assert!(fetched_id(b"{\"jobs\":[]}").expect("readable").is_none());
    }

    #[test]
    fn jobs_that_still_wait_are_counted() {
        let wait_times = WaitTimes::default();
        let first = wait_times.pushed();
        wait_times.pushed();
        wait_times.fetched(first);
        let WaitSummary { fetched, waiting, .. } = wait_times.waits();
        assert_eq!((fetched, waiting), (1, 1));
    }
}
