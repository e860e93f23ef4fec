//! Limits: their current usage, and settings by an admin.

use super::script::{LIMIT_LIST, LIMIT_OVERRIDE};
use super::{Error, Store, reply};
use crate::domain::limit::{LimitKey, Quota, Window};
use crate::domain::time::At;
use redis::Value;

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

impl Store {
    /// Returns a limit, if it has been used or set.
    pub async fn limit(&self, key: &LimitKey) -> Result<Option<LimitState>, Error> {
        Ok(self.read_limits(&["1", &self.scope.rate_key(&key.stored())]).await?.1.pop())
    }

    /// Returns a page of limits, most recently used first, and the number of all limits.
    pub async fn limits(&self, offset: usize, most: usize) -> Result<(u64, Vec<LimitState>), Error> {
        if !self.scope.is_apart() {
            return self.read_limits(&["0", &offset.to_string(), &most.to_string()]).await;
        }
        let mut command = redis::cmd("ZREVRANGE");
        command.arg(self.core.keys.limits()).arg(0).arg(MOST_LOOKED_AT - 1);
        let mut keys = reply::texts(self.core.command("limits", command).await?, "limits")?;
        keys.retain(|key| self.scope.own_rate_key(key).is_some());
        let page = keys.iter().skip(offset).take(most).map(String::as_str);
        let (_, limits) = self.read_limits(&["1"].into_iter().chain(page).collect::<Vec<_>>()).await?;
        Ok((keys.len() as u64, limits))
    }

    /// Returns the number of parts of a key, and at most `most` of them, most recently used first.
    pub async fn limit_parts(&self, key: &LimitKey, most: usize) -> Result<(usize, Vec<LimitState>), Error> {
        let start = LimitKey::from_stored(&self.scope.rate_key(&key.stored())).start_of_parts();
        let mut command = redis::cmd("ZREVRANGE");
        command.arg(self.core.keys.limits()).arg(0).arg(MOST_LOOKED_AT - 1);
        let keys = reply::texts(self.core.command("limits", command).await?, "limits")?;
        let parts: Vec<&str> = keys.iter().map(String::as_str).filter(|key| key.starts_with(&start)).collect();
        if parts.is_empty() {
            return Ok((0, Vec::new()));
        }
        let words: Vec<&str> = ["1"].into_iter().chain(parts.iter().copied().take(most)).collect();
        Ok((parts.len(), self.read_limits(&words).await?.1))
    }

    async fn read_limits(&self, words: &[&str]) -> Result<(u64, Vec<LimitState>), Error> {
        let answer =
            LIMIT_LIST.call(&self.core.connection, |command, _| _ = self.core.begin(command).arg(words)).await?;
        let mut parts = reply::array(answer, "limit_list")?.into_iter();
        let mut next = || parts.next();
        let now = reply::number(next().unwrap_or(Value::Nil), "limit_list")?;
        let total = reply::number(next().unwrap_or(Value::Nil), "limit_list")? as u64;
        let mut limits = Vec::new();
        while let (Some(key), Some(fields)) = (next(), next()) {
            let key = reply::text(key, "limit_list")?;
            let key = LimitKey::from_stored(&self.scope.own_rate_key(&key).unwrap_or(key));
            limits.push(limit(key, now, &reply::texts(fields, "limit_list")?)?);
        }
        Ok((total, limits))
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
        Ok(self.write_limit(key, layer, quota, until.map(At::Absolute)).await? == 1)
    }

    /// Overrides a limit. Returns false, and stores nothing, if the override would end before the
    /// store's current time.
    pub async fn override_limit(&self, key: &LimitKey, quota: &Quota, until: Option<At>) -> Result<bool, Error> {
        Ok(self.write_limit(key, LimitLayer::Override, Some(quota), until).await? == 1)
    }

    async fn write_limit(
        &self,
        key: &LimitKey,
        layer: LimitLayer,
        quota: Option<&Quota>,
        until: Option<At>,
    ) -> Result<i64, Error> {
        let field = match layer {
            LimitLayer::Admin => "a",
            LimitLayer::Override => "o",
        };
        let fill = |command: &mut redis::Cmd, _: bool| {
            self.core
                .begin(command)
                .arg(self.scope.rate_key(&key.stored()))
                .arg(field)
                .arg(quota.map(Quota::packed).unwrap_or_default());
            command.arg(until.map(At::argument).unwrap_or_default());
        };
        let [outcome, notes] = reply::parts(LIMIT_OVERRIDE.call(&self.core.connection, fill).await?, "limit_override")?;
        self.core.apply_notes(notes, "limit_override")?;
        reply::number(outcome, "limit_override")
    }
}

fn limit(key: LimitKey, now: i64, fields: &[String]) -> Result<LimitState, Error> {
    let [
        concurrency,
        rate,
        period,
        throttle,
        spacing,
        running,
        started,
        resets,
        next,
        available,
        room,
        hold,
        until,
        admin,
        file,
    ] = fields
    else {
        return Err(Error::unreadable("limit_list"));
    };
    let number = |text: &String| text.parse::<u64>().ok();
    let window =
        |limit: &String, period: &String| Some(Window { limit: number(limit)? as u32, period: number(period)? });
    let quota = Quota {
        concurrency: number(concurrency).map(|number| number as u32),
        rate: window(rate, period),
        throttle: window(throttle, spacing),
    };
    Ok(LimitState {
        key,
        now,
        quota,
        running: number(running).unwrap_or(0),
        started: number(started).unwrap_or(0),
        resets_at: resets.parse().ok(),
        next_start: next.parse().unwrap_or(0),
        available: number(available).unwrap_or(0),
        room: number(room),
        hold_until: hold.parse().ok().filter(|until| *until > now),
        overridden: (until != "-").then(|| until.parse().ok()),
        admin: Quota::from_packed(admin),
        file: Quota::from_packed(file),
    })
}
