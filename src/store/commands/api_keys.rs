//! API keys that were created at run time.

use super::codec::wire;
use super::script::{KEY_ADD, KEY_REVOKE};
use super::{Error, Store, reply};
use crate::auth::{ApiKey, Digest, Role};
use crate::domain::escape::{escape, unescape};
use crate::domain::json;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevokeKeyOutcome {
    Revoked,
    Missing,
    /// It is the last key that can manage keys.
    Last,
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
        let managed = configured.iter().any(ApiKey::can_manage_keys);
        let tenant = key.tenant.as_deref().map(escape).unwrap_or_default();
        let fill = |command: &mut redis::Cmd, _: bool| {
            self.core.begin(command).arg(key.id()).arg(key.digest.text()).arg(key.role.name()).arg(&tenant);
            command.arg(&key.name).arg(u8::from(managed)).arg(of_name).arg(MOST);
            command.arg(u8::from(!configured.is_empty())).arg(json::quoted(by));
        };
        match reply::text(KEY_ADD.call(&self.core.connection, fill).await?, "key_add")?.as_str() {
            "ok" => Ok(AddKeyOutcome::Added),
            "full" => Ok(AddKeyOutcome::Full { most: MOST }),
            "differs" => Ok(AddKeyOutcome::Differs),
            "many" => Ok(AddKeyOutcome::Many),
            "admin" => Ok(AddKeyOutcome::NoAdmin),
            _ => Err(Error::unreadable("key_add")),
        }
    }

    /// Revokes a key by its id, on behalf of `by`. A configured key that can manage keys allows
    /// revoking the last stored one.
    pub async fn revoke_key(&self, id: &str, configured: &[ApiKey], by: &str) -> Result<RevokeKeyOutcome, Error> {
        let managed = configured.iter().any(ApiKey::can_manage_keys);
        let fill = |command: &mut redis::Cmd, again: bool| {
            self.core.begin(command).arg(id).arg(u8::from(again)).arg(u8::from(managed)).arg(json::quoted(by));
        };
        match reply::text(KEY_REVOKE.call(&self.core.connection, fill).await?, "key_revoke")?.as_str() {
            "ok" => Ok(RevokeKeyOutcome::Revoked),
            "missing" => Ok(RevokeKeyOutcome::Missing),
            "last" => Ok(RevokeKeyOutcome::Last),
            _ => Err(Error::unreadable("key_revoke")),
        }
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
