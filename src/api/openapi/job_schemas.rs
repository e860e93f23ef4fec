//! Schemas of jobs in requests and responses.

use super::Schemas;
use super::schema::*;
use crate::api::handlers::waiting_for::REASONS;
use crate::domain::job::State;
use crate::domain::limit::LimitStrategy;
use crate::domain::limit::quota::{MOST_CONCURRENCY, MOST_STARTS};
use crate::domain::limit::{LimitScope, Partition};
use serde_json::{Value, json};

pub fn schemas() -> Schemas {
    vec![
        ("JobState", enumeration(&State::ALL.map(State::name))),
        ("Job", job()),
        ("JobOfAdmin", merge(job(), object([("metadata", map_of(timestamp())), ("retry_policy?", any_object())]))),
        ("JobBothWays", wrapped_job()),
        ("JobError", job_error()),
        ("WaitingFor", waiting_for()),
        ("NewJob", new_job()),
        ("JobOptions", request(options())),
        ("RetryPolicy", retry()),
        ("UniquePolicy", unique()),
        ("RateLimitPolicy", rate_limit()),
        ("Window", window()),
        ("Pagination", pagination()),
        ("CursorPagination", object([("has_more", boolean()), ("limit", at_least(1)), ("next_cursor?", string())])),
    ]
}

/// A job: the members that the client sent, byte for byte, and those of the server. So it may have any other members.
fn job() -> Value {
    let own = object([
        ("specversion", json!({"const": "1.0"})),
        ("id", uuid()),
        ("type", string()),
        ("queue", string()),
        ("args", array(any())),
        ("meta", any_object()),
        ("priority", integer(-100, 100)),
        ("state", state()),
        ("attempt", count()),
        ("max_attempts", count()),
        ("retry?", any_object()),
        ("created_at", timestamp()),
        ("scheduled_at?", string()),
        ("expires_at?", string()),
        ("activated_at?", timestamp()),
        ("enqueued_at?", timestamp()),
        ("started_at?", timestamp()),
        ("next_retry_at?", timestamp()),
        ("completed_at?", timestamp()),
        ("discarded_at?", timestamp()),
        ("cancelled_at?", timestamp()),
        ("x_staged?", with_description(boolean(), "True while the job waits in staging for a round of the planner.")),
        ("x_promoted_to?", with_description(string(), "The external main queue into which the job was promoted.")),
        ("retry_delay_ms?", count()),
        ("worker_id?", string()),
        ("error?", reference("JobError")),
        ("errors?", array(reference("JobError"))),
        ("parent_results?", array(any())),
        ("result?", any()),
        ("checkpoint?", object([("sequence", count()), ("created_at", timestamp()), ("state", any())])),
        (
            "workflow_id?",
            with_description(string(), "The id of the workflow of the job, or a value that the client set."),
        ),
        ("tags?", array(string())),
        ("unique?", any_object()),
        ("rate_limit?", any_object()),
    ]);
    let more = object([
        ("timeout_ms?", count()),
        ("visibility_timeout_ms?", count()),
        ("heartbeat_timeout?", count()),
        ("grace_period?", count()),
        ("enqueue_ttl?", count()),
        ("total_timeout?", count()),
        ("previous_state?", state()),
        ("re_enqueued_at?", timestamp()),
        ("waiting_for?", reference("WaitingFor")),
    ]);
    with_description(open(merge(own, more)), "A job: the members that the client sent, and its state.")
}

/// A job, at top level and inside `job`.
pub fn wrapped_job() -> Value {
    merge(job(), object([("job", reference("Job"))]))
}

/// The reason why a job is not running. Only responses about a single job have it.
fn waiting_for() -> Value {
    let states = ["waiting", "held", "awaits_weight", "blocked"];
    let waiting = object([
        ("reason", enumeration(&REASONS)),
        ("rule?", string()),
        ("tenant?", string()),
        ("queue?", string()),
        ("gate?", object([("open", boolean()), ("reason", nullable(string()))])),
        ("tenant_state?", enumeration(&states)),
        ("key?", with_description(string(), "The key of the limit, if the caller may read it.")),
        ("scope?", enumeration(&LimitScope::NAMES)),
        ("strategy?", enumeration(&LimitStrategy::NAMES)),
        ("limit?", string()),
        ("since?", timestamp()),
        ("until?", timestamp()),
    ]);
    with_description(waiting, "The reason why a job is not active, unless it waits only for a worker.")
}

/// A failed attempt. The worker chose `details` and `backtrace`.
fn job_error() -> Value {
    object([
        ("attempt", count()),
        ("occurred_at?", timestamp()),
        ("type?", string()),
        ("code?", string()),
        ("message?", string()),
        ("retryable?", boolean()),
        ("details?", any()),
        ("backtrace?", any()),
        ("truncated?", boolean()),
        ("timeout_kind?", string()),
        ("limit_seconds?", number()),
        ("elapsed_seconds?", number()),
    ])
}

