//! Limits: their current usage, and settings by an admin.

use super::script::{LIMIT_LIST, LIMIT_OVERRIDE};
use super::{Error, Store, reply};
use crate::domain::limit::{LimitKey, Quota};
use crate::domain::time::At;
use serde::{Deserialize, Serialize};

/// Largest number of limits scanned for those of one tenant or the parts of one key, most recently
/// used first.
const MOST_LOOKED_AT: usize = 10_000;

/// A limit in its current state. Times are milliseconds since the epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitState {
    pub key: LimitKey,
    pub now: i64,
    /// The quota in effect.
    pub quota: Quota,
    /// Number of active jobs under the limit.
    pub running: u64,
    /// Number of starts in the window that ends now.
    pub started: u64,
    /// Time at which all of those starts have left the window.
    pub resets_at: Option<i64>,
    /// Time at which the throttle allows the next start.
    pub next_start: i64,
    /// Number of available jobs under the limit.
    pub available: u64,
    /// Number of jobs that may start now; `None` if nothing limits them.
    pub room: Option<u64>,
    /// Time until which nothing starts, because a worker asked for it in a nack.
    pub hold_until: Option<i64>,
    /// `Some` if an override is in effect; the inner value is its end, if it has one.
    pub overridden: Option<Option<i64>>,
    /// The quota that an admin has set in place of the configured one.
    pub admin: Option<Quota>,
    /// The quota in the configuration.
    pub file: Option<Quota>,
}

impl LimitState {
    /// Returns the number of available jobs that the limit holds back.
    pub fn waiting(&self) -> u64 {
        self.room.map_or(0, |room| self.available.saturating_sub(room))
    }

    /// Returns the time at which the limit may have room again, as far as time alone decides that.
    pub fn free_at(&self) -> i64 {
        let window = self.quota.rate.and(self.resets_at);
        let turn = self.quota.throttle.map(|_| self.next_start);
        let at = self.hold_until.or(window).or(turn).unwrap_or(self.now);
        at.max(self.now)
    }
}

/// The setting of a limit that a call changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitLayer {
    /// A queue's limit set by an admin, in place of the configured one.
    Admin,
    /// A temporary override by an admin.
    Override,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum LimitList<'a> {
    Named { keys: &'a [&'a str] },
    Page { offset: usize, limit: usize },
}

#[derive(Deserialize)]
struct ListedLimits {
    now: i64,
    total: u64,
    limits: Vec<ListedLimit>,
}

#[derive(Deserialize)]
struct ListedLimit {
    key: String,
    quota: Quota,
    running: u64,
    started: u64,
    resets_at: Option<i64>,
    next_start: i64,
    available: u64,
    room: Option<u64>,
    hold_until: Option<i64>,
    overridden: Option<Override>,
    admin: Option<String>,
    file: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Override {
    until: Option<i64>,
}

#[derive(Serialize)]
struct LimitOverride<'a> {
    key: &'a str,
    field: &'a str,
    quota: Option<String>,
    ends: Option<String>,
}

#[derive(Deserialize)]
struct LimitOverridden {
    outcome: LimitChanged,
    notes: Vec<String>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum LimitChanged {
    Changed,
    Absent,
    Past,
}

impl Store {
    /// Returns a limit, if it has been used or set.
    pub async fn limit(&self, key: &LimitKey) -> Result<Option<LimitState>, Error> {
        Ok(self.named_limits(&[&self.scope.rate_key(key).stored()]).await?.pop())
    }

    /// Returns a page of limits, most recently used first, and the number of all limits.
    pub async fn limits(&self, offset: usize, most: usize) -> Result<(u64, Vec<LimitState>), Error> {
        if !self.scope.is_apart() {
            return self.read_limits(&LimitList::Page { offset, limit: most }).await;
        }
        let mut command = redis::cmd("ZREVRANGE");
        command.arg(self.core.keys.limits()).arg(0).arg(MOST_LOOKED_AT - 1);
        let mut keys = reply::texts(self.core.command("limits", command).await?, "limits")?;
        keys.retain(|key| self.scope.own_rate_key(&LimitKey::from_stored(key)).is_some());
        let page: Vec<&str> = keys.iter().skip(offset).take(most).map(String::as_str).collect();
        Ok((keys.len() as u64, self.named_limits(&page).await?))
    }

