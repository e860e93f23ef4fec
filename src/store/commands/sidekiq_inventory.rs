//! The inventory of an existing Sidekiq: queues, totals, waiting jobs, and classes of the gem
//! sidekiq-fairplay. Changes nothing.

use super::sidekiq::Sidekiq;
use super::{Error, reply};
use crate::store::connection::health;
use redis::{Cmd, Value};

/// Largest number of queues that are read.
const MOST_QUEUES: usize = 1000;
/// Number of keys that one SCAN requests in the search for the gem's classes, and largest number of
/// SCANs.
const SCANNED: usize = 1000;
const MOST_SCANS: usize = 1000;

/// Totals of a Sidekiq: jobs processed and failed so far, and jobs in its sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SidekiqTotals {
    pub processed: u64,
    pub failed: u64,
    pub scheduled: u64,
    pub retries: u64,
    pub dead: u64,
}

/// A class for which the gem sidekiq-fairplay has staged jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GemClass {
    /// The class' name in the gem's keys.
    pub key: String,
    pub tenants: usize,
    pub jobs: u64,
}

impl Sidekiq {
    async fn ask(&self, words: &[&str]) -> Result<Value, Error> {
        let mut command = Cmd::new();
        command.arg(words);
        self.connection.call("census", |_| command.clone()).await
    }

    /// Returns the name and version of the Sidekiq's Redis, and the version of Redis that it is or is
    /// compatible with.
    pub async fn server(&self) -> Result<(String, String), Error> {
        let info = reply::text(self.ask(&["INFO", "server"]).await?, "INFO")?;
        let version = health::field(&info, "redis_version").unwrap_or("of unknown version");
        Ok((health::server_name(&info), version.to_owned()))
    }

    /// Returns the names of the queues, sorted.
    pub async fn queue_names(&self) -> Result<Vec<String>, Error> {
        let key = format!("{}queues", self.prefix());
        let mut names = reply::texts(self.ask(&["SRANDMEMBER", &key, &MOST_QUEUES.to_string()]).await?, "SRANDMEMBER")?;
        names.sort();
        Ok(names)
    }

    /// Returns the totals.
    pub async fn totals(&self) -> Result<SidekiqTotals, Error> {
        let number = async |verb: &str, key: &str| {
            let key = format!("{}{key}", self.prefix());
            Ok::<u64, Error>(reply::number_or_zero(self.ask(&[verb, &key]).await?, verb)?.max(0) as u64)
        };
        Ok(SidekiqTotals {
            processed: number("GET", "stat:processed").await?,
            failed: number("GET", "stat:failed").await?,
            scheduled: number("ZCARD", "schedule").await?,
            retries: number("ZCARD", "retry").await?,
            dead: number("ZCARD", "dead").await?,
        })
    }

    /// Returns the next payloads of a queue in the order in which workers take them, without the
    /// first `after`.
    pub async fn next_payloads(&self, queue: &str, after: usize, most: usize) -> Result<Vec<String>, Error> {
        let key = format!("{}queue:{queue}", self.prefix());
        let (first, last) = (format!("-{}", after + most.max(1)), format!("-{}", after + 1));
        let mut payloads = reply::texts(self.ask(&["LRANGE", &key, &first, &last]).await?, "LRANGE")?;
        payloads.reverse();
        Ok(payloads)
    }

    /// Returns the number of jobs in a queue.
    pub async fn depth(&self, queue: &str) -> Result<u64, Error> {
        let key = format!("{}queue:{queue}", self.prefix());
        Ok(reply::number(self.ask(&["LLEN", &key]).await?, "LLEN")?.max(0) as u64)
    }

    /// Returns the classes for which the gem has staged jobs.
    pub async fn gem_classes(&self) -> Result<Vec<GemClass>, Error> {
        let (head, tail) = (format!("{}fairplay:", self.prefix()), ":tenant_counts");
        let pattern = format!("{head}*{tail}");
        let mut classes = Vec::new();
        let mut cursor = "0".to_owned();
        for _ in 0..MOST_SCANS {
            let words = ["SCAN", &cursor, "MATCH", &pattern, "COUNT", &SCANNED.to_string()];
            let [next, keys] = reply::parts(self.ask(&words).await?, "SCAN")?;
            cursor = reply::text(next, "SCAN")?;
            for key in reply::texts(keys, "SCAN")? {
                let Some(class) = key.strip_prefix(&head).and_then(|rest| rest.strip_suffix(tail)) else { continue };
                let counts = reply::pairs(self.ask(&["HGETALL", &key]).await?, "HGETALL")?;
                let jobs = counts.iter().filter_map(|(_, count)| count.parse::<u64>().ok()).sum();
                classes.push(GemClass { key: class.to_owned(), tenants: counts.len(), jobs });
            }
            if cursor == "0" {
                break;
            }
        }
        classes.sort_by(|left, right| left.key.cmp(&right.key));
        classes.dedup();
        Ok(classes)
    }
}