/// The options of a job, in `options`, which takes precedence, or at top level.
fn options() -> [(&'static str, Value); 20] {
    [
        ("queue?", queue()),
        ("priority?", integer(-100, 100)),
        ("pending?", boolean()),
        ("scheduled_at?", time_or_delay()),
        ("delay_until?", time_or_delay()),
        ("expires_at?", time_or_delay()),
        ("enqueue_ttl?", seconds(1)),
        ("total_timeout?", seconds(1)),
        ("timeout_ms?", milliseconds(0)),
        ("timeout?", seconds(0)),
        ("visibility_timeout_ms?", milliseconds(0)),
        ("visibility_timeout?", any_of([seconds(1), duration()])),
        ("heartbeat_timeout?", seconds(1)),
        ("grace_period?", seconds(1)),
        ("retry?", reference("RetryPolicy")),
        ("retry_policy?", reference("RetryPolicy")),
        ("unique?", reference("UniquePolicy")),
        ("rate_limit?", reference("RateLimitPolicy")),
        ("tags?", array(string())),
        ("metadata?", any_object()),
    ]
}

fn new_job() -> Value {
    let own = request([
        ("type", job_type()),
        ("args", array(any())),
        ("id?", uuid()),
        ("meta?", any_object()),
        ("options?", reference("JobOptions")),
        ("specversion?", json!({"const": "1.0"})),
    ]);
    // `metadata` is an option only.
    let mut outer = request(options());
    if let Some(properties) = outer["properties"].as_object_mut() {
        properties.remove("metadata");
    }
    with_description(
        open(merge(own, outer)),
        "Unknown members are stored and returned unchanged. Members that only the server sets are ignored.",
    )
}

fn retry() -> Value {
    let strategy = || enumeration(&["none", "constant", "linear", "exponential", "polynomial"]);
    request([
        ("max_attempts?", integer(0, u32::MAX.into())),
        ("initial_interval?", duration()),
        ("initial_interval_ms?", milliseconds(1)),
        ("max_interval?", duration()),
        ("max_interval_ms?", milliseconds(1)),
        ("backoff_coefficient?", json!({"type": "number", "minimum": 1, "maximum": 1_000_000})),
        ("jitter?", boolean()),
        ("non_retryable_errors?", array_of(printable(255), 0, 100)),
        ("on_exhaustion?", enumeration(&["discard", "dead_letter"])),
        ("backoff_strategy?", strategy()),
        ("backoff_type?", strategy()),
        ("strategy?", strategy()),
    ])
}

fn unique() -> Value {
    let names = || array_of(string(), 1, 64);
    let conflict = ["reject", "replace", "replace_except_schedule", "ignore", "use_existing"];
    request([
        ("keys?", array_of(enumeration(&["type", "queue", "args", "meta"]), 1, 64)),
        ("args_keys?", names()),
        ("key?", names()),
        ("meta_keys?", names()),
        ("states?", array_of(state(), 1, 64)),
        ("period?", duration()),
        ("on_conflict?", enumeration(&conflict)),
    ])
}

/// All forms of a quota, each with `more` members.
pub fn quota(more: &Value) -> Vec<Value> {
    let starts = || integer(1, MOST_STARTS.into());
    let none = || json!({"type": "null"});
    let form = |own: Value| {
        let common =
            request([("concurrency?", integer(0, MOST_CONCURRENCY.into())), ("throttle?", reference("Window"))]);
        merge(merge(common, own), more.clone())
    };
    let window = request([("rate?", reference("Window"))]);
    let apart = object([("limit?", none()), ("period?", none()), ("max_per_second?", none())]);
    vec![
        form(merge(window, apart)),
        form(object([("rate", starts()), ("period", period()), ("limit?", none()), ("max_per_second?", none())])),
        form(object([("limit", starts()), ("period", period()), ("rate?", none()), ("max_per_second?", none())])),
        form(object([("max_per_second", starts()), ("rate?", none()), ("limit?", none()), ("period?", none())])),
    ]
}

/// A quota that sets at least one limit, without other members.
pub fn closed_quota(more: &Value) -> Value {
    let limits = ["concurrency", "rate", "throttle", "limit", "max_per_second"];
    any_of(quota(more).into_iter().map(|form| requiring_one_of(closed(form), &limits)))
}

/// The rate limit of a job: one with a key, or `max_per_second` of its queue.
fn rate_limit() -> Value {
    let on_limit = || request([("on_limit?", enumeration(&["wait", "reschedule", "drop"]))]);
    let scope = with_description(
        enumeration(&Partition::NAMES),
        "The jobs that share the counters of the key; `global` means all of them.",
    );
    let mut forms = quota(&merge(on_limit(), request([("key", rate_key()), ("scope?", scope)])));
    let of_queue = merge(on_limit(), request([("key?", rate_key()), ("scope?", enumeration(&["global", "queue"]))]));
    forms.extend(quota(&of_queue).pop());
    any_of(forms)
}

fn window() -> Value {
    object([("limit", integer(1, MOST_STARTS.into())), ("period", period())])
}

fn pagination() -> Value {
    object([
        ("total", count()),
        ("has_more", boolean()),
        ("limit", at_least(1)),
        ("offset", count()),
        ("page", at_least(1)),
        ("per_page", at_least(1)),
        ("next_cursor?", string()),
        ("truncated?", with_description(boolean(), "There are more than were looked at.")),
    ])
}
