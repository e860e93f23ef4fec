//! Search for staged jobs of a Sidekiq by jid, for people. There is no index, so a search scans all
//! keys in portions.

use super::find::{MOST_KEYS, PORTION};
use super::reply;
use super::script::STAGED_SEARCH;
use super::{Error, Store};
use crate::domain::escape::unescape;
use crate::domain::job::sidekiq::{self, Payload};
use crate::domain::tenant_id;

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

impl Store {
    /// Returns the staged job with a jid, if there is one, and true if there were too many keys to
    /// scan all of them.
    pub async fn staged_job(&self, jid: &str) -> Result<(Option<StagedJob>, bool), Error> {
        let mut cursor = "0".to_owned();
        for _ in 0..MOST_KEYS / PORTION {
            let fill = |command: &mut redis::Cmd, _: bool| {
                self.core.begin(command).arg(&cursor).arg(PORTION).arg(jid);
            };
            let mut words =
                reply::texts(STAGED_SEARCH.call(&self.core.connection, fill).await?, "staged_search")?.into_iter();
            cursor = words.next().ok_or_else(|| Error::unreadable("staged_search"))?;
            let words: Vec<String> = words.collect();
            if let Some(found) = words.chunks_exact(6).find_map(|job| read(job, jid)) {
                return Ok((Some(found), false));
            }
            if cursor == "0" {
                return Ok((None, false));
            }
        }
        Ok((None, true))
    }
}

/// Parses id, created, queue, rule, tenant and `push`. Returns `None` if the jid is not the job's
/// own.
fn read(job: &[String], jid: &str) -> Option<StagedJob> {
    // The template follows three fields: the parts that are stored, and the offset and length of
    // the arguments.
    let template = job[5].splitn(4, ',').nth(3)?;
    let text = sidekiq::fill(template, "[]", 0);
    let payload = Payload::parse(&text).filter(|payload| payload.jid().as_deref() == Some(jid))?;
    let tenant = if job[4].is_empty() { tenant_id::DEFAULT.to_owned() } else { unescape(&job[4]) };
    Some(StagedJob {
        id: job[0].clone(),
        class: payload.class,
        tenant,
        rule: job[3].clone(),
        queue: job[2].clone(),
        created: job[1].parse().unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::job::sidekiq::{ARGS, TIME};

    fn job(template: &str) -> Vec<String> {
        ["id", "5", "heavy", "r", "", &format!("d,1,2,{template}")].map(str::to_owned).to_vec()
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
