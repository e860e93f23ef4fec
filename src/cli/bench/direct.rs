//! A worker inside this process: it asks the store itself, without HTTP in between.

use super::load::Client;
use crate::store::{Ack, Fetch, Outcome, Store};
use anyhow::{Context, bail};

/// A worker and what it asks for.
pub(super) struct Direct {
    store: Store,
    fetch: Fetch,
}

impl Direct {
    pub(super) fn new(store: &Store, fetch: Fetch) -> Direct {
        Direct { store: store.clone(), fetch }
    }

    /// Leases a job and tells its id; `None` if there is none to have.
    pub(super) async fn fetch(&self) -> anyhow::Result<Option<String>> {
        let leased = self.store.fetch(self.fetch.clone()).await?;
        Ok(leased.deliver().pop().map(|job| job.id))
    }

    pub(super) async fn ack(&self, job_id: String) -> anyhow::Result<()> {
        let ack = Ack { job_id, worker: self.fetch.worker.clone(), result: None, idempotency_key: None };
        match self.store.ack(ack).await? {
            Outcome::Done(..) => Ok(()),
            other => bail!("an ack was answered with {other:?}"),
        }
    }
}

impl Client for Direct {
    async fn step(&mut self) -> anyhow::Result<()> {
        let id = self.fetch().await?.context("a fetch was empty although there are jobs")?;
        self.ack(id).await
    }
}
