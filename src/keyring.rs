//! The API keys that hold: those of the configuration, and those made at run time, which all processes on a Redis share.
//!
//! A process knows all keys, so that a request costs a hash and no round trip. Once it has seen a key it goes on asking for
//! one, whatever becomes of Redis: keys that are gone open nothing, and an emptied Redis does not open a server.

use crate::auth::{ApiKey, Digest};
use crate::job::Scope;
use crate::store::{AddKeyOutcome, Error, RevokeKeyOutcome, Signal, Store, StoredKey};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Mutex, MutexGuard, watch};
use tokio_util::sync::CancellationToken;

/// How often the keys are read although no signal came: one may be lost.
const LONGEST: Duration = Duration::from_secs(5);

/// Whether callers need a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Redis has not been asked yet whether there are keys.
    Unknown = 0,
    /// There has never been a key.
    Open = 1,
    Closed = 2,
}

/// A key that holds.
#[derive(Debug, PartialEq, Eq)]
pub struct Held {
    pub key: ApiKey,
    /// Whose jobs its holder sees and touches.
    pub scope: Scope,
    /// When it was made, in milliseconds; `None` for one of the configuration.
    pub created: Option<i64>,
}

impl Held {
    fn new(key: &ApiKey, created: Option<i64>) -> Arc<Self> {
        let scope = key.tenant.as_deref().map_or(Scope::ALL, Scope::of);
        Arc::new(Held { key: key.clone(), scope, created })
    }
}

/// Whoever presented a key.
pub type Caller = Arc<Held>;

/// All keys, and where to find one by its digest.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ring {
    keys: Vec<Caller>,
    /// By a part of the digest, so that a thousand keys cost no more than one. What a look-up takes tells at most something
    /// about digests, from which no key can be made; the digest as a whole is compared in constant time.
    places: HashMap<[u8; 8], Vec<usize>>,
}

impl Ring {
    fn new(keys: Vec<Caller>) -> Self {
        let mut places = HashMap::<_, Vec<usize>>::new();
        for (place, held) in keys.iter().enumerate() {
            places.entry(held.key.digest.bucket()).or_default().push(place);
        }
        Ring { keys, places }
    }

    fn find(&self, digest: &Digest) -> Option<&Caller> {
        let places = self.places.get(&digest.bucket())?;
        places.iter().filter_map(|place| self.keys.get(*place)).find(|held| held.key.digest == *digest)
    }
}

/// What became of the wish to revoke a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revoked {
    Done,
    Missing,
    /// The configuration names it, so that it would be back after the next start.
    InConfig,
    /// Nobody could make or revoke keys any more.
    Last,
}

/// A handle to the keys; clones share it.
#[derive(Clone)]
pub struct Keyring {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    config: Vec<ApiKey>,
    gate: AtomicU8,
    ring: watch::Sender<Arc<Ring>>,
    /// One reads at a time, so that an older answer never takes the place of a newer one.
    reading: Mutex<()>,
}

impl Keyring {
    /// The keys of a store, beside those of the configuration.
    pub fn new(store: Store, config: Vec<ApiKey>) -> Self {
        let gate = if config.is_empty() { Gate::Unknown } else { Gate::Closed };
        let ring = Ring::new(config.iter().map(|key| Held::new(key, None)).collect());
        let (gate, ring) = (AtomicU8::new(gate as u8), watch::channel(Arc::new(ring)).0);
        Keyring { inner: Arc::new(Inner { store, config, gate, ring, reading: Mutex::default() }) }
    }

    /// Whether callers need a key.
    pub fn gate(&self) -> Gate {
        match self.inner.gate.load(Ordering::SeqCst) {
            0 => Gate::Unknown,
            1 => Gate::Open,
            _ => Gate::Closed,
        }
    }

    /// The same, once Redis has been asked.
    pub async fn known_gate(&self) -> Result<Gate, Error> {
        if self.gate() == Gate::Unknown {
            let reading = self.inner.reading.lock().await;
            // Whoever came first has asked for all.
            if self.gate() == Gate::Unknown {
                self.read(&reading).await?;
            }
        }
        Ok(self.gate())
    }

    /// Who presents this key.
    pub fn caller(&self, presented: &str) -> Option<Caller> {
        // Longer than any key is long: not worth a hash.
        if presented.len() > 512 {
            return None;
        }
        self.inner.ring.borrow().find(&Digest::of(presented)).cloned()
    }

