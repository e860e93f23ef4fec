//! Access to the store for commands that run without a server: the configured Redis, or the private
//! one.

use crate::app;
use crate::clock::Clock;
use crate::config::Config;
use crate::store::embedded::{self, PrivateRedis};
use crate::store::{Address, OlderData, Options, Store};
use crate::telemetry::StoreMetrics;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Returns the address of the Redis. Starts the private one if it does not run; it stops when the
/// second part is dropped.
pub(super) fn address(config: &Config) -> anyhow::Result<(Address, Option<PrivateRedis>)> {
    if let Some(address) = app::address(&config.store)? {
        return Ok((address, None));
    }
    let data_dir = &config.store.data_dir;
    match PrivateRedis::start(embedded::Options { data_dir: data_dir.clone(), durable: true }) {
        Ok(private) => Ok((private.address(), Some(private))),
        // A server is using this private Redis, so the command uses it too.
        Err(embedded::Error::InUse { .. }) => Ok((embedded::address_in(data_dir), None)),
        Err(error) => Err(error.into()),
    }
}

/// Time after which a command reports that it waits for Redis.
const SILENCE: Duration = Duration::from_millis(300);

/// An open store for the duration of a command.
pub(super) struct Site {
    pub(super) store: Store,
    stop: CancellationToken,
}

impl Site {
    pub(super) fn close(self) {
        self.stop.cancel();
    }
}

/// Opens the store at an address, and waits until it is connected.
pub(super) async fn open(config: &Config, address: Address) -> anyhow::Result<Site> {
    let options = Options {
        address,
        namespace: config.store.namespace.clone(),
        call_timeout: config.store.call_timeout,
        wait_replicas: config.store.wait_replicas,
        wait_replicas_timeout: config.store.wait_replicas_timeout,
        clock: Clock::System,
        settings: app::settings(config),
        older_data: OlderData::Refuse,
    };
    let stop = CancellationToken::new();
    let store = Store::open(options, StoreMetrics::default(), &TaskTracker::new(), stop.clone())?;
    let patience = config.store.call_timeout;
    wait_for_redis(&store, patience, &config.store.description()).await?;
    Ok(Site { store, stop })
}

/// Waits for the first connection, and says so if it takes longer than a moment.
async fn wait_for_redis(store: &Store, patience: Duration, description: &str) -> anyhow::Result<()> {
    let connected = store.connected_within(patience);
    tokio::pin!(connected);
    if let Ok(outcome) = tokio::time::timeout(SILENCE, &mut connected).await {
        return Ok(outcome?);
    }
    eprintln!("waiting up to {patience:?} for Redis at {description}");
    Ok(connected.await?)
}