    /// Returns the number of parts of a key, and at most `most` of them, most recently used first.
    pub async fn limit_parts(&self, key: &LimitKey, most: usize) -> Result<(usize, Vec<LimitState>), Error> {
        let start = self.scope.rate_key(key).start_of_parts();
        let mut command = redis::cmd("ZREVRANGE");
        command.arg(self.core.keys.limits()).arg(0).arg(MOST_LOOKED_AT - 1);
        let keys = reply::texts(self.core.command("limits", command).await?, "limits")?;
        let parts: Vec<&str> = keys.iter().map(String::as_str).filter(|key| key.starts_with(&start)).collect();
        if parts.is_empty() {
            return Ok((0, Vec::new()));
        }
        Ok((parts.len(), self.named_limits(&parts[..most.min(parts.len())]).await?))
    }

    async fn named_limits(&self, keys: &[&str]) -> Result<Vec<LimitState>, Error> {
        Ok(self.read_limits(&LimitList::Named { keys }).await?.1)
    }

    async fn read_limits(&self, which: &LimitList<'_>) -> Result<(u64, Vec<LimitState>), Error> {
        let listed: ListedLimits = LIMIT_LIST.call_packed(&self.core, which).await?;
        let limits = listed.limits.into_iter().map(|limit| {
            let key = LimitKey::from_stored(&limit.key);
            LimitState {
                key: self.scope.own_rate_key(&key).unwrap_or(key),
                now: listed.now,
                quota: limit.quota,
                running: limit.running,
                started: limit.started,
                resets_at: limit.resets_at,
                next_start: limit.next_start,
                available: limit.available,
                room: limit.room,
                hold_until: limit.hold_until,
                overridden: limit.overridden.map(|over| over.until),
                admin: limit.admin.as_deref().and_then(Quota::from_packed),
                file: limit.file.as_deref().and_then(Quota::from_packed),
            }
        });
        Ok((listed.total, limits.collect()))
    }

    /// Sets a limit's quota at a layer, or removes it. Jobs that wait for the limit are released at
    /// once if it has room now. Returns false if there was nothing to remove.
    pub async fn set_limit(
        &self,
        key: &LimitKey,
        layer: LimitLayer,
        quota: Option<&Quota>,
        until: Option<i64>,
    ) -> Result<bool, Error> {
        Ok(self.write_limit(key, layer, quota, until.map(At::Absolute)).await? == LimitChanged::Changed)
    }

    /// Overrides a limit. Returns false, and stores nothing, if the override would end before the
    /// store's current time.
    pub async fn override_limit(&self, key: &LimitKey, quota: &Quota, until: Option<At>) -> Result<bool, Error> {
        Ok(self.write_limit(key, LimitLayer::Override, Some(quota), until).await? == LimitChanged::Changed)
    }

    async fn write_limit(
        &self,
        key: &LimitKey,
        layer: LimitLayer,
        quota: Option<&Quota>,
        until: Option<At>,
    ) -> Result<LimitChanged, Error> {
        let field = match layer {
            LimitLayer::Admin => "a",
            LimitLayer::Override => "o",
        };
        let args = LimitOverride {
            key: &self.scope.rate_key(key).stored(),
            field,
            quota: quota.map(Quota::packed),
            ends: until.map(At::argument),
        };
        let reply: LimitOverridden = LIMIT_OVERRIDE.call_packed(&self.core, &args).await?;
        self.core.apply_notes(&reply.notes);
        Ok(reply.outcome)
    }
}
