//! The state of a queue of another server. Servers report it in different ways; the most exact
//! endpoint is tried first.

use super::{Error, ErrorKind, Remote};
use crate::domain::time::parse_rfc3339;
use serde_json::Value;

/// The conformance level from which servers report statistics of queues.
const LEVEL_WITH_STATS: u64 = 4;

/// The state of a queue, as its server reports it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueState {
    /// Number of jobs that wait for a worker.
    pub depth: u64,
    pub active: u64,
    /// Time for which the next job has waited, in milliseconds, if known.
    pub latency_ms: Option<u64>,
    pub paused: bool,
}

impl Remote {
    /// Reads the state of a queue; an unknown queue is empty. `level` is the server's conformance
    /// level, and `now` our time in epoch milliseconds.
    pub async fn queue(&self, name: &str, level: u64, now: i64) -> Result<QueueState, Error> {
        let mut told = None;
        for path in [format!("/ojs/v1/admin/queues/{name}"), format!("/ojs/v1/queues/{name}/stats")] {
            let answer = match self.get(&path).await {
                // The admin endpoint may require rights that our token lacks.
                Err(Error { kind: ErrorKind::Unauthorized, .. }) if told.is_none() && path.contains("/admin/") => {
                    continue;
                }
                answer => answer?,
            };
            match answer.status {
                200..300 => {
                    let body = answer.json()?;
                    let state = read(&body, answer.date.unwrap_or(now)).ok_or_else(|| answer.unreadable())?;
                    // Without the age of its oldest job, try the other endpoint, which may report
                    // waits.
                    if state.depth == 0 || state.latency_ms.is_some() {
                        return Ok(state);
                    }
                    told = Some(state);
                }
                404 | 405 | 501 => {}
                _ => return Err(answer.unreadable()),
            }
        }
        match told {
            Some(state) => Ok(state),
            None if level >= LEVEL_WITH_STATS => Ok(QueueState::default()),
            None => {
                let text = format!(
                    "{} reports no statistics of queue {name} and has conformance level {level}; level {LEVEL_WITH_STATS} is \
                     required, so that no more is promoted than its workers need",
                    self.place()
                );
                Err(ErrorKind::Unsupported.with(text))
            }
        }
    }
}

/// Reads either form of answer. Returns `None` if it lacks the number of waiting jobs.
fn read(body: &Value, now: i64) -> Option<QueueState> {
    let find = |places: &[&str]| places.iter().find_map(|place| body.pointer(place).filter(|value| !value.is_null()));
    let number = |places: &[&str]| find(places).and_then(Value::as_f64).filter(|number| *number >= 0.0);
    let depth = number(&[
        "/counts/available",
        "/stats/available",
        "/queue/available",
        "/available",
        "/stats/depth",
        "/queue/depth",
        "/depth",
    ])?;
    let active = number(&["/counts/active", "/stats/active", "/queue/active", "/active"]).unwrap_or(0.0);
    let state = find(&["/status", "/state", "/queue/status", "/stats/status"]).and_then(Value::as_str);
    let paused = find(&["/paused", "/queue/paused"]).and_then(Value::as_bool);
    let time = |value: &Value| parse_rfc3339(value.as_str()?);
    let oldest =
        find(&["/oldest_available_at", "/stats/oldest_available_at", "/queue/oldest_available_at"]).and_then(time);
    // Prefer the server's own time, so that differences between clocks do not matter.
    let now = find(&["/computed_at"]).and_then(time).unwrap_or(now);
    let exact = oldest.map(|at| u64::try_from(now - at).unwrap_or(0));
    let average = || number(&["/stats/avg_wait_ms", "/avg_wait_ms"]).map(|ms| ms as u64);
    let by_pace = || {
        let pace = number(&["/stats/throughput_per_second", "/throughput_per_second"]).filter(|pace| *pace > 0.0)?;
        Some((depth / pace * 1000.0) as u64)
    };
    Some(QueueState {
        depth: depth as u64,
        active: active as u64,
        latency_ms: exact.or_else(average).or_else(by_pace).filter(|_| depth > 0.0),
        paused: paused.unwrap_or(state == Some("paused")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_way_of_telling_is_understood() {
        let now = 1_767_225_610_000; // 2026-01-01T00:00:10Z
        let (oldest, computed) = ("2026-01-01T00:00:07Z", "2026-01-01T00:00:08Z");
        for (body, depth, latency_ms, paused) in [
            (json!({"counts": {"available": 2, "active": 1}, "oldest_available_at": oldest}), 2, Some(3000), false),
            (json!({"counts": {"available": 2}, "paused": true, "state": "paused"}), 2, None, true),
            (json!({"stats": {"depth": 9, "available": 2, "oldest_available_at": oldest}}), 2, Some(3000), false),
            (
                json!({"queue": {"available": 2, "oldest_available_at": oldest}, "computed_at": computed}),
                2,
                Some(1000),
                false,
            ),
            (
                json!({"stats": {"depth": 2, "avg_wait_ms": 40, "throughput_per_second": 1}, "status": "paused"}),
                2,
                Some(40),
                true,
            ),
            (json!({"stats": {"depth": 3, "throughput_per_second": 0.5}}), 3, Some(6000), false),
            (json!({"stats": {"depth": 3, "throughput_per_second": 0}}), 3, None, false),
            (json!({"stats": {"depth": 0, "avg_wait_ms": 40}, "oldest_available_at": null}), 0, None, false),
        ] {
            let state = read(&body, now).expect("a state");
            assert_eq!((state.depth, state.latency_ms, state.paused), (depth, latency_ms, paused), "{body}");
        }
        for body in [json!({}), json!([]), json!("x"), json!({"depth": "many"}), json!({"depth": -1})] {
            assert_eq!(read(&body, now), None, "{body}");
        }
    }
}
