//! Progress, checkpoints and results of jobs.

use super::operation::{Operation, op};
use super::schema::*;
use crate::api::handlers::results::{LONGEST_S, MOST_IDS};
use serde_json::{Value, json};

fn progress() -> Value {
    object([
        ("job_id", text()),
        ("state", state()),
        ("progress", or_null(ratio())),
        ("data", any()),
        ("message", or_null(text())),
        ("updated_at?", time()),
    ])
}

pub fn show() -> Operation {
    op("How far a job has got")
        .gives(200, "Its progress.", progress())
        .with_headers(&["Cache-Control", "X-OJS-Progress"])
}

fn reports(summary: &'static str, job: Value) -> Operation {
    let report = request([
        ("progress?", described(number(), "From 0 to 1; what is outside counts as the nearer of the two.")),
        ("percentage?", described(number(), "The same from 0 to 100, if `progress` is left out.")),
        ("data?", any()),
        ("message?", text()),
        ("checkpoint?", any()),
        ("worker_id?", plain(256)),
    ]);
    op(summary)
        .about("`progress`, `percentage` or `data` must be there. `data` has at most 4096 bytes, `message` 1024.")
        .takes(with_one_of(with(report, job), &["progress", "percentage", "data"]))
        .gives(200, "What is known now.", progress())
        .with_headers(&["Cache-Control", "X-OJS-Progress"])
        .fails(&[404, 409])
}

pub fn report() -> Operation {
    reports("Report the progress of a job", request([]))
}

pub fn report_by_body() -> Operation {
    reports("Report the progress of the job that the body names", request([("job_id", plain(128))]))
}

fn checkpoint(state: &'static str) -> Value {
    let flat = || object([("job_id", text()), ("sequence", count()), ("created_at", time()), (state, any())]);
    with(flat(), object([("checkpoint", flat())]))
}

pub fn checkpoint_shown() -> Operation {
    op("What a job has kept for its next attempt").gives(200, "The checkpoint.", checkpoint("state"))
}

pub fn keep() -> Operation {
    op("Keep something for a job's next attempt")
        .takes(request([("state", json!({"not": {"type": "null"}}))]))
        .gives(200, "It is kept, in place of what was.", checkpoint("state?"))
        .fails(&[409])
}

pub fn drop_checkpoint() -> Operation {
    op("Forget what a job has kept").gives(200, "It is gone.", object([("deleted", flag()), ("job_id", text())]))
}

pub fn result() -> Operation {
    op("The result of a job")
        .query("wait", flag(), "Whether to wait for it.")
        .query("timeout", integer(0, LONGEST_S as i64), "How many seconds; 30 if it is not said.")
        .gives(200, "The job has ended.", object([("job_id", text()), ("state", state()), ("result", any())]))
        .fails(&[408])
}

pub fn results() -> Operation {
    let results = map(object([("state", state()), ("result", any())]));
    op("Results of many jobs").takes(request([("ids", list_of(text(), 0, MOST_IDS))])).gives(
        200,
        "Those that exist, by id.",
        object([("results", results)]),
    )
}
