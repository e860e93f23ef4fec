//! The planner: rules, rounds, tenants, previews.

use super::Schemas;
use super::events::STREAM;
use super::operation::{Operation, operation};
use super::pools::weight;
use super::schema::*;
use crate::api::answers::lists::Truncated;
use crate::api::answers::planner::{RuleRemoved, RulesVersion};
use crate::planner::{ListedTenant, Preview};
use serde_json::{Value, json};

/// The part of a job that names its tenant.
const TENANT_KEY: &str = "^(meta([.][^.]+)+|args[.][0-9]+([.][^.]+)*|header:[a-zA-Z0-9_-]+|api_key)$";
/// A job type, a Ruby class, or a glob of either.
const PATTERN: &str = "^([a-z][a-z0-9_-]*([.][a-z][a-z0-9_-]*)*|[a-z0-9_.-]*[*][a-z0-9_.*-]*|[A-Z][A-Za-z0-9_:]*|[A-Za-z0-9_:]*[*][A-Za-z0-9_:*]*)$";

pub fn schemas() -> Schemas {
    vec![("Rule", rule()), ("RuleOptions", options(1)), ("StoredRuleOptions", options(0)), ("Round", round())]
}

/// The options of `[[plan]]`. Options that are left out have their defaults; `null` is refused. A
/// rule that was removed and drains has no types any more.
fn options(fewest_types: usize) -> Value {
    let fixed = || any_of([weight(), json!({"const": 0, "description": "The tenant is held."})]);
    let webhook = object([("url", string()), ("timeout?", duration()), ("secret_env?", string())]);
    let weights = object([("static?", map_of(fixed())), ("default_weight?", fixed()), ("webhook?", closed(webhook))]);
    let mut priority = enumeration(&["global", "within_tenant"]);
    priority["description"] = json!(
        "global: jobs of all tenants are promoted by priority, and tenants share the promotions within each priority. \
         within_tenant: priorities order only the jobs of the same tenant."
    );
    let options = object([
        ("types", array_of(json!({"type": "string", "pattern": PATTERN}), fewest_types, 1_000_000)),
        ("name?", rule_name()),
        ("queue?", string()),
        ("enqueue_interval?", duration()),
        ("schedule?", string()),
        ("timezone?", string()),
        ("enqueue_jobs?", any_of([integer(1, 100_000), enumeration(&["auto"])])),
        ("strict_interval?", boolean()),
        ("tenant_key?", json!({"type": "string", "pattern": TENANT_KEY})),
        ("on_missing_tenant?", enumeration(&["reject", "default"])),
        ("priority?", priority),
        ("weights?", closed(weights)),
        ("max_weight_age?", duration()),
        ("on_webhook_error?", enumeration(&["default_weight", "hold"])),
        (
            "on_unknown_weight?",
            with_description(
                enumeration(&["ask", "default_weight"]),
                "The weight of a tenant that the webhook has not returned yet: ask the webhook first, or use the default weight.",
            ),
        ),
        ("latency_threshold?", duration()),
        ("max_depth?", at_least(1)),
        ("target_latency?", duration()),
        ("max_staged?", at_least(1)),
        ("max_blocked?", at_least(1)),
        ("planner_lock_ttl?", duration()),
        ("planner_group?", rule_name()),
        ("restage?", boolean()),
        ("shadow?", boolean()),
        ("main_queue?", string()),
        ("class?", string()),
    ]);
    closed(options)
}

fn round() -> Value {
    object([
        ("rule", string()),
        ("round", nullable(count())),
        ("at?", timestamp()),
        ("outcome", enumeration(&["promoted", "skipped", "lost_lock", "failed", "shadow"])),
        ("reason", nullable(string())),
        ("scheduled?", boolean()),
        ("latency_ms?", count()),
        ("depth?", count()),
        ("batch?", count()),
        ("promoted", count()),
        ("tenants", count()),
        ("served", array(reference("Served"))),
        ("duration_ms?", number()),
        ("weights_source?", string()),
        ("weights_age_ms?", nullable(count())),
        ("weights_errors_total?", count()),
        ("weights_webhook?", nullable(object(webhook()))),
        ("drain_per_s?", number()),
        ("error?", nullable(string())),
    ])
}

