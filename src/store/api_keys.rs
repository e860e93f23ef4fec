//! API keys that were made at run time.

use super::script::{KEY_ADD, KEY_REVOKE};
use super::{Error, Store, reply};
use crate::auth::{ApiKey, Digest, Role};
use crate::job::escape::{escape, unescape};
use crate::job::json;

/// Keys at most: every process knows all of them.
const MOST: usize = 1000;

/// A key that the store holds, and when it was made, in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredKey {
    pub key: ApiKey,
    pub created: i64,
}

/// What became of a new key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKept {
    Kept,
    /// There are as many keys as there may be.
    Full {
        most: usize,
    },
    /// Other keys of that name have another role or tenant.
    Differs,
    /// As many keys of that name are valid as may be.
    Many,
    /// Nobody could make or revoke keys any more.
    NoAdmin,
}

/// What became of the wish to revoke a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyDropped {
    Dropped,
    Missing,
    /// Nobody could make or revoke keys any more.
    Last,
}

impl Store {
    /// All keys, by name and then by age.
    pub async fn api_keys(&self) -> Result<Vec<StoredKey>, Error> {
        let mut command = redis::cmd("HVALS");
        command.arg(self.core.keys.api_keys());
        let records = reply::texts(self.core.command("api_keys", command).await?, "api keys")?;
        // One that cannot be read opens nothing, and must not keep the others from opening what they do.
        let readable = |record: &String| {
            stored_key(record).or_else(|| {
                tracing::error!("cannot read a stored API key: it is not valid");
                None
            })
        };
        let mut keys: Vec<StoredKey> = records.iter().filter_map(readable).collect();
        keys.sort_by(|left, right| (&left.key.name, left.created).cmp(&(&right.key.name, right.created)));
        Ok(keys)
    }

    /// Adds a key, for `by`, beside those of the configuration.
    pub async fn keep_key(&self, key: &ApiKey, configured: &[ApiKey], by: &str) -> Result<KeyKept, Error> {
        let same_name = configured.iter().filter(|other| other.name == key.name).count();
        let of_name = ApiKey::MOST_OF_A_NAME.saturating_sub(same_name);
        let managed = configured.iter().any(ApiKey::can_manage_keys);
        let tenant = key.tenant.as_deref().map(escape).unwrap_or_default();
        let fill = |command: &mut redis::Cmd, _: bool| {
            self.core.begin(command).arg(key.id()).arg(key.digest.text()).arg(key.role.name()).arg(&tenant);
            command.arg(&key.name).arg(u8::from(managed)).arg(of_name).arg(MOST);
            command.arg(u8::from(!configured.is_empty())).arg(json::quoted(by));
        };
        match reply::text(KEY_ADD.call(&self.core.connection, fill).await?).as_str() {
            "ok" => Ok(KeyKept::Kept),
            "full" => Ok(KeyKept::Full { most: MOST }),
            "differs" => Ok(KeyKept::Differs),
            "many" => Ok(KeyKept::Many),
            "admin" => Ok(KeyKept::NoAdmin),
            _ => Err(Error::unreadable("keep_key")),
        }
    }

    /// Revokes a key by its id, for `by`, beside those of the configuration.
    pub async fn drop_key(&self, id: &str, configured: &[ApiKey], by: &str) -> Result<KeyDropped, Error> {
        let managed = configured.iter().any(ApiKey::can_manage_keys);
        let fill = |command: &mut redis::Cmd, again: bool| {
            self.core.begin(command).arg(id).arg(u8::from(again)).arg(u8::from(managed)).arg(json::quoted(by));
        };
        match reply::text(KEY_REVOKE.call(&self.core.connection, fill).await?).as_str() {
            "ok" => Ok(KeyDropped::Dropped),
            "missing" => Ok(KeyDropped::Missing),
            "last" => Ok(KeyDropped::Last),
            _ => Err(Error::unreadable("drop_key")),
        }
    }
}

fn stored_key(record: &str) -> Option<StoredKey> {
    let mut parts = record.splitn(5, '\u{1f}');
    let mut next = || parts.next();
    let (digest, role) = (Digest::parse(next()?)?, Role::parse(next()?)?);
    let tenant = Some(next()?).filter(|tenant| !tenant.is_empty()).map(unescape);
    let created = next()?.parse().ok()?;
    Some(StoredKey { key: ApiKey { name: next()?.to_owned(), role, tenant, digest }, created })
}
