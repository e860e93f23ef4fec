//! API keys that were created at run time.

use super::codec::wire;
use super::script::{KEY_ADD, KEY_REVOKE};
use super::{Error, Store, reply};
use crate::auth::{ApiKey, Digest, Role};
use crate::domain::escape::{escape, unescape};
use crate::domain::json;
use serde::{Deserialize, Serialize};

/// Largest number of stored keys. Every process keeps all of them in memory.
const MOST: usize = 1000;

/// A stored key and its creation time in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredKey {
    pub key: ApiKey,
    pub created: i64,
}

/// The outcome of adding a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddKeyOutcome {
    Added,
    /// The store has reached its largest number of keys.
    Full {
        most: usize,
    },
    /// Other keys of this name have another role or tenant.
    Differs,
    /// The largest number of valid keys of this name is reached.
    Many,
    /// No key could manage keys, neither this one nor any other.
    NoAdmin,
}

/// The outcome of revoking a key.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum RevokeKeyOutcome {
    Revoked,
    Missing,
    /// It is the last key that can manage keys.
    Last,
}

#[derive(Serialize)]
struct KeyAdd<'a> {
    id: &'a str,
    digest: &'a str,
    role: &'a str,
    tenant: &'a str,
    name: &'a str,
    managed: bool,
    most_of_name: usize,
    most: usize,
    active: bool,
    by: &'a str,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum KeyAdded {
    Added,
    Full,
    Differs,
    Many,
    NoAdmin,
}

#[derive(Serialize)]
struct KeyRevoke<'a> {
    id: &'a str,
    managed: bool,
    by: &'a str,
}

impl Store {
    /// Returns all keys, sorted by name and then by creation time.
    pub async fn api_keys(&self) -> Result<Vec<StoredKey>, Error> {
        let mut command = redis::cmd("HVALS");
        command.arg(self.core.keys.api_keys());
        let records = reply::texts(self.core.command("api_keys", command).await?, "api_keys")?;
        // An unreadable key is ignored, so that it does not lock out the others.
        let readable = |record: &String| {
            stored_key(record).or_else(|| {
                tracing::error!("cannot parse a stored API key; ignoring it");
                None
            })
        };
        let mut keys: Vec<StoredKey> = records.iter().filter_map(readable).collect();
        keys.sort_by(|left, right| (&left.key.name, left.created).cmp(&(&right.key.name, right.created)));
        Ok(keys)
    }

    /// Adds a key on behalf of `by`. The limits also count the keys of the configuration.
    pub async fn add_key(&self, key: &ApiKey, configured: &[ApiKey], by: &str) -> Result<AddKeyOutcome, Error> {
        let same_name = configured.iter().filter(|other| other.name == key.name).count();
        let of_name = ApiKey::MOST_OF_A_NAME.saturating_sub(same_name);
        let args = KeyAdd {
            id: &key.id(),
            digest: &key.digest.text(),
            role: key.role.name(),
            tenant: &key.tenant.as_deref().map(escape).unwrap_or_default(),
            name: &key.name,
            managed: configured.iter().any(ApiKey::can_manage_keys),
            most_of_name: of_name,
            most: MOST,
            active: !configured.is_empty(),
            by: &json::quoted(by),
        };
        Ok(match KEY_ADD.call_packed(&self.core, &args).await? {
            KeyAdded::Added => AddKeyOutcome::Added,
            KeyAdded::Full => AddKeyOutcome::Full { most: MOST },
            KeyAdded::Differs => AddKeyOutcome::Differs,
            KeyAdded::Many => AddKeyOutcome::Many,
            KeyAdded::NoAdmin => AddKeyOutcome::NoAdmin,
        })
    }

    /// Revokes a key by its id, on behalf of `by`. A configured key that can manage keys allows
    /// revoking the last stored one.
    pub async fn revoke_key(&self, id: &str, configured: &[ApiKey], by: &str) -> Result<RevokeKeyOutcome, Error> {
        let managed = configured.iter().any(ApiKey::can_manage_keys);
        KEY_REVOKE.call_packed(&self.core, &KeyRevoke { id, managed, by: &json::quoted(by) }).await
    }
}

fn stored_key(record: &str) -> Option<StoredKey> {
    let mut parts = record.splitn(5, wire::UNIT);
    let mut next = || parts.next();
    let (digest, role) = (Digest::parse(next()?)?, Role::parse(next()?)?);
    let tenant = Some(next()?).filter(|tenant| !tenant.is_empty()).map(unescape);
    let created = next()?.parse().ok()?;
    Some(StoredKey { key: ApiKey { name: next()?.to_owned(), role, tenant, digest }, created })
}
