//! Search for staged jobs of a Sidekiq by jid, for people. There is no index, so a search scans all
//! keys in portions.

use super::find::{MOST_KEYS, PORTION};
use super::script::STAGED_SEARCH;
use super::{Error, Store};
use crate::domain::escape::unescape;
use crate::domain::job::sidekiq;
use crate::domain::job::sidekiq::Payload;
use crate::domain::tenant_id;
use serde::{Deserialize, Serialize};

/// A staged job of a Sidekiq.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedJob {
    pub id: String,
    pub class: String,
    pub tenant: String,
    pub rule: String,
    /// The queue of the Sidekiq into which the job will be promoted.
    pub queue: String,
    /// Time of staging, in milliseconds.
    pub created: i64,
}

#[derive(Serialize)]
struct StagedSearch<'a> {
    cursor: &'a str,
    keys: usize,
    jid: &'a str,
}

#[derive(Deserialize)]
struct SearchedStaged {
    cursor: String,
    jobs: Vec<Candidate>,
}

/// A staged job whose `push` contains the jid, which may be that of another job.
#[derive(Deserialize)]
struct Candidate {
    id: String,
    created: i64,
    queue: String,
    rule: String,
    tenant: Option<String>,
    push: String,
}

impl Store {
    /// Returns the staged job with a jid, if there is one, and true if there were too many keys to
    /// scan all of them.
    pub async fn staged_job(&self, jid: &str) -> Result<(Option<StagedJob>, bool), Error> {
        let mut cursor = "0".to_owned();
        for _ in 0..MOST_KEYS / PORTION {
            let args = StagedSearch { cursor: &cursor, keys: PORTION, jid };
            let searched: SearchedStaged = STAGED_SEARCH.call_packed(&self.core, &args).await?;
            cursor = searched.cursor;
            if let Some(found) = searched.jobs.iter().find_map(|job| read(job, jid)) {
                return Ok((Some(found), false));
            }
            if cursor == "0" {
                return Ok((None, false));
            }
        }
        Ok((None, true))
    }
}

/// Returns the job, or `None` if the jid is not its own.
fn read(job: &Candidate, jid: &str) -> Option<StagedJob> {
    // The template follows three fields: the parts that are stored, and the offset and length of
    // the arguments.
    let template = job.push.splitn(4, ',').nth(3)?;
    let text = sidekiq::fill(template, "[]", 0);
    let payload = Payload::parse(&text).filter(|payload| payload.jid().as_deref() == Some(jid))?;
    Some(StagedJob {
        id: job.id.clone(),
        class: payload.class,
        tenant: job.tenant.as_deref().map_or_else(|| tenant_id::DEFAULT.to_owned(), unescape),
        rule: job.rule.clone(),
        queue: job.queue.clone(),
        created: job.created,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::job::sidekiq::{ARGS, TIME};

    fn job(template: &str) -> Candidate {
        let [id, queue, rule] = ["id", "heavy", "r"].map(str::to_owned);
        Candidate { id, created: 5, queue, rule, tenant: None, push: format!("d,1,2,{template}") }
    }

    #[test]
    fn only_its_own_jid_finds_a_job() {
        let template =
            format!(r#"{{"class":"W","wrapped":"A::B","args":{ARGS}, "jid": "abc","tags":["def"],"t":{TIME}}}"#);
        let found = read(&job(&template), "abc").expect("the job");
        let expected = ["id", "A::B", tenant_id::DEFAULT, "r", "heavy"];
        assert_eq!([&found.id, &found.class, &found.tenant, &found.rule, &found.queue].map(String::as_str), expected);
        assert_eq!((read(&job(&template), "def"), read(&job("{\"type\":\"a\"}"), "abc")), (None, None));
    }
}
