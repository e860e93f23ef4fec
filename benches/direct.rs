//! An in-process worker that calls the store without HTTP.

use crate::load::Client;
use anyhow::{Context, bail};
use fairgate::store::{Ack, Fetch, JobOutcome, Store};

/// A worker with its fetch request.
pub struct Direct {
    store: Store,
    fetch: Fetch,
}

impl Direct {
    pub fn new(store: &Store, fetch: Fetch) -> Direct {
        Direct { store: store.clone(), fetch }
    }

    /// Leases a job and returns its id; `None` if none is available.
    pub async fn fetch(&self) -> anyhow::Result<Option<String>> {
        let leased = self.store.fetch(self.fetch.clone()).await?;
        Ok(leased.deliver().pop().map(|job| job.id))
    }

    pub async fn ack(&self, job_id: String) -> anyhow::Result<()> {
        let ack = Ack { job_id, worker: self.fetch.worker.clone(), result: None, idempotency_key: None };
        match self.store.ack(ack).await? {
            JobOutcome::Done(..) => Ok(()),
            other => bail!("unexpected result of an ack: {other:?}"),
        }
    }
}

impl Client for Direct {
    async fn step(&mut self) -> anyhow::Result<()> {
        let id = self.fetch().await?.context("a fetch returned no job although jobs are available")?;
        self.ack(id).await
    }
}
