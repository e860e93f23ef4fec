//! Operations on the keys of the gem sidekiq-fairplay in the Redis of a Sidekiq.

use super::releases::ReleaseTarget;
use super::script::{FAIRPLAY_CLAIM, FAIRPLAY_YIELD, SIDEKIQ_WORK};
use super::sidekiq::{MOST_PROCESSES, Sidekiq};
use super::{Error, reply};
use crate::config::FairplayClass;
use crate::domain::job::sidekiq;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Class of the gem's planner job.
const PLANNER: &str = "Sidekiq::Fairplay::Planner";

/// Jobs that were taken from the gem's keys.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Taken {
    /// True if this process holds the gem's locks.
    pub is_ours: bool,
    pub jobs: Vec<StagedByGem>,
}

/// A job that the gem had staged, which consists of a tenant and arguments.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct StagedByGem {
    pub sequence: u64,
    pub tenant: String,
    pub args: String,
}

/// Arguments of [`Sidekiq::take_over`].
pub struct TakeOver<'a> {
    pub class: &'a FairplayClass,
    /// The owner to write into the gem's locks.
    pub owner: &'a str,
    /// Time to live of the locks, in seconds.
    pub life: u64,
    pub inbox: &'a str,
    pub taken_in: u64,
    pub most: usize,
    /// Takes jobs as well as the locks.
    pub takes: bool,
}

#[derive(Serialize)]
struct FairplayClaim<'a> {
    class: String,
    owner: &'a str,
    life: u64,
    inbox: &'a str,
    last: String,
    imported: u64,
    most: usize,
    may_take: bool,
}

#[derive(Serialize)]
struct FairplayYield<'a> {
    class: String,
    owner: &'a str,
    prefix: &'a str,
    queue: &'a str,
    payload: &'a str,
}

impl Sidekiq {
    fn fairplay_prefix(&self, class: &FairplayClass) -> String {
        format!("{}fairplay:{}:", self.prefix(), class.key)
    }

    /// Returns the gem's keys of a class as a target for jobs that are handed back while `owner`
    /// holds the gem's locks. `life` is the locks' time to live in seconds.
    pub fn fairplay_target(&self, name: String, class: &FairplayClass, owner: &str, life: u64) -> ReleaseTarget {
        let words = vec!["fairplay".to_owned(), self.fairplay_prefix(class), owner.to_owned(), life.to_string()];
        ReleaseTarget { name, words }
    }

    /// Takes or renews the gem's locks, and moves jobs that the gem has staged to the inbox.
    pub async fn take_over(&self, from: &TakeOver<'_>) -> Result<Taken, Error> {
        let args = FairplayClaim {
            class: self.fairplay_prefix(from.class),
            owner: from.owner,
            life: from.life,
            inbox: from.inbox,
            last: format!("{}:last", from.inbox),
            imported: from.taken_in,
            most: from.most,
            may_take: from.takes,
        };
        FAIRPLAY_CLAIM.call_packed_there(&self.connection, &args).await
    }

    /// Returns a class to the gem: releases its locks and enqueues its planner. Returns false if
    /// the locks were not held.
    pub async fn hand_back(&self, class: &FairplayClass, owner: &str, jid: &str, now: i64) -> Result<bool, Error> {
        let at = sidekiq::seconds(now);
        let payload = format!(
            "{{\"class\":\"{PLANNER}\",\"args\":[\"{}\"],\"retry\":false,\"queue\":\"{}\",\"jid\":\"{jid}\",\
             \"created_at\":{at},\"enqueued_at\":{at}}}",
            class.class, class.planner_queue
        );
        let args = FairplayYield {
            class: self.fairplay_prefix(class),
            owner,
            prefix: self.prefix(),
            queue: &class.planner_queue,
            payload: &payload,
        };
        FAIRPLAY_YIELD.call_packed_there(&self.connection, &args).await
    }

    /// Returns true if a Sidekiq process reports that the gem's planner runs for the class.
    pub async fn plans_by_gem(&self, class: &FairplayClass) -> Result<bool, Error> {
        let fill = |command: &mut redis::Cmd, _: bool| _ = command.arg(0).arg(self.prefix()).arg(MOST_PROCESSES);
        let works = reply::texts(SIDEKIQ_WORK.call(&self.connection, fill).await?, "sidekiq_work")?;
        Ok(works.iter().any(|work| is_planner(work, &class.class)))
    }
}

/// Returns true if a running job is the gem's planner for the class. Its payload is an object in
/// Sidekiq 6 and 7, and JSON text in Sidekiq 8.
fn is_planner(work: &str, class: &str) -> bool {
    let work: Value = serde_json::from_str(work).unwrap_or_default();
    let payload = match &work["payload"] {
        Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
        other => other.clone(),
    };
    payload["class"] == PLANNER && payload["args"][0] == class
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planners_are_distinguished_from_other_jobs() {
        for (work, expected) in [
            (r#"{"queue":"q","payload":{"class":"Sidekiq::Fairplay::Planner","args":["A"]}}"#, true),
            (r#"{"queue":"q","payload":"{\"class\":\"Sidekiq::Fairplay::Planner\",\"args\":[\"A\"]}"}"#, true),
            (r#"{"queue":"q","payload":{"class":"Sidekiq::Fairplay::Planner","args":["B"]}}"#, false),
            (r#"{"queue":"q","payload":{"class":"A","args":["A"]}}"#, false),
            ("junk", false),
        ] {
            assert_eq!(is_planner(work, "A"), expected, "{work}");
        }
    }
}
