//! What promotion could reach at most: a script that makes its writes for picks that it is told.

use super::resp::{Reply, Resp};
use super::shape::{KIND, QUEUE, RULE, Shape, tenant};
use anyhow::{bail, ensure};
use std::collections::BTreeMap;

const SCRIPT: &str = include_str!("ceiling.lua");

/// The script on one connection.
pub(super) struct Ceiling {
    redis: Resp,
    sha: String,
}

/// Jobs that go next: tenant and how many of its jobs went before.
pub(super) type Picks = Vec<(u64, u64)>;

impl Ceiling {
    pub(super) fn load(mut redis: Resp) -> anyhow::Result<Ceiling> {
        match redis.call(&["SCRIPT", "LOAD", SCRIPT])? {
            Reply::Text(sha) => Ok(Ceiling { redis, sha }),
            other => bail!("SCRIPT LOAD answered {other:?}"),
        }
    }

    pub(super) fn sha(&self) -> &str {
        &self.sha
    }

    /// The words of the call that promotes these jobs of a filling.
    pub(super) fn words(&self, shape: Shape, filling: u64, picks: &[(u64, u64)]) -> Vec<String> {
        let mut words: Vec<String> =
            ["EVALSHA", &self.sha, "1", "fg:{default}:", RULE, QUEUE, KIND].map(str::to_owned).to_vec();
        let mut by_tenant: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        picks.iter().for_each(|(tenant, job)| by_tenant.entry(*tenant).or_default().push(*job));
        for (number, jobs) in by_tenant {
            let after = jobs.last().map_or(0, |last| last + 1);
            let is_last = u8::from(after == shape.jobs_each);
            words.extend([tenant(number), after.to_string(), after.to_string(), is_last.to_string()]);
            words.push(jobs.len().to_string());
            words.extend(jobs.iter().map(|job| shape.id(filling, job * shape.tenants + number)));
        }
        words
    }

    /// Makes one call.
    pub(super) fn call(&mut self, words: &[String], expected: usize) -> anyhow::Result<()> {
        let reply = self.redis.call(words)?;
        ensure!(reply == Reply::Number(expected as i64), "the ceiling's script answered {reply:?}");
        Ok(())
    }
}
