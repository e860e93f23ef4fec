//! `fairgate explain`.

use super::server::{Server, segment};
use crate::domain::words::{counted, grouped};
use clap::Args;
use serde_json::Value;
use std::fmt::{self, Display, Formatter};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  fairgate explain 01a1f5d7-0cbe-71ad-8117-09aa0dd41b29
  fairgate explain 8117a1f509aa0dd41b29cbe7 --server https://jobs.example.com
  fairgate explain ID --json | jq .binding

Exit status: 0 if the server explained the job, 1 if it knows no such job, refuses the key or does
not answer.";

/// Explain why a job waits.
///
/// Asks a running server. Shows the position of the job, the checks between it and a worker in
/// their order, the first one that blocks, and an estimate of its start. For a job that runs or has
/// ended, shows the time spent in each stage.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Explain {
    /// Id of the job, or the Sidekiq id (jid) of a staged job
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    server: Server,
    /// Print the JSON object of the API instead of text
    #[arg(long)]
    json: bool,
}

impl Explain {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let path = format!("/ojs/v1/jobs/{}/explain", segment(&self.id));
        let explanation = super::runtime()?.block_on(self.server.client()?.api_get(&path))?;
        match self.json {
            true => super::print(format_args!("{explanation:#}"))?,
            false => super::print(Shown(&explanation).to_string().trim_end())?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// An explanation as text.
struct Shown<'a>(&'a Value);

impl Shown<'_> {
    fn text(&self, pointer: &str) -> Option<&str> {
        self.0.pointer(pointer).and_then(Value::as_str)
    }

    fn list(&self, name: &str) -> &[Value] {
        self.0[name].as_array().map_or(&[], Vec::as_slice)
    }

    fn position(&self) -> Option<String> {
        let before = self.0.pointer("/position/jobs_before").and_then(Value::as_u64);
        let of_tenant = self.0.pointer("/position/of_tenant").and_then(Value::as_u64).unwrap_or(0);
        let is_estimate = self.0["position"]["is_estimate"] == true && before != Some(0);
        let about = if is_estimate { "about " } else { "" };
        Some(match (self.text("/position/in")?, before) {
            ("staging", Some(before)) => {
                format!("{about}{} before it, {} of its own tenant", counted(before, "promotion"), grouped(of_tenant))
            }
            ("staging", None) => format!("{} of its own tenant before it in staging", counted(of_tenant, "job")),
            (_, before) => format!("{about}{} before it in the queue", counted(before.unwrap_or(0), "job")),
        })
    }

    fn estimate(&self) -> Option<String> {
        let seconds = self.0.pointer("/eta/seconds")?.as_f64()?;
        let (of, at) = (self.text("/eta/of")?, self.text("/eta/at")?);
        Some(format!("{of} in {seconds:.1} s, at {at}: {}", self.text("/eta/basis")?))
    }
}

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let named = |name: &str| self.text(&format!("/{name}")).unwrap_or("-");
        writeln!(f, "job       {}", named("job_id"))?;
        writeln!(f, "state     {}, queue {}, tenant {}", named("state"), named("queue"), named("tenant_id"))?;
        if let Some(rule) = self.text("/rule") {
            writeln!(f, "rule      {rule}, main queue {}", named("main_queue"))?;
        }
        for (title, text) in [("position", self.position()), ("estimate", self.estimate())] {
            text.iter().try_for_each(|text| writeln!(f, "{title:8}  {text}"))?;
        }
        match self.text("/binding") {
            Some(binding) => writeln!(f, "waits for {binding}\n          {}", named("summary"))?,
            None => writeln!(f, "\n{}", named("summary"))?,
        }
        if !self.list("checks").is_empty() {
            writeln!(f, "\nchecks, in the order in which the job must pass them")?;
        }
        self.list("checks").iter().try_for_each(|check| write_check(f, check))?;
        if !self.list("stages").is_empty() {
            writeln!(f, "\nstages, {} in all", seconds(&self.0["total_ms"]))?;
        }
        self.list("stages").iter().try_for_each(|stage| {
            let name = stage["name"].as_str().unwrap_or_default();
            writeln!(
                f,
                "  {name:18}  {:>12}  from {}",
                seconds(&stage["ms"]),
                stage["from"].as_str().unwrap_or_default()
            )
        })
    }
}

fn write_check(f: &mut Formatter<'_>, check: &Value) -> fmt::Result {
    let text = |name: &str| check[name].as_str();
    let state = text("state").unwrap_or_default();
    let state = if state == "blocking" { "BLOCKING" } else { state };
    writeln!(f, "  {state:8}  {:18}  {}", text("name").unwrap_or_default(), text("summary").unwrap_or_default())?;
    let times = [("since", text("since")), ("until", text("until"))];
    let times = times.into_iter().filter_map(|(name, at)| at.map(|at| format!("{name} {at}")));
    let holders = check["holders"].as_array().into_iter().flatten();
    let holders = holders.map(|holder| {
        let text = |name: &str| holder[name].as_str().unwrap_or_default();
        format!("held by job {} of queue {}", text("job_id"), text("queue"))
    });
    let details: Vec<String> = times.chain(holders).collect();
    details.iter().try_for_each(|detail| writeln!(f, "  {:30}{detail}", ""))
}

fn seconds(ms: &Value) -> String {
    format!("{:.3} s", ms.as_f64().unwrap_or(0.0) / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_waiting_job_is_shown_with_its_checks() {
        let explanation = json!({
            "job_id": "j", "state": "available", "queue": "q", "tenant_id": "acme", "binding": "limit",
            "summary": "Limit stripe is full.",
            "position": {"in": "queue", "jobs_before": 2, "is_estimate": false},
            "checks": [
                {"name": "queue_paused", "state": "ok", "summary": "Queue q is not paused."},
                {"name": "limit", "state": "blocking", "summary": "Limit stripe is full.", "since": "T1",
                 "holders": [{"job_id": "h", "queue": "p"}]},
            ],
        });
        let expected = "\
job       j
state     available, queue q, tenant acme
position  2 jobs before it in the queue
waits for limit
          Limit stripe is full.

checks, in the order in which the job must pass them
  ok        queue_paused        Queue q is not paused.
  BLOCKING  limit               Limit stripe is full.
                                since T1
                                held by job h of queue p
";
        assert_eq!(Shown(&explanation).to_string(), expected);
    }

    #[test]
    fn a_job_that_ended_is_shown_with_its_stages() {
        let explanation = json!({
            "job_id": "j", "state": "completed", "queue": "q", "tenant_id": "acme", "rule": "r", "main_queue": "builtin",
            "binding": null, "summary": "The job does not wait; it is completed.", "total_ms": 1500,
            "stages": [{"name": "queued", "ms": 500, "from": "T1", "to": "T2"}],
        });
        let shown = Shown(&explanation).to_string();
        assert!(shown.contains("rule      r, main queue builtin\n"), "{shown}");
        assert!(shown.ends_with("stages, 1.500 s in all\n  queued                   0.500 s  from T1\n"), "{shown}");
    }
}
