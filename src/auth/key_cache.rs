//! A cache of all valid API keys: those of the configuration, and those created at run time, which all processes on a
//! Redis share.
//!
//! Each process knows all keys, so a request costs a hash and no round trip. Once a process has seen a key, it requires one
//! for ever, whatever happens to Redis: deleted keys stop working, and an emptied Redis does not open a server.

use super::{ApiKey, Digest};
use crate::domain::tenant::Scope;
use crate::store::{AddKeyOutcome, Error, RevokeKeyOutcome, Signal, Store, StoredKey};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Mutex, MutexGuard, watch};
use tokio_util::sync::CancellationToken;

/// The longest time between two reads of the keys. A signal about a change may be lost.
const REFRESH_INTERVAL: Duration = Duration::from_secs(5);
/// The longest text that is hashed as a key, in bytes.
const LONGEST_KEY: usize = 512;

/// The requirement for an API key, as far as this process knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthMode {
    /// Redis has not been asked yet if there are keys.
    Unknown = 0,
    /// No key has ever been seen, so requests need none.
    Disabled = 1,
    /// Requests need a key. A process never leaves this mode.
    Required = 2,
}

/// A valid key and the scope of its holder.
#[derive(Debug, PartialEq, Eq)]
pub struct Credential {
    pub key: ApiKey,
    /// The jobs that its holder may read and change.
    pub scope: Scope,
    /// When the key was created, in milliseconds; `None` for a key of the configuration.
    pub created: Option<i64>,
}

impl Credential {
    fn new(key: &ApiKey, created: Option<i64>) -> Arc<Self> {
        let scope = key.tenant.as_deref().map_or(Scope::ALL, Scope::of);
        Arc::new(Credential { key: key.clone(), scope, created })
    }
}

/// The holder of the key that a request presented.
pub type Caller = Arc<Credential>;

/// All valid keys, with an index by digest.
#[derive(Debug, Default, PartialEq, Eq)]
struct KeySet {
    keys: Vec<Caller>,
    /// Positions in `keys` by a part of the digest, so that a thousand keys cost no more than one. The time of a look-up
    /// reveals at most something about digests, and no key can be computed from a digest; whole digests are compared in
    /// constant time.
    index: HashMap<[u8; 8], Vec<usize>>,
}

impl KeySet {
    fn new(keys: Vec<Caller>) -> Self {
        let mut index = HashMap::<_, Vec<usize>>::new();
        for (position, credential) in keys.iter().enumerate() {
            index.entry(credential.key.digest.bucket()).or_default().push(position);
        }
        KeySet { keys, index }
    }

    fn find(&self, digest: &Digest) -> Option<&Caller> {
        let positions = self.index.get(&digest.bucket())?;
        positions
            .iter()
            .filter_map(|position| self.keys.get(*position))
            .find(|credential| credential.key.digest == *digest)
    }
}

/// The outcome of revoking a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revocation {
    Done,
    NotFound,
    /// The configuration has the key, so it would be valid again after the next start.
    InConfig,
    /// The key is the last that can create and revoke keys.
    LastAdmin,
}

/// A handle to the cache; clones share it.
#[derive(Clone)]
pub struct KeyCache {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    config: Vec<ApiKey>,
    mode: AtomicU8,
    keys: watch::Sender<Arc<KeySet>>,
    /// Serializes reads, so that an older answer never replaces a newer one.
    reading: Mutex<()>,
}

impl KeyCache {
    /// Creates a cache of the keys of a store and of the configuration. It reads the store later.
    pub fn new(store: Store, config: Vec<ApiKey>) -> Self {
        let mode = if config.is_empty() { AuthMode::Unknown } else { AuthMode::Required };
        let keys = KeySet::new(config.iter().map(|key| Credential::new(key, None)).collect());
        let (mode, keys) = (AtomicU8::new(mode as u8), watch::channel(Arc::new(keys)).0);
        KeyCache { inner: Arc::new(Inner { store, config, mode, keys, reading: Mutex::default() }) }
    }

    /// The current mode.
    pub fn mode(&self) -> AuthMode {
        match self.inner.mode.load(Ordering::SeqCst) {
            0 => AuthMode::Unknown,
            1 => AuthMode::Disabled,
            _ => AuthMode::Required,
        }
    }

    /// The mode, never [`AuthMode::Unknown`]: waits for the first answer of Redis if there was none yet.
    pub async fn known_mode(&self) -> Result<AuthMode, Error> {
        if self.mode() == AuthMode::Unknown {
            let reading = self.inner.reading.lock().await;
            // Another request may have read the keys meanwhile.
            if self.mode() == AuthMode::Unknown {
                self.read(&reading).await?;
            }
        }
        Ok(self.mode())
    }

