//! The recorded rounds of a plan rule of another fairgate.

use super::answer::Answer;
use super::{Error, ErrorKind, Remote};
use crate::domain::simulation::{RecordedRound, RecordedTenant};
use crate::domain::tenant::Weight;
use crate::domain::time::parse_rfc3339;
use serde_json::Value;

/// Number of rounds in one request, and maximum number of requests. A server keeps 1,000 rounds.
const ROUNDS_A_PAGE: usize = 100;
const MOST_PAGES: usize = 20;

impl Remote {
    /// Reads the recorded rounds of a plan rule that promoted jobs, newest first.
    pub async fn recorded_rounds(&self, rule: &str) -> Result<Vec<RecordedRound>, Error> {
        let mut rounds = Vec::new();
        for page in 0..MOST_PAGES {
            let offset = page * ROUNDS_A_PAGE;
            let path = format!("/ojs/v1/admin/planner/{rule}/rounds?limit={ROUNDS_A_PAGE}&offset={offset}");
            let answer = self.get(&path).await?;
            let items = read(&answer, rule)?;
            let is_last = items.len() < ROUNDS_A_PAGE;
            rounds.extend(items.iter().filter_map(round));
            if is_last {
                break;
            }
        }
        Ok(rounds)
    }
}

fn read(answer: &Answer, rule: &str) -> Result<Vec<Value>, Error> {
    if answer.status == 404 {
        let text = match answer.refusal() {
            Some(_) => format!("the server has no plan rule {rule:?}"),
            None => "the server returned HTTP 404; is it a fairgate?".to_owned(),
        };
        return Err(ErrorKind::Status.with(text));
    }
    match answer.json()?.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) if answer.status == 200 => Ok(items),
        _ => Err(answer.unreadable()),
    }
}

/// Reads one round. Returns `None` if it promoted nothing.
fn round(item: &Value) -> Option<RecordedRound> {
    let at_ms = item["at"].as_str().and_then(parse_rfc3339)?;
    let tenant = |served: &Value| {
        Some(RecordedTenant {
            tenant: served["tenant_id"].as_str()?.to_owned(),
            jobs: served["jobs"].as_u64().filter(|jobs| *jobs > 0)?,
            weight: Weight::of(served["weight"].as_f64()?)?,
        })
    };
    let served: Vec<RecordedTenant> = item["served"].as_array()?.iter().filter_map(tenant).collect();
    let promoted = item["promoted"].as_u64().filter(|promoted| *promoted > 0)?;
    Some(RecordedRound { number: item["round"].as_u64()?, at_ms, promoted, served })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rounds_that_promoted_jobs_are_read_and_others_left_out() {
        let served = json!([{"tenant_id": "a", "jobs": 3, "weight": 2.5}, {"tenant_id": "b", "jobs": 0, "weight": 1}]);
        let item = json!({"round": 7, "at": "1970-01-01T00:00:02Z", "promoted": 5, "served": served});
        let tenant = RecordedTenant { tenant: "a".to_owned(), jobs: 3, weight: Weight::of(2.5).expect("a weight") };
        let expected = RecordedRound { number: 7, at_ms: 2000, promoted: 5, served: vec![tenant] };
        assert_eq!(round(&item), Some(expected));
        for (member, value) in [("promoted", json!(0)), ("at", json!("yesterday")), ("served", json!(null))] {
            let mut item = item.clone();
            item[member] = value;
            assert_eq!(round(&item), None, "{member}");
        }
    }
}
