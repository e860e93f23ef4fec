//! The tenants, jobs and settings of the demo.

use serde_json::{Value, json};
use std::time::Duration;

/// The plan rule, and the queue that it promotes into.
pub(super) const RULE: &str = "reports";
pub(super) const TYPE: &str = "report.build";
/// The tenant that floods the queue, and the number of jobs in each flood.
pub(super) const NOISY: &str = "noisy";
pub(super) const FLOOD_JOBS: usize = 3000;
pub(super) const FLOOD_EVERY: Duration = Duration::from_secs(60);
/// Tenants that enqueue a job now and then. The webhook gives the first one three times the weight.
pub(super) const QUIET: [&str; 8] =
    ["acme", "bluebird", "cobalt", "driftwood", "everest", "foxglove", "gardenia", "harbor"];
pub(super) const QUIET_EVERY: Duration = Duration::from_millis(1200);
/// The number of jobs that run at once, and the range of their durations in milliseconds. Together
/// they finish about 100 jobs a second.
pub(super) const WORKERS: usize = 10;
pub(super) const RUN_MS: (u64, u64) = (50, 150);
/// One job in so many fails.
pub(super) const FAILS_ONE_IN: u64 = 60;

/// The configuration file of the demo's server.
pub(super) const CONFIG: &str = r#"
[log]
level = "error"

[retention]
completed = "10m"

# Without plan rule, jobs are first in, first out.
[tenant_fairness]
enabled = false

# Emails wait for a limit, so that there is one to look at.
[[limit]]
type = "email.*"
concurrency = 2
rate = { limit = 4, period = "second" }
"#;

/// The plan rule, as the API takes it. `weights` is the URL of the webhook.
pub(super) fn rule(weights: &str) -> Value {
    json!({
        "types": ["report.*"],
        "queue": RULE,
        "tenant_key": "meta.tenant_id",
        "enqueue_jobs": "auto",
        "target_latency": "500ms",
        "weights": {"default_weight": 1, "webhook": {"url": weights, "timeout": "1s"}},
    })
}

/// Jobs of other types, so that no page of the dashboard is empty.
pub(super) fn cron() -> Value {
    json!({"name": "every-minute", "expression": "* * * * *",
           "job_template": {"type": "cleanup.sessions", "args": []}})
}

pub(super) fn workflow() -> Value {
    json!({"type": "chain", "name": "import", "steps": [
        {"type": "import.download", "args": ["orders.csv"]},
        {"type": "import.store", "args": []},
    ]})
}

/// Returns the text that introduces the demo: the tenants, and things to try.
pub(super) fn introduction(url: &str) -> String {
    let quiet = QUIET.len();
    let seconds = FLOOD_EVERY.as_secs();
    format!(
        "
  {url}

  Tenant \"{NOISY}\" enqueues {FLOOD_JOBS} reports every {seconds} s, {quiet} quiet tenants one every second or so.
  {WORKERS} workers build about 100 reports a second.

  Try this:

    - Open {url}/ and look at how long each tenant waits.
    - Press Enter to turn fairness off: the next flood starts at once, and the quiet tenants
      wait behind it. Press Enter again to turn it on.
    - Show the plan rule and its tenants:
        curl -s {url}/ojs/v1/admin/planner/{RULE}
        curl -s '{url}/ojs/v1/admin/planner/{RULE}/tenants?sort=pending'

  Ctrl-C stops the demo and deletes its data.
"
    )
}