/// The state of the weights webhook of a rule at the end of a round.
fn webhook() -> [(&'static str, Value); 5] {
    [
        (
            "failing_since",
            with_description(nullable(timestamp()), "The time of the first failure; null while the webhook works."),
        ),
        ("last_error", with_description(nullable(string()), "The last error, also after the webhook has recovered.")),
        (
            "fallback",
            with_description(
                nullable(enumeration(&["last_weights", "default_weight", "hold"])),
                "The weights in use while the webhook fails: those of its last response, static and default weights, or none.",
            ),
        ),
        (
            "breaker",
            with_description(
                nullable(enumeration(&["closed", "open", "half_open"])),
                "The breaker opens after 5 consecutive failures; the webhook is not called before `next_attempt_at` then.",
            ),
        ),
        ("next_attempt_at", nullable(timestamp())),
    ]
}

fn rule() -> Value {
    let queue = object([
        ("name", string()),
        ("staged", count()),
        ("waiting_tenants", count()),
        (
            "unknown_weights",
            with_description(
                count(),
                "The number of tenants for which the webhook is asked for a weight before their jobs are promoted.",
            ),
        ),
        ("latency_ms", count()),
        ("depth", count()),
        ("active", count()),
        ("processes", any()),
        ("open", boolean()),
        ("reason", nullable(string())),
    ]);
    let main_queue = object([
        ("kind", string()),
        ("main_queue", string()),
        ("name", nullable(string())),
        ("latency_ms", count()),
        ("depth", count()),
        ("active", count()),
        ("drain_per_s", number()),
        ("undelivered", count()),
        ("trouble", nullable(string())),
        ("versions", array(string())),
        ("health", with_description(any(), "The health of the other server, if the main queue is one.")),
        ("queues", array(queue)),
    ]);
    let rounds = object([
        ("total", count()),
        ("promoted_total", count()),
        ("skipped_total", count()),
        ("last_at", nullable(timestamp())),
        ("next_at", nullable(timestamp())),
    ]);
    object([
        ("rule", rule_name()),
        ("types", array(string())),
        ("queue", nullable(string())),
        (
            "state",
            with_description(
                enumeration(&["running", "stalled", "paused", "shadow", "draining"]),
                "`stalled`: jobs are staged, a round is overdue, and no process holds the rule's lock.",
            ),
        ),
        ("source", enumeration(&["file", "api", "removed"])),
        ("options", reference("StoredRuleOptions")),
        ("staged", object([("jobs", count()), ("tenants", count()), ("oldest_age_ms", count())])),
        ("main_queue", main_queue),
        (
            "gate",
            object([
                ("open", boolean()),
                ("reason", nullable(string())),
                ("latency_threshold_ms", count()),
                ("max_depth", count()),
            ]),
        ),
        ("lock", nullable(object([("holder", string()), ("token", any()), ("expires_at", timestamp())]))),
        ("rounds", rounds),
        (
            "weights",
            merge(
                object([("source", string()), ("age_ms", nullable(count())), ("errors_total", count())]),
                object(webhook()),
            ),
        ),
        (
            "fairness",
            object([("jain_index", number()), ("max_deviation_jobs", number()), ("worst_wait_bound_jobs", count())]),
        ),
        ("waste", object([("idle_worker_seconds_total", number())])),
        ("last_rounds", array(reference("Round"))),
        ("shadow", with_description(any(), "The report of a rule in shadow.")),
    ])
}

pub fn list_all() -> Operation {
    operation("List plan rules").paged().page_of::<RulesVersion>(
        &["rules"],
        reference("Rule"),
        "Rules, in the order in which they are matched.",
    )
}

pub fn show() -> Operation {
    operation("Show a plan rule").response(200, "The rule and its state.", reference("Rule"))
}

pub fn put() -> Operation {
    operation("Add a plan rule, or replace all of its options")
        .description("`docs/configuration.md` describes the options and their allowed values.")
        .path_parameter(rule_name())
        .request_body(reference("RuleOptions"))
        .response(200, "The rule was replaced.", reference("Rule"))
        .response(201, "The rule was added.", reference("Rule"))
        .errors(&[409])
}

pub fn remove() -> Operation {
    operation("Remove a plan rule; a rule of that name in the configuration file applies again")
        .answer::<RuleRemoved>(200, "The rule was removed.")
        .errors(&[409])
}

pub fn rounds() -> Operation {
    operation("List the rounds of a rule").paged().page_of::<()>(&[], reference("Round"), "Rounds, newest first.")
}

pub fn tenants() -> Operation {
    operation("List the tenants that have staged jobs of a rule")
        .query("sort", enumeration(&["pending", "oldest", "weight", "name"]), "The sort key.")
        .paged()
        .page_with::<ListedTenant, Truncated>(&[], "Tenants.")
}

pub fn preview() -> Operation {
    operation("Preview the next round")
        .query("jobs", integer(1, 1000), "Preview a round of this number of jobs instead.")
        .answer::<Preview>(200, "The round as it would be. Nothing was promoted.")
}

pub fn shadow() -> Operation {
    let seen = open(object([("rule", string()), ("watcher", nullable(string()))]));
    operation("Show the actual and simulated waits of tenants, for a rule in shadow").response(200, "The waits.", seen)
}

pub fn run() -> Operation {
    operation("Run a round now").response(200, "The round.", reference("Round")).errors(&[409])
}

pub fn pause() -> Operation {
    operation("Pause a plan rule").response(200, "The rule.", reference("Rule"))
}

pub fn resume() -> Operation {
    operation("Resume a plan rule").response(200, "The rule.", reference("Rule"))
}

fn stream(summary: &'static str) -> Operation {
    let description = "The id of the last event that the client received. The stream starts with the rounds after it.";
    operation(summary)
        .header("Last-Event-ID", string(), description)
        .text_response(STREAM, "Server-sent events named `round`; the data of each is a `Round`.")
}

pub fn all_rounds() -> Operation {
    stream("Stream the rounds of all rules")
}

pub fn rounds_of() -> Operation {
    stream("Stream the rounds of a rule")
}
