//! Plan rules: each `[[plan]]` becomes a [`Rule`], completed from `[plan_defaults]`.
//!
//! Rules from files and from requests are read in the same way: the table is completed from the
//! defaults (`defaults`), then all options are read and checked here.

mod defaults;
mod request;
mod values;

use std::time::Duration;

use self::values::PlannedType;
use super::convert::{Label, Refused};
use super::main_queue::{KnownMainQueue, System};
use super::reader::SettingsReader;
use super::report::nearest;
use super::tree::Origin;
use crate::domain::cron::{self, Cron};
use crate::domain::job::sidekiq;
use crate::domain::names;
use crate::domain::plan::{BUILTIN, OnWebhookError, Pace, Rule, Webhook, Weights};

pub use defaults::PlanDefaults;
pub use request::plan_from_json;
pub(super) use values::{TypePattern, WebhookUrl};

/// A rule cannot have this name, because a path of the API uses it.
const RESERVED: &str = "events";

/// Shortest interval. A round itself takes several calls to Redis.
pub(super) const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// Shortest lifetime of a planner lock. A shorter one could not be renewed in time.
const SHORTEST_LOCK: Duration = Duration::from_secs(1);

const INSTANT: Duration = Duration::from_millis(1);

/// The environment that a rule is checked against.
#[derive(Clone, Copy)]
pub struct RuleContext<'a> {
    /// Returns true if an environment variable is set and not empty.
    pub is_set: &'a dyn Fn(&str) -> bool,
    /// Main queues of other systems. `None` accepts any name.
    pub main_queues: Option<&'a [KnownMainQueue]>,
    /// True if workers' requests are passed on to another server, so that no worker reads
    /// fairgate's own queues.
    pub passes_through: bool,
}

impl RuleContext<'_> {
    /// Accepts all references, for rules that were checked when they were written.
    pub const ANY: RuleContext<'static> = RuleContext { is_set: &|_| true, main_queues: None, passes_through: false };

    fn main_queue(&self, name: &str) -> Option<&KnownMainQueue> {
        self.main_queues?.iter().find(|known| known.name == name)
    }

    /// Returns the kind of a main queue's system.
    fn system(&self, main_queue: &str) -> Option<System> {
        self.main_queue(main_queue)?.system
    }

    /// Returns the check for queue names of a main queue, with the text for its error message.
    fn queue_names(&self, main_queue: &str) -> (&'static str, fn(&str) -> bool) {
        // If the system is unknown, the rule was checked when it was written. Sidekiq's names are
        // the superset.
        match self.system(main_queue) {
            Some(System::Sidekiq) => (sidekiq::NAME_EXPECTED, sidekiq::is_name),
            None if main_queue != BUILTIN => (sidekiq::NAME_EXPECTED, sidekiq::is_name),
            _ => (names::QUEUE_EXPECTED, names::is_queue),
        }
    }
}

/// Reads all `[[plan]]` tables, which are already completed from the defaults.
pub(super) fn read_rules(root: &mut SettingsReader<'_>, scope: RuleContext<'_>) -> Vec<Rule> {
    let mut names: Vec<String> = Vec::new();
    root.each("plan", |reader| {
        let rule = read_rule(reader, scope);
        if reader.is_sound(&["name"]) && names.contains(&rule.name) {
            reader.refuse("name", Refused::new("a name that no other rule has"));
        }
        names.push(rule.name.clone());
        rule
    })
}

/// Reads one rule.
fn read_rule(reader: &mut SettingsReader<'_>, scope: RuleContext<'_>) -> Rule {
    let Label(name) = reader.get("name");
    if name == RESERVED {
        reader.refuse("name", Refused::new("another name, because this one is reserved"));
    }
    let types: Vec<PlannedType> = reader.list("types");
    if reader.is_sound(&["types"]) && types.is_empty() {
        reader.conflict(
            &["types"],
            "expected at least one type, found none",
            Some("types = [\"*\"] matches all types"),
        );
    }
    let types: Vec<String> = types.into_iter().map(|PlannedType(pattern)| pattern).collect();
    let class = reader.find_such("class", sidekiq::CLASS_EXPECTED, |class: &String| sidekiq::is_class(class));
    let rule = read_options(reader, Rule { name, types, class, ..Rule::new("", &[]) }, scope);
    if reader.origin("timezone").is_some() && reader.origin("schedule").is_none() {
        reader.conflict(&["timezone"], "timezone requires a schedule, and this rule has none", Some("remove it"));
    }
    if reader.is_sound(&["types", "main_queue", "class"]) {
        check_classes(reader, &rule, scope.system(&rule.main_queue));
    }
    if reader.is_sound(&["queue", "main_queue"]) {
        check_staging_queue(reader, &rule, scope);
    }
    if scope.passes_through && rule.is_builtin() && reader.is_sound(&["main_queue"]) {
        let message = "server.pass_through sends workers to another server, so no worker reads fairgate's own queues";
        reader.conflict(&["main_queue", "name"], message, Some("set main_queue to the name of a [[main_queue]]"));
    }
    rule
}

