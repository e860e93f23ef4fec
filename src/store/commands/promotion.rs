//! Promotion of staged jobs into the main queue, and the tenants' weights for it.

use super::codec::wire;
use super::script::{PROMOTE, REWEIGH};
use super::{Error, Store, reply};
use crate::domain::escape::{escape, unescape};
use crate::domain::job::id;
use crate::domain::plan::Closed;
use crate::domain::tenant::Weight;
use redis::Value;
use serde::Serialize;

/// The outcome of a promotion.
#[derive(Clone, Debug, PartialEq)]
pub enum Promoted {
    /// Jobs were promoted, as far as there were any. `left` is the number of jobs still staged.
    Jobs {
        promoted: u64,
        left: u64,
        tenants: Vec<PromotedTenant>,
        /// The call reached its own limit before the requested number; the caller may promote more.
        more: bool,
    },
    /// The caller has lost the rule's lock.
    Lost,
    Paused,
    /// The gate of the main queue is closed.
    Closed(Closed),
}

/// The origin of the weights that a caller stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightOrigin {
    /// The rule, for tenants that the webhook has not answered.
    Rule,
    /// An answer of the webhook.
    Webhook,
}

/// A tenant whose jobs were promoted.
#[derive(Clone, Debug, PartialEq)]
pub struct PromotedTenant {
    pub tenant: String,
    pub weight: Weight,
    pub jobs: u64,
}

#[derive(Serialize)]
struct Reweigh<'a> {
    rule: &'a str,
    token: &'a str,
    queue: &'a str,
    by_webhook: bool,
    weights: Vec<(String, u32)>,
}

impl Store {
    /// Changes tenants' weights. Returns the number of tenants that changed, or `None` if the
    /// caller has lost the rule's lock.
    pub async fn reweigh(
        &self,
        rule: &str,
        token: &str,
        queue: &str,
        origin: WeightOrigin,
        weights: &[(String, Weight)],
    ) -> Result<Option<u64>, Error> {
        let weights = weights.iter().map(|(tenant, weight)| (escape(tenant), weight.thousandths())).collect();
        let args = Reweigh { rule, token, queue, by_webhook: origin == WeightOrigin::Webhook, weights };
        REWEIGH.call_packed(&self.core, &args).await
    }

    /// Promotes up to `jobs` staged jobs into the main queue, in one atomic step.
    pub async fn promote(&self, rule: &str, token: &str, queue: &str, jobs: u64) -> Result<Promoted, Error> {
        let call_id = id::generate();
        let fill = |command: &mut redis::Cmd, again: bool| {
            let command = self.core.begin(command).arg(rule).arg(token).arg(queue).arg(jobs);
            command.arg(&call_id).arg(u8::from(again));
        };
        let answer = PROMOTE.call(&self.core.connection, fill).await?;
        promoted(answer)
    }
}

pub(super) fn promoted(answer: Value) -> Result<Promoted, Error> {
    let mut parts = reply::texts(answer, "promote")?.into_iter();
    let tag = parts.next().unwrap_or_default();
    let mut number = || reply::parse(&parts.next().unwrap_or_default(), "promote");
    match tag.as_str() {
        "lost" => Ok(Promoted::Lost),
        "paused" => Ok(Promoted::Paused),
        "ok" | "more" => {
            let (promoted, left) = (number()?, number()?);
            let shares = parts.next().unwrap_or_default();
            let shares: Vec<&str> = wire::values(&shares).collect();
            let served = |share: &[&str]| {
                let weight = Weight::from_thousandths(reply::parse(share[1], "promote")?);
                Ok(PromotedTenant { tenant: unescape(share[0]), weight, jobs: reply::parse(share[2], "promote")? })
            };
            let tenants = shares.chunks_exact(3).map(served).collect::<Result<_, Error>>()?;
            Ok(Promoted::Jobs { promoted, left, tenants, more: tag == "more" })
        }
        _ => Err(Error::unreadable("promote")),
    }
}
