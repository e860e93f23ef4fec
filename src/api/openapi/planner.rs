//! The planner: rules, rounds, tenants, previews.

use super::Shapes;
use super::events::STREAM;
use super::operation::{Operation, op};
use super::pools::weight;
use super::schema::*;
use serde_json::{Value, json};

/// Where a job names its tenant.
const TENANT_KEY: &str = "^(meta([.][^.]+)+|args[.][0-9]+([.][^.]+)*|header:[a-zA-Z0-9_-]+|api_key)$";
/// A job type, a Ruby class, or a glob of either.
const PATTERN: &str = "^([a-z][a-z0-9_-]*([.][a-z][a-z0-9_-]*)*|[a-z0-9_.-]*[*][a-z0-9_.*-]*|[A-Z][A-Za-z0-9_:]*|[A-Za-z0-9_:]*[*][A-Za-z0-9_:*]*)$";

pub fn shapes() -> Shapes {
    vec![("Rule", rule()), ("RuleOptions", options()), ("Round", round()), ("Served", served())]
}

/// The options of `[[plan]]`. What is left out comes from the defaults; `null` is refused.
fn options() -> Value {
    let fixed = || either([weight(), json!({"const": 0, "description": "The tenant is held."})]);
    let webhook = object([("url", text()), ("timeout?", duration()), ("secret_env?", text())]);
    let weights = object([("static?", map(fixed())), ("default_weight?", fixed()), ("webhook?", closed(webhook))]);
    let mut priority = one_of(&["global", "within_tenant"]);
    priority["description"] = json!(
        "global: staged jobs go by priority across all tenants, which share what goes of each priority. \
         within_tenant: priorities order only each tenant's own jobs."
    );
    let options = object([
        ("types", list_of(json!({"type": "string", "pattern": PATTERN}), 1, 1_000_000)),
        ("name?", rule_name()),
        ("queue?", text()),
        ("enqueue_interval?", duration()),
        ("schedule?", text()),
        ("timezone?", text()),
        ("enqueue_jobs?", either([integer(1, 100_000), one_of(&["auto"])])),
        ("strict_interval?", flag()),
        ("tenant_key?", json!({"type": "string", "pattern": TENANT_KEY})),
        ("on_missing_tenant?", one_of(&["reject", "default"])),
        ("priority?", priority),
        ("weights?", closed(weights)),
        ("max_weight_age?", duration()),
        ("on_webhook_error?", one_of(&["default_weight", "hold"])),
        (
            "on_unknown_weight?",
            described(
                one_of(&["ask", "default_weight"]),
                "A tenant that the webhook has not weighed yet: ask first, or serve it by the default weight.",
            ),
        ),
        ("latency_threshold?", duration()),
        ("max_depth?", at_least(1)),
        ("target_latency?", duration()),
        ("max_staged?", at_least(1)),
        ("max_blocked?", at_least(1)),
        ("planner_lock_ttl?", duration()),
        ("planner_group?", rule_name()),
        ("restage?", flag()),
        ("shadow?", flag()),
        ("main_queue?", text()),
        ("class?", text()),
    ]);
    closed(options)
}

fn served() -> Value {
    object([("tenant_id", text()), ("jobs", count()), ("weight", number())])
}

fn round() -> Value {
    object([
        ("rule", text()),
        ("round", or_null(count())),
        ("at?", time()),
        ("outcome", one_of(&["promoted", "skipped", "lost_lock", "failed", "shadow"])),
        ("reason", or_null(text())),
        ("scheduled?", flag()),
        ("latency_ms?", count()),
        ("depth?", count()),
        ("batch?", count()),
        ("promoted", count()),
        ("tenants", count()),
        ("served", list(refer("Served"))),
        ("duration_ms?", number()),
        ("weights_source?", text()),
        ("weights_age_ms?", or_null(count())),
        ("weights_errors_total?", count()),
        ("weights_webhook?", or_null(object(webhook()))),
        ("drain_per_s?", number()),
        ("error?", or_null(text())),
    ])
}