/// Refuses a rule that promotes into the queue from which its jobs are imported, because no worker
/// reads that queue.
fn check_staging_queue(reader: &mut SettingsReader<'_>, rule: &Rule, scope: RuleContext<'_>) {
    let staging_queue = scope.main_queue(&rule.main_queue).and_then(|known| known.staging_queue.as_ref());
    if rule.queue.is_some() && staging_queue == rule.queue.as_ref() {
        let message = format!(
            "expected a queue that workers read, found the staging_queue of main queue \"{}\"",
            rule.main_queue
        );
        let help = "jobs in staging_queue are staged and promoted into queue; use two different queues";
        reader.conflict(&["queue"], message, Some(help));
    }
}

/// Checks that classes and types suit the kind of main queue.
fn check_classes(reader: &mut SettingsReader<'_>, rule: &Rule, system: Option<System>) {
    if rule.is_builtin() || system == Some(System::Ojs) {
        for (index, _) in rule.types.iter().enumerate().filter(|(_, pattern)| sidekiq::is_class_pattern(pattern)) {
            let help = "a Ruby class needs a main_queue of kind sidekiq";
            reader.refuse_item("types", index, Refused::new(values::TYPE_EXPECTED).help(help));
        }
        if rule.class.is_some() {
            let help = "set main_queue to the name of one";
            reader.conflict(&["class"], "class requires a main queue of kind sidekiq", Some(help));
        }
    } else if system == Some(System::Sidekiq)
        && rule.class.is_none()
        && rule.types.iter().all(|pattern| names::is_type(pattern))
    {
        let help = "set class to the Ruby class that runs them, such as class = \"HeavyJob\"";
        reader.conflict(&["main_queue"], "jobs of these types are enqueued over HTTP and need a class", Some(help));
    }
    check_shadow(reader, rule, system);
}

/// Checks that a shadow rule has a queue to watch.
fn check_shadow(reader: &mut SettingsReader<'_>, rule: &Rule, system: Option<System>) {
    if !rule.shadow || !reader.is_sound(&["shadow", "queue"]) {
        return;
    }
    if rule.is_builtin() || system == Some(System::Ojs) {
        let message = "shadow requires a main queue of kind sidekiq";
        reader.conflict(&["shadow"], message, Some("set main_queue to the name of one, or remove shadow"));
    } else if rule.queue.is_none() {
        let message = "shadow requires a queue to watch";
        reader.conflict(
            &["shadow"],
            message,
            Some("set queue to the queue that the rule would promote into, such as queue = \"heavy\""),
        );
    }
}

/// Reads the name of a main queue and checks that it exists.
fn read_main_queue(reader: &mut SettingsReader<'_>, scope: RuleContext<'_>) -> String {
    let name: String = reader.get("main_queue");
    if name == BUILTIN || !reader.is_sound(&["main_queue"]) {
        return name;
    }
    match scope.main_queues {
        Some(known) if !known.iter().any(|known| known.name == name) => {
            let names = known.iter().map(|known| known.name.as_str()).chain([BUILTIN]);
            let refused = Refused::new("\"builtin\" or the name of a [[main_queue]]");
            reader.refuse(
                "main_queue",
                match nearest(&name, names) {
                    Some(meant) => refused.help(format!("did you mean \"{meant}\"?")),
                    None => refused,
                },
            );
        }
        _ => {}
    }
    name
}

