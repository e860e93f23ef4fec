//! The reason why a job that has not ended is not handed to a worker.

use super::script::WAITING_FOR;
use super::{Error, Store, reply};
use crate::job::LimitKey;
use crate::job::escape::unescape;

/// The thing that a job waits for. Times are milliseconds since the epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitingFor {
    /// A round of a plan rule.
    Round { rule: String, tenant: String, queue: String },
    /// Somebody who activates it.
    Activation,
    /// The time that its client chose.
    Schedule { until: Option<i64> },
    /// The end of the delay after a failed attempt.
    Retry { until: Option<i64> },
    /// A start that a limit put it off to; the key, if the caller may know it.
    Slot { until: Option<i64>, key: Option<LimitKey> },
    /// The end of its queue's pause.
    Pause { queue: String, since: Option<i64> },
    /// A limit; the key, if the caller may know it.
    Limit { key: Option<LimitKey>, strategy: String, since: Option<i64> },
    /// A job of its tenant that ends: the tenant runs as many as it may.
    TenantLimit { tenant: String, since: Option<i64> },
}

impl Store {
    /// Looks up what a job waits for; `None` if it waits for nothing but a worker, or does not wait.
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
                let (key, strategy, since) = (next(), next().to_owned(), ms(next()));
                Some(match key.strip_prefix('!') {
                    Some(tenant) => WaitingFor::TenantLimit { tenant: unescape(tenant), since },
                    None => WaitingFor::Limit { key: self.known_limit(key), strategy, since },
                })
            }
            _ => None,
        })
    }

    /// A stored key as the caller knows it, if it is one of the caller's.
    fn known_limit(&self, stored: &str) -> Option<LimitKey> {
        let own = Some(stored).filter(|key| !key.is_empty()).and_then(|key| self.scope.own_rate_key(key))?;
        Some(LimitKey::from_stored(&own))
    }
}