/// A rule's weights webhook at the end of a round.
fn webhook() -> [(&'static str, Value); 5] {
    [
        ("failing_since", described(or_null(time()), "When it began to fail; null while it works.")),
        ("last_error", described(or_null(text()), "Stays after the webhook has recovered.")),
        (
            "fallback",
            described(
                or_null(one_of(&["last_weights", "default_weight", "hold"])),
                "The weights in use while it fails: those of its last answer, static and default weights, or none.",
            ),
        ),
        (
            "breaker",
            described(
                or_null(one_of(&["closed", "open", "half_open"])),
                "After 5 failures in a row it is open, and the webhook is not called before next_attempt_at.",
            ),
        ),
        ("next_attempt_at", or_null(time())),
    ]
}

fn rule() -> Value {
    let queue = object([
        ("name", text()),
        ("staged", count()),
        ("waiting_tenants", count()),
        ("unknown_weights", described(count(), "Tenants that the webhook is asked about before they are served.")),
        ("latency_ms", count()),
        ("depth", count()),
        ("active", count()),
        ("processes", any()),
        ("open", flag()),
        ("reason", or_null(text())),
    ]);
    let main_queue = object([
        ("kind", text()),
        ("main_queue", text()),
        ("name", or_null(text())),
        ("latency_ms", count()),
        ("depth", count()),
        ("active", count()),
        ("drain_per_s", number()),
        ("undelivered", count()),
        ("trouble", or_null(text())),
        ("versions", list(text())),
        ("health", described(any(), "What is known of another server, where the main queue is one.")),
        ("queues", list(queue)),
    ]);
    let rounds = object([
        ("total", count()),
        ("promoted_total", count()),
        ("skipped_total", count()),
        ("last_at", or_null(time())),
        ("next_at", or_null(time())),
    ]);
    object([
        ("rule", rule_name()),
        ("types", list(text())),
        ("queue", or_null(text())),
        (
            "state",
            described(
                one_of(&["running", "stalled", "paused", "shadow", "draining"]),
                "`stalled`: jobs are staged, a round is overdue, and no process holds the rule's lock.",
            ),
        ),
        ("source", one_of(&["file", "api", "removed"])),
        ("options", refer("RuleOptions")),
        ("staged", object([("jobs", count()), ("tenants", count()), ("oldest_age_ms", count())])),
        ("main_queue", main_queue),
        (
            "gate",
            object([
                ("open", flag()),
                ("reason", or_null(text())),
                ("latency_threshold_ms", count()),
                ("max_depth", count()),
            ]),
        ),
        ("lock", or_null(object([("holder", text()), ("token", any()), ("expires_at", time())]))),
        ("rounds", rounds),
        (
            "weights",
            with(
                object([("source", text()), ("age_ms", or_null(count())), ("errors_total", count())]),
                object(webhook()),
            ),
        ),
        (
            "fairness",
            object([("jain_index", number()), ("max_deviation_jobs", number()), ("worst_wait_bound_jobs", count())]),
        ),
        ("waste", object([("idle_worker_seconds_total", number())])),
        ("last_rounds", list(refer("Round"))),
        ("shadow", described(any(), "What a rule in shadow has seen.")),
    ])
}

pub fn list_all() -> Operation {
    let answer = with(page_of(&["rules"], refer("Rule")), object([("version", text())]));
    op("All plan rules").paged().gives(200, "Rules, in their order.", answer)
}

pub fn show() -> Operation {
    op("Show a plan rule").gives(200, "The rule, and all that is known of it.", refer("Rule"))
}

pub fn put() -> Operation {
    op("Add a plan rule, or replace it as a whole")
        .about("`docs/configuration.md` has every option with its meaning and its bounds.")
        .variable(rule_name())
        .takes(refer("RuleOptions"))
        .gives(200, "It is replaced.", refer("Rule"))
        .gives(201, "It is added.", refer("Rule"))
        .fails(&[409])
}

pub fn remove() -> Operation {
    let answer =
        object([("rule", text()), ("removed", flag()), ("holds", or_null(text())), ("draining_jobs", count())]);
    op("Remove a plan rule: the file's is back, if there is one").gives(200, "It is gone.", answer).fails(&[409])
}

pub fn rounds() -> Operation {
    op("Rounds of a rule").paged().gives(200, "The newest first.", page_of(&[], refer("Round")))
}

pub fn tenants() -> Operation {
    let tenant = object([
        ("tenant_id", text()),
        ("queue", text()),
        ("pending", count()),
        ("oldest_age_ms", or_null(count())),
        ("weight", number()),
        ("held", flag()),
        ("awaits_weight", described(flag(), "The webhook is asked about the tenant before it is served.")),
        ("weight_age_ms", or_null(count())),
        ("promoted_total", count()),
        ("share", ratio()),
        ("expected_share", ratio()),
        ("wait_bound_jobs", or_null(count())),
    ]);
    let answer = with(page_of(&[], tenant), object([("truncated", flag())]));
    op("Tenants of a rule that have jobs staged")
        .query("sort", one_of(&["pending", "oldest", "weight", "name"]), "What they are sorted by.")
        .paged()
        .gives(200, "Tenants.", answer)
}

pub fn preview() -> Operation {
    let gate = || object([("open", flag()), ("reason", or_null(text())), ("latency_threshold_ms?", count())]);
    let tenants = || list(refer("Served"));
    let queue = object([
        ("name", text()),
        ("batch", count()),
        ("gate", gate()),
        ("tenants", tenants()),
        ("order", list(text())),
    ]);
    let answer = object([
        ("rule", text()),
        ("gate", gate()),
        ("batch", count()),
        ("tenants", tenants()),
        ("order", list(text())),
        ("truncated", flag()),
        ("queues", list(queue)),
        ("why", text()),
    ]);
    op("What the next round would do").query("jobs", integer(1, 1000), "A round of so many jobs in its place.").gives(
        200,
        "Nothing was done.",
        answer,
    )
}

pub fn shadow() -> Operation {
    let seen = open(object([("rule", text()), ("watcher", or_null(text()))]));
    op("The waits that tenants have and would have, of a rule in shadow").gives(200, "What was seen.", seen)
}

pub fn run() -> Operation {
    op("Run a round now").gives(200, "What it did.", refer("Round")).fails(&[409])
}

pub fn pause() -> Operation {
    op("Pause a plan rule").gives(200, "The rule.", refer("Rule"))
}

pub fn resume() -> Operation {
    op("Let a paused plan rule run again").gives(200, "The rule.", refer("Rule"))
}

fn stream(summary: &'static str) -> Operation {
    let about = "The round that was seen last: those after it come first.";
    op(summary).header("Last-Event-ID", text(), about).gives_text(STREAM, "Events named `round`, each with a `Round`.")
}

pub fn all_rounds() -> Operation {
    stream("Rounds of all rules, as they happen")
}

pub fn rounds_of() -> Operation {
    stream("Rounds of a rule, as they happen")
}
