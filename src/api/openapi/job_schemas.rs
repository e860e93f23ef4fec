//! Jobs as clients post them and as answers show them.

use super::Shapes;
use super::schema::*;
use crate::api::handlers::waiting_for::REASONS;
use crate::job::quota::{MOST_CONCURRENCY, MOST_STARTS};
use crate::job::{LimitScope, Partition, State};
use serde_json::{Value, json};

pub fn shapes() -> Shapes {
    vec![
        ("JobState", one_of(&State::ALL.map(State::name))),
        ("Job", job()),
        ("JobOfAdmin", with(job(), object([("metadata", map(time())), ("retry_policy?", anything_named())]))),
        ("JobBothWays", both_ways()),
        ("JobError", job_error()),
        ("WaitingFor", waiting_for()),
        ("NewJob", new_job()),
        ("JobOptions", request(options())),
        ("RetryPolicy", retry()),
        ("UniquePolicy", unique()),
        ("RateLimitPolicy", rate_limit()),
        ("Window", window()),
        ("Pagination", pagination()),
        ("CursorPagination", object([("has_more", flag()), ("limit", at_least(1)), ("next_cursor?", text())])),
    ]
}

/// What a client sent, kept to the byte, and what the server knows: so it may have any further members.
fn job() -> Value {
    let own = object([
        ("specversion", json!({"const": "1.0"})),
        ("id", uuid()),
        ("type", text()),
        ("queue", text()),
        ("args", list(any())),
        ("meta", anything_named()),
        ("priority", integer(-100, 100)),
        ("state", state()),
        ("attempt", count()),
        ("max_attempts", count()),
        ("retry?", anything_named()),
        ("created_at", time()),
        ("scheduled_at?", text()),
        ("expires_at?", text()),
        ("activated_at?", time()),
        ("enqueued_at?", time()),
        ("started_at?", time()),
        ("next_retry_at?", time()),
        ("completed_at?", time()),
        ("discarded_at?", time()),
        ("cancelled_at?", time()),
        ("x_staged?", described(flag(), "It waits for a round of the planner.")),
        ("x_promoted_to?", described(text(), "The main queue that is not this server's, where it went.")),
        ("retry_delay_ms?", count()),
        ("worker_id?", text()),
        ("error?", refer("JobError")),
        ("errors?", list(refer("JobError"))),
        ("parent_results?", list(any())),
        ("result?", any()),
        ("checkpoint?", object([("sequence", count()), ("created_at", time()), ("state", any())])),
        ("workflow_id?", described(text(), "Of the workflow that it is part of, or as its client wrote it.")),
        ("tags?", list(text())),
        ("unique?", anything_named()),
        ("rate_limit?", anything_named()),
    ]);
    let more = object([
        ("timeout_ms?", count()),
        ("visibility_timeout_ms?", count()),
        ("heartbeat_timeout?", count()),
        ("grace_period?", count()),
        ("enqueue_ttl?", count()),
        ("total_timeout?", count()),
        ("previous_state?", state()),
        ("re_enqueued_at?", time()),
        ("waiting_for?", refer("WaitingFor")),
    ]);
    described(open(with(own, more)), "A job: what its client sent, and what became of it.")
}

/// A job at top level, and again inside `job`.
pub fn both_ways() -> Value {
    with(job(), object([("job", refer("Job"))]))
}

/// Why a job that nobody runs is not run; only where a single job is shown.
fn waiting_for() -> Value {
    let states = ["waiting", "held", "awaits_weight", "blocked"];
    let shown = object([
        ("reason", one_of(&REASONS)),
        ("rule?", text()),
        ("tenant?", text()),
        ("queue?", text()),
        ("gate?", object([("open", flag()), ("reason", or_null(text()))])),
        ("tenant_state?", one_of(&states)),
        ("key?", described(text(), "Of the limit, if the caller may know it.")),
        ("scope?", one_of(&LimitScope::NAMES)),
        ("strategy?", one_of(&["concurrency", "rate", "throttle", "hold"])),
        ("limit?", text()),
        ("since?", time()),
        ("until?", time()),
    ]);
    described(shown, "What a job waits for that is not active and has not ended, unless that is only a worker.")
}

/// An attempt that failed; `details` and `backtrace` are the worker's own.
fn job_error() -> Value {
    object([
        ("attempt", count()),
        ("occurred_at?", time()),
        ("type?", text()),
        ("code?", text()),
        ("message?", text()),
        ("retryable?", flag()),
        ("details?", any()),
        ("backtrace?", any()),
        ("truncated?", flag()),
        ("timeout_kind?", text()),
        ("limit_seconds?", number()),
        ("elapsed_seconds?", number()),
    ])
}