    /// All keys: those of the configuration, then the others by name and age.
    pub fn keys(&self) -> Vec<Caller> {
        self.inner.ring.borrow().keys.clone()
    }

    /// What somebody who was let in may go by; `None` is somebody without a key.
    pub fn pass(&self, caller: Option<Caller>) -> Pass {
        Pass { keyring: self.clone(), caller }
    }

    /// Adds a key, at once for this process and very soon for the others.
    pub async fn create(&self, key: &ApiKey, by: &str) -> Result<AddKeyOutcome, Error> {
        let mut of_name = self.inner.config.iter().filter(|own| own.name == key.name);
        if of_name.any(|own| own.role != key.role || own.tenant != key.tenant) {
            return Ok(AddKeyOutcome::Differs);
        }
        let kept = self.inner.store.add_key(key, &self.inner.config, by).await?;
        self.reload().await?;
        Ok(kept)
    }

    /// Revokes a key by its id, at once for this process and very soon for the others.
    pub async fn revoke(&self, id: &str, by: &str) -> Result<Revoked, Error> {
        if self.inner.config.iter().any(|own| own.id() == id) {
            return Ok(Revoked::InConfig);
        }
        let dropped = self.inner.store.revoke_key(id, &self.inner.config, by).await?;
        self.reload().await?;
        Ok(match dropped {
            RevokeKeyOutcome::Revoked => Revoked::Done,
            RevokeKeyOutcome::Missing => Revoked::Missing,
            RevokeKeyOutcome::Last => Revoked::Last,
        })
    }

    /// Reads the keys again.
    pub async fn reload(&self) -> Result<(), Error> {
        let reading = self.inner.reading.lock().await;
        self.read(&reading).await
    }

    async fn read(&self, _one_at_a_time: &MutexGuard<'_, ()>) -> Result<(), Error> {
        let stored = self.inner.store.api_keys().await?;
        let own = self.inner.config.iter().map(|key| Held::new(key, None));
        let others = stored.iter().map(|StoredKey { key, created }| Held::new(key, Some(*created)));
        let ring = Arc::new(Ring::new(own.chain(others).collect()));
        match (ring.keys.is_empty(), self.gate()) {
            (true, Gate::Unknown) => self.inner.gate.store(Gate::Open as u8, Ordering::SeqCst),
            (true, Gate::Open) => {}
            (true, Gate::Closed) if !self.inner.ring.borrow().keys.is_empty() => {
                tracing::error!("all API keys are gone from Redis: nobody is let in until there are some again");
            }
            (true, Gate::Closed) => {}
            (false, before) => {
                self.inner.gate.store(Gate::Closed as u8, Ordering::SeqCst);
                if before == Gate::Open {
                    tracing::info!(keys = ring.keys.len(), "authentication is active: every request needs an API key");
                }
            }
        }
        self.inner.ring.send_if_modified(|now| {
            let changed = *now != ring;
            if changed {
                *now = ring;
            }
            changed
        });
        Ok(())
    }

    /// Keeps up with what other processes change, until `stop`.
    pub async fn follow(self, stop: CancellationToken) {
        let mut signals = self.inner.store.signals();
        loop {
            if let Err(error) = self.reload().await {
                tracing::debug!(%error, "cannot read the API keys");
            }
            let changed = async {
                loop {
                    match signals.recv().await {
                        Ok(Signal::Keys | Signal::Missed) | Err(RecvError::Lagged(_)) => return,
                        Ok(_) => {}
                        Err(RecvError::Closed) => std::future::pending().await,
                    }
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = changed => {}
                () = tokio::time::sleep(LONGEST) => {}
            }
        }
    }
}

/// What somebody who was let in goes by, for as long as they stay.
#[derive(Clone)]
pub struct Pass {
    keyring: Keyring,
    caller: Option<Caller>,
}

impl Pass {
    /// Whether they would be let in again.
    pub fn holds(&self) -> bool {
        match &self.caller {
            None => self.keyring.gate() != Gate::Closed,
            Some(caller) => {
                self.keyring.inner.ring.borrow().find(&caller.key.digest).is_some_and(|held| held.key == caller.key)
            }
        }
    }

    /// Waits until they would not: their key was revoked, or they have none and there are keys now.
    pub async fn ended(&self) {
        let mut ring = self.keyring.inner.ring.subscribe();
        while self.holds() {
            if ring.changed().await.is_err() {
                return;
            }
        }
    }
}
