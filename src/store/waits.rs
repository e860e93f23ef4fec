//! The reason why a waiting job is not handed to a worker.

use super::script::WAITING_FOR;
use super::{Error, Store, reply};
use crate::domain::escape::unescape;
use crate::domain::limit::{LimitKey, LimitStrategy};

/// The reason why a job waits. Times are milliseconds since the epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitingFor {
    /// The job is staged and waits for a round of its rule.
    Round { rule: String, tenant: String, queue: String },
    /// The job is pending and waits for its activation.
    Activation,
    /// The job waits for its scheduled time.
    Schedule { until: Option<i64> },
    /// The job waits for its next retry.
    Retry { until: Option<i64> },
    /// A limit has put the job off to a later start. The key is present if the caller may see it.
    Slot { until: Option<i64>, key: Option<LimitKey> },
    /// The job's queue is paused.
    Pause { queue: String, since: Option<i64> },
    /// A limit has no room. The key is present if the caller may see it.
    Limit { key: Option<LimitKey>, strategy: LimitStrategy, since: Option<i64> },
    /// The tenant has reached its limit of active jobs.
    TenantLimit { tenant: String, since: Option<i64> },
}

impl Store {
    /// Returns the reason why a job waits; `None` if it only waits for a worker, or does not wait.
    pub async fn waits_for(&self, id: &str) -> Result<Option<WaitingFor>, Error> {
        let fill = |command: &mut redis::Cmd, _: bool| _ = self.core.begin(command).arg(id).arg(self.scope.word());
        let words = reply::texts(WAITING_FOR.call(&self.core.connection, fill).await?, "waiting_for")?;
        let mut words = words.iter().map(String::as_str);
        let kind = words.next();
        let mut next = || words.next().unwrap_or_default();
        let ms = |text: &str| text.parse().ok();
        Ok(match kind {
            Some("staged") => {
                let (rule, tenant) = (next().to_owned(), unescape(next()));
                Some(WaitingFor::Round { rule, tenant, queue: next().to_owned() })
            }
            Some("activation") => Some(WaitingFor::Activation),
            Some("scheduled") => Some(WaitingFor::Schedule { until: ms(next()) }),
            Some("retry") => Some(WaitingFor::Retry { until: ms(next()) }),
            Some("put_off") => Some(WaitingFor::Slot { until: ms(next()), key: self.known_limit(next()) }),
            Some("paused") => {
                let queue = next();
                let queue = self.scope.unqualified(queue).unwrap_or(queue).to_owned();
                Some(WaitingFor::Pause { queue, since: ms(next()) })
            }
            Some("limit") => {
                let (key, strategy, since) = (next(), next(), ms(next()));
                let strategy = LimitStrategy::from_name(strategy).ok_or_else(|| Error::unreadable("waiting_for"))?;
                Some(match key.strip_prefix('!') {
                    Some(tenant) => WaitingFor::TenantLimit { tenant: unescape(tenant), since },
                    None => WaitingFor::Limit { key: self.known_limit(key), strategy, since },
                })
            }
            _ => None,
        })
    }

    /// Returns a stored key in the caller's form, if the key belongs to the caller.
    fn known_limit(&self, stored: &str) -> Option<LimitKey> {
        let own = Some(stored).filter(|key| !key.is_empty()).and_then(|key| self.scope.own_rate_key(key))?;
        Some(LimitKey::from_stored(&own))
    }
}
