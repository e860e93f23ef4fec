//! Staged jobs of a known form: so many tenants with so many jobs each, all named by number, so that nobody need remember them.

use super::ground::new_job;
use crate::job::NewJob;
use anyhow::Context;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

pub(super) const RULE: &str = "bench";
pub(super) const QUEUE: &str = "bench";
pub(super) const KIND: &str = "report.render";

/// So many tenants with so many jobs each. Their first jobs come first, then their second ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) tenants: u64,
    pub(super) jobs_each: u64,
}

impl Shape {
    pub(super) fn jobs(self) -> u64 {
        self.tenants * self.jobs_each
    }

    /// A job by its place; `filling` tells the jobs of one filling from those of another.
    pub(super) fn job(self, filling: u64, place: u64) -> anyhow::Result<NewJob> {
        let (id, tenant) = (self.id(filling, place), tenant(place % self.tenants));
        let text = format!(
            r#"{{"id":"{id}","type":"{KIND}","queue":"{QUEUE}","args":["user@example.com","Welcome aboard",{{"locale":"en-GB"}}],"meta":{{"tenant_id":"{tenant}","source":"signup-form"}}}}"#
        );
        let mut job = new_job(&text)?;
        // No two of ours are the same, so that the store need not look: as it is with ids that the server makes.
        job.own_id = false;
        Ok(job)
    }

    pub(super) fn id(self, filling: u64, place: u64) -> String {
        format!("01946000-0000-7000-8000-{:012x}", filling * self.jobs() + place)
    }
}

/// A tenant's name; names sort as their numbers do.
pub(super) fn tenant(number: u64) -> String {
    format!("tenant-{number:07}")
}

impl FromStr for Shape {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Shape> {
        let (tenants, jobs_each) = text.split_once('x').context("expected TENANTSxJOBS, such as 1000x20")?;
        let (tenants, jobs_each) = (tenants.parse()?, jobs_each.parse()?);
        anyhow::ensure!((1..10_000_000).contains(&tenants) && jobs_each > 0, "expected 1 to 9999999 tenants with jobs");
        Ok(Shape { tenants, jobs_each })
    }
}

impl Display for Shape {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} x {}", self.tenants, self.jobs_each))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_has_an_id_of_its_own_and_the_tenant_of_its_place() {
        let shape: Shape = "3x2".parse().expect("a shape");
        let ids: std::collections::HashSet<_> =
            (0..2).flat_map(|filling| (0..6).map(move |place| shape.id(filling, place))).collect();
        assert_eq!(ids.len(), 12);
        let job = shape.job(1, 4).expect("a job");
        assert_eq!(job.id, shape.id(1, 4));
        assert!(job.meta().contains(&tenant(1)), "{}", job.meta());
        assert!("3".parse::<Shape>().is_err() && "0x1".parse::<Shape>().is_err());
    }
}
