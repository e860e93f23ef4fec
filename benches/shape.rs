//! Staged jobs of a known shape: a number of tenants with the same number of jobs each. Names and ids derive from
//! numbers, so that they need not be stored.

use crate::fixture::new_job;
use anyhow::Context;
use fairgate::domain::job::NewJob;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

pub const RULE: &str = "bench";
pub const QUEUE: &str = "bench";
pub const KIND: &str = "report.render";

/// A number of tenants with the same number of jobs each. All first jobs come before all second ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub tenants: u64,
    pub jobs_each: u64,
}

impl Shape {
    pub fn jobs(self) -> u64 {
        self.tenants * self.jobs_each
    }

    /// The job at a position; `filling` distinguishes the jobs of one filling from those of another.
    pub fn job(self, filling: u64, place: u64) -> anyhow::Result<NewJob> {
        let (id, tenant) = (self.id(filling, place), tenant(place % self.tenants));
        let text = format!(
            r#"{{"id":"{id}","type":"{KIND}","queue":"{QUEUE}","args":["user@example.com","Welcome aboard",{{"locale":"en-GB"}}],"meta":{{"tenant_id":"{tenant}","source":"signup-form"}}}}"#
        );
        let mut job = new_job(&text)?;
        // All ids are distinct, so the store need not check for duplicates, as with ids that the server generates.
        job.own_id = false;
        Ok(job)
    }

    pub fn id(self, filling: u64, place: u64) -> String {
        format!("01946000-0000-7000-8000-{:012x}", filling * self.jobs() + place)
    }
}

/// The name of a tenant; names sort like their numbers.
pub fn tenant(number: u64) -> String {
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
    fn jobs_have_distinct_ids_and_the_tenants_of_their_positions() {
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
