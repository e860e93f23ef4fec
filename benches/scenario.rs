//! Scenarios: the requests of one unit of work, which a connection repeats.

use crate::case::Case;
use crate::client::{Connection, request};
use crate::load::Client;
use anyhow::{Context, ensure};

/// A job of 211 bytes, the size that earlier measurements used.
pub const JOB: &str = r#"{"type":"email.send","queue":"default","args":["user@example.com","Welcome aboard","template-2024-07",{"locale":"en-GB","attempt":1}],"meta":{"tenant":"acme","source":"signup-form","campaign":"spring-2024-b1c"}}"#;

/// A unit of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    Enqueue,
    /// One batch request with this number of jobs.
    Batch(usize),
    FetchAck,
    Life,
}

impl Scenario {
    /// Jobs per unit of work.
    pub fn jobs(self) -> usize {
        match self {
            Scenario::Batch(jobs) => jobs,
            _ => 1,
        }
    }
}

/// The prepared requests of a connection, which acts as one worker.
pub struct Requests {
    scenario: Scenario,
    enqueue: Vec<u8>,
    fetch: Vec<u8>,
    /// The ack request, with space for the job's id at `id_at`.
    ack: Vec<u8>,
    id_at: usize,
}

pub const ID: &str = "00000000-0000-0000-0000-000000000000";

impl Requests {
    /// Prepares the requests of a worker. It always enqueues the first job of the case.
    pub fn new(case: &Case, scenario: Scenario, worker: usize) -> anyhow::Result<Self> {
        let job = case.job(0);
        let enqueue = match scenario {
            Scenario::Batch(jobs) => {
                request("/ojs/v1/jobs/batch", &format!("{{\"jobs\":[{}]}}", vec![job; jobs].join(",")))
            }
            _ => request("/ojs/v1/jobs", &job),
        };
        let fetch = format!(r#"{{{},"count":1,"worker_id":"bench-{worker}"}}"#, case.fetch_member());
        let ack = request("/ojs/v1/workers/ack", &format!(r#"{{"job_id":"{ID}","worker_id":"bench-{worker}"}}"#));
        let id_at = find(&ack, ID.as_bytes()).context("an ack has an id")?;
        Ok(Requests { scenario, enqueue, fetch: request("/ojs/v1/workers/fetch", &fetch), ack, id_at })
    }

    async fn step(&mut self, connection: &mut Connection) -> anyhow::Result<()> {
        if self.scenario != Scenario::FetchAck {
            expect_success(connection, &self.enqueue, "enqueue").await?;
        }
        if matches!(self.scenario, Scenario::FetchAck | Scenario::Life) {
            expect_success(connection, &self.fetch, "fetch").await?;
            let body = connection.body();
            let at = find(body, b"\"id\":\"").context("a fetch returned no job although jobs are available")? + 6;
            let id = body.get(at..at + ID.len()).context("a fetch returned an id of an unexpected form")?;
            self.ack[self.id_at..self.id_at + ID.len()].copy_from_slice(id);
            expect_success(connection, &self.ack, "ack").await?;
        }
        Ok(())
    }
}

impl Client for (Connection, Requests) {
    async fn step(&mut self) -> anyhow::Result<()> {
        let (connection, requests) = self;
        requests.step(connection).await
    }
}

pub async fn expect_success(connection: &mut Connection, request: &[u8], what: &str) -> anyhow::Result<()> {
    let status = connection.exchange(request).await?;
    ensure!(
        (200..300).contains(&status),
        "{what} returned HTTP {status}: {}",
        String::from_utf8_lossy(connection.body())
    );
    Ok(())
}

pub fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_has_the_documented_size() {
        assert_eq!(JOB.len(), 211);
        assert!(serde_json::from_str::<serde_json::Value>(JOB).is_ok());
    }

    #[test]
    fn an_ack_has_space_for_an_id() {
        let requests = Requests::new(&Case::PLAIN, Scenario::Life, 7).expect("requests");
        let body = requests.ack.split(|byte| *byte == b'\n').next_back().expect("a body");
        let body: serde_json::Value = serde_json::from_slice(body).expect("JSON");
        assert_eq!(body, serde_json::json!({"job_id": ID, "worker_id": "bench-7"}));
    }
}
