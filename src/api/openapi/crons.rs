//! Crons: register, list, change, delete, run now, next times.

use super::Shapes;
use super::operation::{Operation, op};
use super::schema::*;
use crate::api::handlers::crons::MOST_TIMES;
use serde_json::{Value, json};

const OVERLAPS: [&str; 7] = ["skip", "allow", "cancel_previous", "cancel", "replace", "enqueue", "queue"];

pub fn shapes() -> Shapes {
    let answer =
        object([("cron", refer("Cron")), ("cron_job", refer("Cron")), ("deleted?", flag()), ("name?", cron_name())]);
    vec![("Cron", cron()), ("CronAnswer", answer), ("CronTimes", times())]
}

fn cron() -> Value {
    object([
        ("name", cron_name()),
        ("expression", text()),
        ("cron", text()),
        ("timezone", text()),
        ("overlap_policy", one_of(&["skip", "allow", "cancel_previous", "enqueue"])),
        ("enabled", flag()),
        ("description?", text()),
        ("tenant_id?", text()),
        ("job_template", anything_named()),
        ("type", text()),
        ("queue?", text()),
        ("args", list(any())),
        ("meta?", anything_named()),
        ("options?", anything_named()),
        ("next_run_at", or_null(time())),
        ("last_run_at", or_null(time())),
        ("run_count", count()),
        ("created_at", time()),
    ])
}

fn times() -> Value {
    object([
        ("expression", text()),
        ("timezone", text()),
        ("next_run_times", list(time())),
        ("name?", text()),
        ("enabled?", flag()),
    ])
}

/// Fields, or a word; what the fields may hold is told in the text.
fn expression() -> Value {
    let pattern = "^\\s*(@(hourly|daily|midnight|weekly|monthly|yearly|annually)|@every +[0-9]+(ms|s|m|h|d)[0-9smhd]*|\
        [0-9A-Za-z*/,?#-]+(\\s+[0-9A-Za-z*/,?#-]+){4,5})\\s*$";
    json!({"type": "string", "pattern": pattern, "description": crate::job::cron::EXPECTED})
}

/// What can be changed. A template stands in `job_template`, or its members at top level.
fn body() -> Value {
    request([
        ("expression?", expression()),
        ("cron?", described(expression(), "The same.")),
        ("schedule?", described(expression(), "The same.")),
        ("timezone?", described(text(), crate::job::cron::TIMEZONE_EXPECTED)),
        ("overlap_policy?", one_of(&OVERLAPS)),
        ("enabled?", flag()),
        ("description?", short(0, 1024)),
        ("tenant_id?", described(text(), "The tenant of its jobs.")),
        ("job_template?", anything_named()),
        ("queue?", described(queue(), "The queue of its jobs, if their template names none.")),
        ("type?", kind()),
        ("args?", list(any())),
        ("meta?", anything_named()),
        ("options?", refer("JobOptions")),
    ])
}

pub fn register() -> Operation {
    let named = with(body(), request([("name", cron_name())]));
    let registered = with_one_of(named, &["expression", "cron", "schedule"]);
    op("Register a cron, or change the one of that name")
        .takes(with_one_of(registered, &["job_template", "type"]))
        .gives(200, "It is changed.", refer("CronAnswer"))
        .with_headers(&["Location"])
        .gives(201, "It is registered.", refer("CronAnswer"))
        .with_headers(&["Location"])
        .fails(&[409])
}

pub fn change() -> Operation {
    op("Change what a request names of a cron")
        .takes(with(body(), request([("name?", cron_name())])))
        .gives(200, "It is changed.", refer("CronAnswer"))
        .fails(&[409])
}

pub fn list_all() -> Operation {
    let answer = with(page_of(&["crons", "cron_jobs"], refer("Cron")), object([("count", count())]));
    op("All crons").query("enabled", flag(), "Only those that are, or are not.").paged().gives(200, "By name.", answer)
}

pub fn show() -> Operation {
    op("Show a cron").gives(200, "The cron.", refer("CronAnswer"))
}

pub fn remove() -> Operation {
    op("Delete a cron: jobs that it made stay").gives(200, "It is gone.", refer("CronAnswer"))
}

pub fn run() -> Operation {
    op("Run a cron now")
        .gives(201, "The job that it made.", refer("JobAnswer"))
        .with_headers(&["Location"])
        .fails(&[409])
}

pub fn next_times() -> Operation {
    op("When a cron will fire")
        .query("count", integer(1, MOST_TIMES as i64), "How many times; 5 if it is not said.")
        .gives(200, "Times.", refer("CronTimes"))
}

pub fn preview() -> Operation {
    let body =
        request([("expression", expression()), ("timezone?", text()), ("count?", integer(1, MOST_TIMES as i64))]);
    op("When an expression would fire").takes(body).gives(200, "Times.", refer("CronTimes"))
}
