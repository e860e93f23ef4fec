//! Crons: register, list, update, delete, run now, next times.

use super::Schemas;
use super::operation::{Operation, operation};
use super::schema::*;
use crate::api::answers::crons::{CronAnswer, CronTimes};
use crate::api::answers::lists::Count;
use crate::api::handlers::crons::MOST_TIMES;
use serde_json::{Value, json};

const OVERLAPS: [&str; 7] = ["skip", "allow", "cancel_previous", "cancel", "replace", "enqueue", "queue"];

pub fn schemas() -> Schemas {
    vec![("Cron", cron())]
}

fn cron() -> Value {
    object([
        ("name", cron_name()),
        ("expression", string()),
        ("cron", string()),
        ("timezone", string()),
        ("overlap_policy", enumeration(&["skip", "allow", "cancel_previous", "enqueue"])),
        ("enabled", boolean()),
        ("description?", string()),
        ("tenant_id?", string()),
        ("job_template", any_object()),
        ("type", string()),
        ("queue?", string()),
        ("args", array(any())),
        ("meta?", any_object()),
        ("options?", any_object()),
        ("next_run_at", nullable(timestamp())),
        ("last_run_at", nullable(timestamp())),
        ("run_count", count()),
        ("created_at", timestamp()),
    ])
}

/// A cron expression. The pattern checks its form; the description has the values of the fields.
fn expression() -> Value {
    let pattern = "^\\s*(@(hourly|daily|midnight|weekly|monthly|yearly|annually)|@every +[0-9]+(ms|s|m|h|d)[0-9smhd]*|\
        [0-9A-Za-z*/,?#-]+(\\s+[0-9A-Za-z*/,?#-]+){4,5})\\s*$";
    json!({"type": "string", "pattern": pattern, "description": crate::domain::cron::EXPECTED})
}

/// The members of a cron that a client may set. The members of `job_template` may be at top level instead.
fn body() -> Value {
    request([
        ("expression?", expression()),
        ("cron?", with_description(expression(), "An alias of `expression`.")),
        ("schedule?", with_description(expression(), "An alias of `expression`.")),
        ("timezone?", with_description(string(), crate::domain::cron::TIMEZONE_EXPECTED)),
        ("overlap_policy?", enumeration(&OVERLAPS)),
        ("enabled?", boolean()),
        ("description?", string_of_length(0, 1024)),
        ("tenant_id?", with_description(string(), "The tenant of the jobs.")),
        ("job_template?", any_object()),
        ("queue?", with_description(queue(), "The queue of the jobs, if the template names none.")),
        ("type?", job_type()),
        ("args?", array(any())),
        ("meta?", any_object()),
        ("options?", reference("JobOptions")),
    ])
}

pub fn register() -> Operation {
    let named = merge(body(), request([("name", cron_name())]));
    let registered = requiring_one_of(named, &["expression", "cron", "schedule"]);
    operation("Create a cron, or update the one with that name")
        .request_body(requiring_one_of(registered, &["job_template", "type"]))
        .answer::<CronAnswer>(200, "The cron was updated.")
        .with_headers(&["Location"])
        .answer::<CronAnswer>(201, "The cron was created.")
        .with_headers(&["Location"])
        .errors(&[409])
}

pub fn update() -> Operation {
    operation("Update the given members of a cron")
        .request_body(merge(body(), request([("name?", cron_name())])))
        .answer::<CronAnswer>(200, "The cron was updated.")
        .errors(&[409])
}

pub fn list_all() -> Operation {
    operation("List crons")
        .query("enabled", boolean(), "Only crons that are enabled, or that are not.")
        .paged()
        .page_of::<Count>(&["crons", "cron_jobs"], reference("Cron"), "Crons, by name.")
}

pub fn show() -> Operation {
    operation("Show a cron").answer::<CronAnswer>(200, "The cron.")
}

pub fn remove() -> Operation {
    operation("Delete a cron; jobs that it created remain").answer::<CronAnswer>(200, "The cron was deleted.")
}

pub fn run() -> Operation {
    operation("Run a cron now")
        .response(201, "The job that the cron created.", reference("JobAnswer"))
        .with_headers(&["Location"])
        .errors(&[409])
}

pub fn next_times() -> Operation {
    operation("List the next times of a cron")
        .query("count", integer(1, MOST_TIMES as i64), "The number of times; 5 by default.")
        .answer::<CronTimes>(200, "The next times.")
}

pub fn preview() -> Operation {
    let body =
        request([("expression", expression()), ("timezone?", string()), ("count?", integer(1, MOST_TIMES as i64))]);
    operation("List the next times of a cron expression").request_body(body).answer::<CronTimes>(200, "The next times.")
}