/// Reads the options that `[plan_defaults]` may set too.
fn read_options(reader: &mut SettingsReader<'_>, base: Rule, scope: RuleContext<'_>) -> Rule {
    let ms = |time: Duration| time.as_millis() as u64;
    let main_queue = read_main_queue(reader, scope);
    let (expected, is_queue) = scope.queue_names(&main_queue);
    let queue = reader.find_such("queue", expected, |queue: &String| is_queue(queue));
    Rule {
        queue,
        pace: read_pace(reader),
        batch: reader.find("enqueue_jobs").unwrap_or(base.batch),
        strict_interval: reader.get("strict_interval"),
        tenant_key: reader.find("tenant_key").unwrap_or(base.tenant_key),
        on_missing_tenant: reader.find("on_missing_tenant").unwrap_or(base.on_missing_tenant),
        priority: reader.find("priority").unwrap_or(base.priority),
        latency_threshold: ms(reader.get_in("latency_threshold", INSTANT..)),
        max_depth: reader.get_in("max_depth", 1..),
        target_latency: ms(reader.get_in("target_latency", INSTANT..)),
        max_staged: reader.find_in("max_staged", 1..),
        max_blocked: reader.get_in("max_blocked", 1..),
        planner_lock_ttl: ms(reader.get_in("planner_lock_ttl", SHORTEST_LOCK..)),
        planner_group: reader.get::<Label>("planner_group").0,
        restage: reader.get("restage"),
        main_queue,
        shadow: reader.get("shadow"),
        weights: read_weights(reader, scope),
        ..base
    }
}

fn read_pace(reader: &mut SettingsReader<'_>) -> Pace {
    let interval: Option<Duration> = reader.find_in("enqueue_interval", SHORTEST_INTERVAL..);
    let expression: Option<String> = reader.find("schedule");
    let timezone: Option<String> = reader.find("timezone");
    if let Some(Err(reason)) = expression.as_deref().map(|expression| Cron::parse(expression, "UTC")) {
        reader.refuse("schedule", Refused::new("a cron expression such as \"*/5 * * * *\"").help(reason));
    }
    if let Some(Err(reason)) = timezone.as_deref().map(cron::check_timezone) {
        reader.refuse("timezone", Refused::new(cron::TIMEZONE_EXPECTED).help(reason));
    }
    // Compares the keys, so that values that do not parse conflict as well.
    let both = [reader.origin("schedule"), reader.origin("enqueue_interval")];
    if both.iter().all(|origin| origin.is_some_and(|origin| *origin != Origin::Default)) {
        let message = "enqueue_interval and schedule are both set";
        reader.conflict(&["schedule", "enqueue_interval"], message, Some("keep one of the two"));
    }
    match expression {
        Some(expression) => Pace::Cron { expression, timezone: timezone.unwrap_or_else(|| "UTC".to_owned()) },
        None => Pace::Every(interval.unwrap_or(SHORTEST_INTERVAL).as_millis() as u64),
    }
}

fn read_weights(reader: &mut SettingsReader<'_>, scope: RuleContext<'_>) -> Weights {
    let max_weight_age: Duration = reader.get("max_weight_age");
    // The default is stored as `None`, so that equivalent rules are equal.
    let on_webhook_error = reader.find("on_webhook_error").filter(|choice| *choice != OnWebhookError::DefaultWeight);
    let on_unknown_weight = reader.find("on_unknown_weight").unwrap_or_default();
    reader.section("weights", |reader| Weights {
        fixed: reader.map("static"),
        default_weight: reader.get("default_weight"),
        webhook: reader.find_section("webhook", |reader| read_webhook(reader, scope)),
        max_weight_age: max_weight_age.as_millis() as u64,
        on_webhook_error,
        on_unknown_weight,
    })
}

fn read_webhook(reader: &mut SettingsReader<'_>, scope: RuleContext<'_>) -> Webhook {
    let timeouts = Duration::from_millis(10)..=Duration::from_secs(60);
    let WebhookUrl(url) = reader.get("url");
    let timeout = reader.find_in("timeout", timeouts).unwrap_or(Duration::from_secs(2));
    let secret_env = reader.find_such(
        "secret_env",
        "the name of an environment variable that is set and not empty",
        |name: &String| (scope.is_set)(name),
    );
    Webhook { url, timeout: timeout.as_millis() as u64, secret_env }
}

#[cfg(test)]
mod tests;
