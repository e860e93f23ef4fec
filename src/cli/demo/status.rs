//! The line that the demo prints each few seconds.

use super::fairness_switch::FairnessSwitch;
use super::scenario::{QUIET, RULE};
use super::waits::{Group, Summary, Waits};
use crate::remote::Remote;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const EVERY: Duration = Duration::from_secs(5);

/// Prints a line at each interval until the demo stops.
pub(super) async fn print(client: Remote, switch: FairnessSwitch, waits: Arc<Waits>, stop: CancellationToken) {
    let mut timer = tokio::time::interval(EVERY);
    timer.tick().await;
    while stop.run_until_cancelled(timer.tick()).await.is_some() {
        let now = Instant::now();
        let waiting = waiting(&client).await;
        let (quiet, noisy) = (waits.summary(now, Group::Quiet), waits.summary(now, Group::Noisy));
        eprintln!("{}", line(switch.is_on(), waiting, &quiet, &noisy));
    }
}

/// Returns the number of reports that wait, staged or in the queue.
async fn waiting(client: &Remote) -> Option<u64> {
    let stats = client.api_get(&format!("/ojs/v1/queues/{RULE}/stats")).await.ok()?;
    let stats = stats.get("stats").unwrap_or(&stats);
    let of = |state: &str| stats.get(state).and_then(serde_json::Value::as_u64);
    Some(of("available")? + of("pending").unwrap_or(0))
}

fn line(is_fair: bool, waiting: Option<u64>, quiet: &Summary, noisy: &Summary) -> String {
    let fairness = if is_fair { "fairness on " } else { "fairness OFF" };
    let waiting = waiting.map_or_else(|| "?".to_owned(), |waiting| waiting.to_string());
    format!(
        "{fairness}  {waiting:>5} reports wait  |  last 10 s: {} quiet tenants: {:>3} jobs, p95 wait {:>6}  |  noisy: {:>4} \
         jobs, p95 wait {:>6}",
        QUIET.len(),
        quiet.jobs,
        seconds(quiet.p95_ms),
        noisy.jobs,
        seconds(noisy.p95_ms),
    )
}

fn seconds(ms: Option<u64>) -> String {
    ms.map_or_else(|| "-".to_owned(), |ms| format!("{:.1} s", ms as f64 / 1000.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_compares_quiet_and_noisy_tenants() {
        let (quiet, noisy) = (Summary { jobs: 66, p95_ms: Some(340) }, Summary { jobs: 900, p95_ms: Some(21_040) });
        assert_eq!(
            line(true, Some(2480), &quiet, &noisy),
            "fairness on    2480 reports wait  |  last 10 s: 8 quiet tenants:  66 jobs, p95 wait  0.3 s  |  noisy:  900 jobs, \
             p95 wait 21.0 s"
        );
        assert!(line(false, None, &quiet, &noisy).starts_with("fairness OFF      ? reports wait"));
    }
}
