//! Progress, checkpoints and results of jobs.

use super::operation::{Operation, operation};
use super::schema::*;
use crate::api::answers::progress::{Checkpoint, CheckpointAnswer, JobProgress, StoredCheckpoint};
use crate::api::answers::types::Deleted;
use crate::api::handlers::results::{LONGEST_WAIT_S, MOST_IDS};
use serde_json::{Value, json};

pub fn show() -> Operation {
    operation("Show the progress of a job")
        .answer::<JobProgress>(200, "The progress.")
        .with_headers(&["Cache-Control", "X-OJS-Progress"])
}

fn reports(summary: &'static str, job: Value) -> Operation {
    let report = request([
        ("progress?", with_description(number(), "A number from 0 to 1. Values outside are clamped.")),
        ("percentage?", with_description(number(), "The same as a number from 0 to 100. `progress` takes precedence.")),
        ("data?", any()),
        ("message?", string()),
        ("checkpoint?", any()),
        ("worker_id?", printable(256)),
    ]);
    operation(summary)
        .description(
            "One of `progress`, `percentage` and `data` is required. `data` may have 4096 bytes, `message` 1024.",
        )
        .request_body(requiring_one_of(merge(report, job), &["progress", "percentage", "data"]))
        .answer::<JobProgress>(200, "The progress that is stored now.")
        .with_headers(&["Cache-Control", "X-OJS-Progress"])
        .errors(&[404, 409])
}

pub fn report() -> Operation {
    reports("Report the progress of a job", request([]))
}

pub fn report_by_body() -> Operation {
    reports("Report the progress of the job that the body names", request([("job_id", printable(128))]))
}

pub fn show_checkpoint() -> Operation {
    operation("Show the checkpoint of a job").answer::<CheckpointAnswer<Checkpoint>>(200, "The checkpoint.")
}

pub fn put_checkpoint() -> Operation {
    operation("Store a checkpoint for the next attempt of a job")
        .request_body(request([("state", json!({"not": {"type": "null"}}))]))
        .answer::<CheckpointAnswer<StoredCheckpoint>>(200, "The checkpoint was stored in place of the previous one.")
        .errors(&[409])
}

pub fn delete_checkpoint() -> Operation {
    operation("Delete the checkpoint of a job").answer::<Deleted>(200, "The checkpoint was deleted.")
}

pub fn result() -> Operation {
    operation("Show the result of a job")
        .query("wait", boolean(), "`true` waits for the result.")
        .query("timeout", integer(0, LONGEST_WAIT_S as i64), "Seconds to wait; 30 by default.")
        .response(200, "The job has finished.", object([("job_id", string()), ("state", state()), ("result", any())]))
        .errors(&[408])
}

pub fn results() -> Operation {
    let results = map_of(object([("state", state()), ("result", any())]));
    operation("Show the results of many jobs")
        .request_body(request([("ids", array_of(string(), 0, MOST_IDS))]))
        .response(200, "The results of the jobs that exist, by job id.", object([("results", results)]))
}
