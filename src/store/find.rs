//! Jobs by what they are, for people: there is no index, so all of them are looked at, in portions.

use super::reply;
use super::script::FIND;
use super::{Error, Store};
use crate::job::State;
use std::collections::HashSet;

/// Keys looked at by one call, which bounds how long Redis is busy with it.
const PORTION: usize = 512;
/// Keys looked at by one search.
const MOST_KEYS: usize = 1_000_000;

/// Which jobs to find.
#[derive(Clone, Debug, Default)]
pub struct JobFilter {
    pub queue: Option<String>,
    /// Any, if there is none.
    pub states: Vec<State>,
    /// A type, or the beginning of one and `*`.
    pub kind: Option<String>,
    /// Created at or after, in milliseconds.
    pub since: Option<i64>,
    /// Created at or before, in milliseconds.
    pub until: Option<i64>,
}

/// A job that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub id: String,
    pub state: String,
    pub created: i64,
    pub due: Option<i64>,
    pub priority: i64,
}

impl Store {
    /// All jobs that fit, in no order, and whether there were too many keys to look at all of them.
    pub async fn find_jobs(&self, filter: &JobFilter) -> Result<(Vec<Found>, bool), Error> {
        let states: Vec<&str> = filter.states.iter().map(|state| state.name()).collect();
        let states = states.join(" ");
        let time = |time: Option<i64>| time.map(|ms| ms.to_string()).unwrap_or_default();
        let (mut found, mut seen, mut cursor) = (Vec::new(), HashSet::new(), "0".to_owned());
        for _ in 0..MOST_KEYS / PORTION {
            let answer = FIND
                .call(&self.core.link, |command, _| {
                    self.core.begin(command).arg(&cursor).arg(PORTION).arg(filter.queue.as_deref().unwrap_or_default());
                    command.arg(&states).arg(filter.kind.as_deref().unwrap_or_default());
                    command.arg(time(filter.since)).arg(time(filter.until));
                })
                .await?;
            let mut words = reply::texts(answer, "find")?.into_iter();
            cursor = words.next().ok_or_else(|| Error::unreadable("find"))?;
            let words: Vec<String> = words.collect();
            for job in words.chunks_exact(5) {
                // A key may be met twice.
                if seen.insert(job[0].clone()) {
                    found.push(Found {
                        id: job[0].clone(),
                        state: job[1].clone(),
                        created: job[2].parse().unwrap_or(0),
                        due: job[3].parse().ok(),
                        priority: job[4].parse().unwrap_or(0),
                    });
                }
            }
            if cursor == "0" {
                return Ok((found, false));
            }
        }
        Ok((found, true))
    }
}