    /// Returns the holder of a presented key, if the key is valid.
    pub fn caller(&self, presented: &str) -> Option<Caller> {
        if presented.len() > LONGEST_KEY {
            return None;
        }
        self.inner.keys.borrow().find(&Digest::of(presented)).cloned()
    }

    /// All keys: those of the configuration, then the others by name and age.
    pub fn keys(&self) -> Vec<Caller> {
        self.inner.keys.borrow().keys.clone()
    }

    /// Starts the session of a caller that was authorized; `None` is a caller without a key.
    pub fn session(&self, caller: Option<Caller>) -> Session {
        Session { keys: self.clone(), caller }
    }

    /// Adds a key: immediately for this process, shortly after for the others.
    pub async fn create(&self, key: &ApiKey, by: &str) -> Result<AddKeyOutcome, Error> {
        let mut of_name = self.inner.config.iter().filter(|own| own.name == key.name);
        if of_name.any(|own| own.role != key.role || own.tenant != key.tenant) {
            return Ok(AddKeyOutcome::Differs);
        }
        let kept = self.inner.store.add_key(key, &self.inner.config, by).await?;
        self.reload().await?;
        Ok(kept)
    }

    /// Revokes a key by its id: immediately for this process, shortly after for the others.
    pub async fn revoke(&self, id: &str, by: &str) -> Result<Revocation, Error> {
        if self.inner.config.iter().any(|own| own.id() == id) {
            return Ok(Revocation::InConfig);
        }
        let dropped = self.inner.store.revoke_key(id, &self.inner.config, by).await?;
        self.reload().await?;
        Ok(match dropped {
            RevokeKeyOutcome::Revoked => Revocation::Done,
            RevokeKeyOutcome::Missing => Revocation::NotFound,
            RevokeKeyOutcome::Last => Revocation::LastAdmin,
        })
    }

    /// Reads the keys from the store.
    pub async fn reload(&self) -> Result<(), Error> {
        let reading = self.inner.reading.lock().await;
        self.read(&reading).await
    }

    async fn read(&self, _one_at_a_time: &MutexGuard<'_, ()>) -> Result<(), Error> {
        let stored = self.inner.store.api_keys().await?;
        let own = self.inner.config.iter().map(|key| Credential::new(key, None));
        let others = stored.iter().map(|StoredKey { key, created }| Credential::new(key, Some(*created)));
        let keys = Arc::new(KeySet::new(own.chain(others).collect()));
        match (keys.keys.is_empty(), self.mode()) {
            (true, AuthMode::Unknown) => self.inner.mode.store(AuthMode::Disabled as u8, Ordering::SeqCst),
            (true, AuthMode::Disabled) => {}
            (true, AuthMode::Required) if !self.inner.keys.borrow().keys.is_empty() => {
                tracing::error!("Redis lost all API keys; requests are refused until a key is created");
            }
            (true, AuthMode::Required) => {}
            (false, before) => {
                self.inner.mode.store(AuthMode::Required as u8, Ordering::SeqCst);
                if before == AuthMode::Disabled {
                    tracing::info!(keys = keys.keys.len(), "authentication is active: every request needs an API key");
                }
            }
        }
        self.inner.keys.send_if_modified(|now| {
            let changed = *now != keys;
            if changed {
                *now = keys;
            }
            changed
        });
        Ok(())
    }

    /// Reloads the keys whenever another process changes them, until `stop`.
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
                () = tokio::time::sleep(REFRESH_INTERVAL) => {}
            }
        }
    }
}

/// The authorization of a request that lasts, such as a long poll or a stream.
#[derive(Clone)]
pub struct Session {
    keys: KeyCache,
    caller: Option<Caller>,
}

impl Session {
    /// Returns true while the caller would still be authorized.
    pub fn is_valid(&self) -> bool {
        match &self.caller {
            None => self.keys.mode() != AuthMode::Required,
            Some(caller) => {
                let keys = self.keys.inner.keys.borrow();
                keys.find(&caller.key.digest).is_some_and(|credential| credential.key == caller.key)
            }
        }
    }

    /// Waits until the session is not valid any more: the key was revoked, or the caller has none and there are keys now.
    pub async fn ended(&self) {
        let mut keys = self.keys.inner.keys.subscribe();
        while self.is_valid() {
            if keys.changed().await.is_err() {
                return;
            }
        }
    }
}