/// Options stand in `options`, which wins, or at top level.
fn options() -> [(&'static str, Value); 20] {
    [
        ("queue?", queue()),
        ("priority?", integer(-100, 100)),
        ("pending?", flag()),
        ("scheduled_at?", moment()),
        ("delay_until?", moment()),
        ("expires_at?", moment()),
        ("enqueue_ttl?", seconds(1)),
        ("total_timeout?", seconds(1)),
        ("timeout_ms?", milliseconds(0)),
        ("timeout?", seconds(0)),
        ("visibility_timeout_ms?", milliseconds(0)),
        ("visibility_timeout?", either([seconds(1), duration()])),
        ("heartbeat_timeout?", seconds(1)),
        ("grace_period?", seconds(1)),
        ("retry?", refer("RetryPolicy")),
        ("retry_policy?", refer("RetryPolicy")),
        ("unique?", refer("UniquePolicy")),
        ("rate_limit?", refer("RateLimitPolicy")),
        ("tags?", list(text())),
        ("metadata?", anything_named()),
    ]
}

fn new_job() -> Value {
    let own = request([
        ("type", kind()),
        ("args", list(any())),
        ("id?", uuid()),
        ("meta?", anything_named()),
        ("options?", refer("JobOptions")),
        ("specversion?", json!({"const": "1.0"})),
    ]);
    // `metadata` is an option only.
    let mut outer = request(options());
    if let Some(properties) = outer["properties"].as_object_mut() {
        properties.remove("metadata");
    }
    described(
        open(with(own, outer)),
        "Members that mean nothing to the server are kept and come back as they are; those that only it sets are passed over.",
    )
}

fn retry() -> Value {
    let strategy = || one_of(&["none", "constant", "linear", "exponential", "polynomial"]);
    request([
        ("max_attempts?", integer(0, u32::MAX.into())),
        ("initial_interval?", duration()),
        ("initial_interval_ms?", milliseconds(1)),
        ("max_interval?", duration()),
        ("max_interval_ms?", milliseconds(1)),
        ("backoff_coefficient?", json!({"type": "number", "minimum": 1, "maximum": 1_000_000})),
        ("jitter?", flag()),
        ("non_retryable_errors?", list_of(plain(255), 0, 100)),
        ("on_exhaustion?", one_of(&["discard", "dead_letter"])),
        ("backoff_strategy?", strategy()),
        ("backoff_type?", strategy()),
        ("strategy?", strategy()),
    ])
}

fn unique() -> Value {
    let names = || list_of(text(), 1, 64);
    let conflict = ["reject", "replace", "replace_except_schedule", "ignore", "use_existing"];
    request([
        ("keys?", list_of(one_of(&["type", "queue", "args", "meta"]), 1, 64)),
        ("args_keys?", names()),
        ("key?", names()),
        ("meta_keys?", names()),
        ("states?", list_of(state(), 1, 64)),
        ("period?", duration()),
        ("on_conflict?", one_of(&conflict)),
    ])
}

/// Every way to write a quota, each with these members beside it.
pub fn quota(more: &Value) -> Vec<Value> {
    let starts = || integer(1, MOST_STARTS.into());
    let none = || json!({"type": "null"});
    let form = |own: Value| {
        let common = request([("concurrency?", integer(0, MOST_CONCURRENCY.into())), ("throttle?", refer("Window"))]);
        with(with(common, own), more.clone())
    };
    let window = request([("rate?", refer("Window"))]);
    let apart = object([("limit?", none()), ("period?", none()), ("max_per_second?", none())]);
    vec![
        form(with(window, apart)),
        form(object([("rate", starts()), ("period", period()), ("limit?", none()), ("max_per_second?", none())])),
        form(object([("limit", starts()), ("period", period()), ("rate?", none()), ("max_per_second?", none())])),
        form(object([("max_per_second", starts()), ("rate?", none()), ("limit?", none()), ("period?", none())])),
    ]
}

/// A quota that says something, and has no other members than these.
pub fn closed_quota(more: &Value) -> Value {
    let says = ["concurrency", "rate", "throttle", "limit", "max_per_second"];
    either(quota(more).into_iter().map(|form| with_one_of(closed(form), &says)))
}

/// It has a key, or is `max_per_second` of its queue.
fn rate_limit() -> Value {
    let on_limit = || request([("on_limit?", one_of(&["wait", "reschedule", "drop"]))]);
    let scope = described(one_of(&Partition::NAMES), "Which jobs with the key share its counters; `global` are all.");
    let mut forms = quota(&with(on_limit(), request([("key", rate_key()), ("scope?", scope)])));
    let of_queue = with(on_limit(), request([("key?", rate_key()), ("scope?", one_of(&["global", "queue"]))]));
    forms.extend(quota(&of_queue).pop());
    either(forms)
}

fn window() -> Value {
    object([("limit", integer(1, MOST_STARTS.into())), ("period", period())])
}

fn pagination() -> Value {
    object([
        ("total", count()),
        ("has_more", flag()),
        ("limit", at_least(1)),
        ("offset", count()),
        ("page", at_least(1)),
        ("per_page", at_least(1)),
        ("next_cursor?", text()),
        ("truncated?", described(flag(), "There are more than were looked at.")),
    ])
}
