//! Workers of a fixed capacity, tenants that push a job now and then, one that floods, and how long jobs wait between them.

use super::client::{Connection, request};
use super::histogram::Histogram;
use super::scenario::{ID, expect_success, find};
use anyhow::Context;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a worker without a job waits before it asks again. They ask in turn, so that somebody asks all the time.
const POLL: Duration = Duration::from_millis(10);
/// A marked job's argument is this and its number.
const MARK: &str = "marked-";
/// Jobs in one request of the flood.
const BATCH: usize = 100;

/// When marked jobs were pushed and when a worker got them.
#[derive(Clone, Default)]
pub(super) struct Ledger {
    entries: Arc<Mutex<Vec<Entry>>>,
}

type Entry = (Instant, Option<Instant>);

impl Ledger {
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

    /// The waits until now, and of how many jobs: those fetched, and those that still wait and count with their age.
    pub(super) fn waits(&self) -> (Histogram, u64, u64) {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut waits, mut fetched, mut waiting, now) = (Histogram::new(), 0, 0, Instant::now());
        for (pushed, got) in entries.iter() {
            waits.record(got.unwrap_or(now) - *pushed);
            *(if got.is_some() { &mut fetched } else { &mut waiting }) += 1;
        }
        (waits, fetched, waiting)
    }
}

/// Where and what is pushed and fetched.
#[derive(Clone)]
pub(super) struct Site {
    pub(super) address: SocketAddr,
    pub(super) kind: &'static str,
    pub(super) until: Instant,
    pub(super) ledger: Ledger,
}

fn job(kind: &str, tenant: &str, argument: &str) -> String {
    format!(r#"{{"type":"{kind}","queue":"bench","args":["{argument}"],"meta":{{"tenant_id":"{tenant}"}}}}"#)
}

impl Site {
    /// A tenant that pushes one marked job every `interval`, from `delay` on.
    pub(super) async fn push_steadily(
        self,
        tenant: String,
        delay: Duration,
        interval: Duration,
    ) -> anyhow::Result<u64> {
        let mut connection = Connection::open(self.address).await?;
        let mut next = tokio::time::Instant::now() + delay;
        let mut pushed = 0;
        while next.into_std() < self.until {
            tokio::time::sleep_until(next).await;
            let mark = format!("{MARK}{:06}", self.ledger.pushed());
            let push = request("/ojs/v1/jobs", &job(self.kind, &tenant, &mark));
            expect_success(&mut connection, &push, "a push").await?;
            (next, pushed) = (next + interval, pushed + 1);
        }
        Ok(pushed)
    }

    /// A tenant that pushes jobs as fast as it can until there are so many.
    pub(super) async fn flood(self, jobs: usize) -> anyhow::Result<u64> {
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

    /// A worker whose jobs take `mean` on average; how many it has done.
    pub(super) async fn work(self, number: u32, mean: Duration) -> anyhow::Result<u64> {
        let mut connection = Connection::open(self.address).await?;
        let fetch = format!(r#"{{"queues":["bench"],"count":1,"worker_id":"crew-{number}"}}"#);
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
                self.ledger.fetched(mark);
            }
            // From half the mean to one and a half, evenly, and the same in every run.
            let share = 50 + (u64::from(number) * 31 + done * 37) % 101;
            tokio::time::sleep(mean * share as u32 / 100).await;
            let ack = format!(r#"{{"job_id":"{id}","worker_id":"crew-{number}"}}"#);
            expect_success(&mut connection, &request("/ojs/v1/workers/ack", &ack), "an ack").await?;
            done += 1;
        }
        Ok(done)
    }
}

/// The id of the job in a fetch's answer, if there is one.
pub(super) fn fetched_id(body: &[u8]) -> anyhow::Result<Option<String>> {
    let Some(at) = find(body, b"\"id\":\"") else { return Ok(None) };
    let id = body.get(at + 6..at + 6 + ID.len()).context("a fetch gave an id of another form")?;
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
    fn a_mark_is_found_again() {
        let text = job("a.b", "t", "marked-000017");
        assert_eq!(mark(text.as_bytes()), Some(17));
        assert_eq!(mark(job("a.b", "t", "flood").as_bytes()), None);
        assert!(fetched_id(b"{\"jobs\":[]}").expect("readable").is_none());
    }

    #[test]
    fn who_still_waits_counts() {
        let ledger = Ledger::default();
        let first = ledger.pushed();
        ledger.pushed();
        ledger.fetched(first);
        let (_, fetched, waiting) = ledger.waits();
        assert_eq!((fetched, waiting), (1, 1));
    }
}
