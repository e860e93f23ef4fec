use super::super::testing::{load, mistakes};
use super::*;
use crate::domain::plan::{Batch, TenantKey};
use crate::domain::tenant::Weight;

const RULE: &str = "[[plan]]\nname = \"a\"\ntypes = [\"x.*\"]\n";

fn rules(text: &str) -> Vec<Rule> {
    load(text, &[]).config.plan
}

#[test]
fn the_reference_and_the_rule_agree_on_every_default() {
    assert_eq!(rules(RULE), [Rule::new("a", &["x.*"])]);
    assert_eq!(rules(""), []);
}

#[test]
fn every_option_can_be_set() {
    let text = r#"
[[plan]]
name = "reports"
types = ["report.*", "invoice"]
queue = "slow"
schedule = "0 9 * * 1-5"
timezone = "Europe/Berlin"
enqueue_jobs = 100
strict_interval = true
tenant_key = "args.0.account_id"
on_missing_tenant = "default"
priority = "within_tenant"
latency_threshold = "30s"
max_depth = 5
target_latency = "1s"
max_staged = 9
max_blocked = 7
planner_lock_ttl = "PT1M"
planner_group = "eu"
restage = false
main_queue = "builtin"
shadow = false
max_weight_age = "1m"
on_webhook_error = "hold"
on_unknown_weight = "default_weight"
[plan.weights]
static = { acme = 3, "b.c" = 0.5, off = 0 }
default_weight = 2
webhook = { url = "http://h/w", timeout = "1s", secret_env = "WEIGHTS" }
"#;
    let config = load(text, &[("WEIGHTS", "hunter2")]).config;
    let weight = |number| Weight::of(number).expect("a weight");
    let fixed = [("acme", 3.0), ("b.c", 0.5), ("off", 0.0)].map(|(id, number)| (id.to_owned(), weight(number)));
    let webhook = Webhook { url: "http://h/w".to_owned(), timeout: 1000, secret_env: Some("WEIGHTS".to_owned()) };
    let expected = Rule {
        queue: Some("slow".to_owned()),
        pace: Pace::Cron { expression: "0 9 * * 1-5".to_owned(), timezone: "Europe/Berlin".to_owned() },
        batch: Batch::Jobs(100),
        strict_interval: true,
        tenant_key: TenantKey::Args(vec!["0".to_owned(), "account_id".to_owned()]),
        on_missing_tenant: crate::domain::plan::OnMissingTenant::Default,
        priority: crate::domain::plan::PriorityScope::WithinTenant,
        latency_threshold: 30_000,
        max_depth: 5,
        target_latency: 1000,
        max_staged: Some(9),
        max_blocked: 7,
        planner_lock_ttl: 60_000,
        planner_group: "eu".to_owned(),
        restage: false,
        weights: Weights {
            fixed: fixed.into(),
            default_weight: weight(2.0),
            webhook: Some(webhook),
            max_weight_age: 60_000,
            on_webhook_error: Some(OnWebhookError::Hold),
            on_unknown_weight: crate::domain::plan::OnUnknownWeight::DefaultWeight,
        },
        ..Rule::new("reports", &["report.*", "invoice"])
    };
    assert_eq!(config.plan, [expected]);
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn rules_inherit_and_their_own_options_win() {
    let text = r#"
[plan_defaults]
max_depth = 5
max_staged = 8
[plan_defaults.weights]
static = { acme = 3 }
default_weight = 2
[[plan]]
name = "a"
types = ["a"]
max_depth = 6
weights = { static = { beta = 4 } }
[[plan]]
name = "b"
types = ["b"]
"#;
    let [a, b] = rules(text).try_into().expect("two rules");
    assert_eq!((a.max_depth, a.max_staged, b.max_depth), (6, Some(8), 5));
    let names = |rule: &Rule| rule.weights.fixed.keys().cloned().collect::<Vec<_>>();
    // A table of tenants is one option: the rule's own table replaces the inherited one.
    assert_eq!((names(&a), names(&b)), (vec!["beta".to_owned()], vec!["acme".to_owned()]));
    assert_eq!((a.own_weight("x", None), a.weights.max_weight_age), (Weight::from_thousandths(2000), 300_000));
    let from_env = load(RULE, &[("FAIRGATE_PLAN_DEFAULTS__MAX_DEPTH", "3"), ("FAIRGATE_PLAN__0__QUEUE", "q")]);
    assert_eq!((from_env.config.plan[0].max_depth, from_env.config.plan[0].queue.as_deref()), (3, Some("q")));
}

#[test]
fn a_pace_in_the_defaults_does_not_disturb_the_other_in_a_rule() {
    let pace = |defaults: &str, own: &str| rules(&format!("[plan_defaults]\n{defaults}\n{RULE}{own}")).remove(0).pace;
    let daily = |timezone: &str| Pace::Cron { expression: "@daily".to_owned(), timezone: timezone.to_owned() };
    assert_eq!(pace("enqueue_interval = \"2s\"", "schedule = \"@daily\""), daily("UTC"));
    assert_eq!(pace("schedule = \"@daily\"", "enqueue_interval = \"2s\""), Pace::Every(2000));
    assert_eq!(pace("schedule = \"@daily\"", ""), daily("UTC"));
    assert_eq!(pace("timezone = \"Asia/Tokyo\"", "schedule = \"@daily\""), daily("Asia/Tokyo"));
    assert_eq!(pace("timezone = \"Asia/Tokyo\"", ""), Pace::Every(1000));
    let both = "schedule = \"@daily\"\nenqueue_interval = \"2s\"\n";
    for text in [format!("[plan_defaults]\n{both}{RULE}"), format!("{RULE}{both}")] {
        let said = mistakes(&text, &[]);
        assert!(said.contains("enqueue_interval and schedule are both set"), "{said}");
        assert!(said.ends_with("1 error in fairgate.toml"), "{said}");
    }
    let said = mistakes(&format!("{RULE}timezone = \"UTC\""), &[]);
    assert!(said.contains("plan[0].timezone: timezone requires a schedule, and this rule has none"), "{said}");
}

#[test]
fn each_option_is_checked() {
    for (setting, part) in [
        ("queue = \"No\"", "queue: expected 1 to 128 characters"),
        ("enqueue_interval = \"9ms\"", "enqueue_interval: expected a duration of at least 10ms, found \"9ms\""),
        ("enqueue_interval = 5", "a duration needs a unit: \"5s\" are seconds"),
        ("schedule = \"61 * * * *\"", "\"61\" is not a valid minute; expected 0 to 59"),
        ("schedule = \"@daily\"\ntimezone = \"Europe/Berln\"", "did you mean \"Europe/Berlin\"?"),
        ("enqueue_jobs = 0", "expected a whole number from 1 to 100000, or \"auto\", found 0"),
        ("strict_interval = \"yes\"", "strict_interval: expected true or false"),
        ("tenant_key = \"tenant_id\"", "did you mean \"meta.tenant_id\"?"),
        ("on_missing_tenant = \"rejct\"", "did you mean \"reject\"?"),
        ("priority = \"tenant\"", "expected one of global, within_tenant"),
        ("latency_threshold = \"0s\"", "latency_threshold: expected a duration of at least 1ms"),
        ("max_depth = 0", "max_depth: expected a whole number of at least 1"),
        ("max_staged = 0", "max_staged: expected a whole number of at least 1"),
        ("max_blocked = -1", "max_blocked: expected a whole number"),
        ("planner_lock_ttl = \"999ms\"", "planner_lock_ttl: expected a duration of at least 1s"),
        ("planner_group = \"\"", "planner_group: expected 1 to 63 lower-case"),
        (
            "main_queue = \"legacy\"",
            "main_queue: expected \"builtin\" or the name of a [[main_queue]], found \"legacy\"",
        ),
        ("on_webhook_error = \"stop\"", "expected one of default_weight, hold"),
        ("on_unknown_weight = \"wait\"", "expected one of ask, default_weight"),
        ("max_weight_age = \"old\"", "max_weight_age: expected a duration"),
        ("weights = { static = { a = 0.01 } }", "weights.static.a: expected a number from 0.05 to 1000"),
        ("weights = { default = 1 }", "did you mean \"default_weight\"?"),
        ("weights = { webhook = {} }", "weights.webhook.url: expected a value, found none"),
        ("weights = { webhook = { url = \"http://h\", timeout = \"61s\" } }", "of at least 10ms and at most 1m"),
        ("weights = { webhook = { url = \"http://h\", secret_env = \"NO\" } }", "secret_env: expected the name of an"),
    ] {
        let said = mistakes(&format!("{RULE}{setting}"), &[]);
        assert!(said.contains(part) && said.ends_with("1 error in fairgate.toml"), "{setting}\n{said}");
        // An error in the defaults is reported at its own place, and once.
        let said = mistakes(&format!("[plan_defaults]\n{setting}\n{RULE}"), &[]);
        assert!(said.contains(part) && said.ends_with("1 error in fairgate.toml"), "{setting}\n{said}");
        assert!(said.starts_with("error: plan_defaults."), "{said}");
    }
}

#[test]
fn names_and_types_are_checked() {
    for (text, part) in [
        ("[[plan]]\ntypes = [\"x\"]", "plan[0].name: expected a value, found none"),
        ("[[plan]]\nname = \"a\"", "plan[0].types: expected a value, found none"),
        ("[[plan]]\nname = \"a\"\ntypes = []", "plan[0].types: expected at least one type, found none"),
        ("[[plan]]\nname = \"a\"\ntypes = [\"x\", \"X\"]", "plan[0].types[1]: expected a job type"),
        ("[[plan]]\nname = \"A\"\ntypes = [\"x\"]", "plan[0].name: expected 1 to 63 lower-case letters"),
        ("[[plan]]\nname = \"events\"\ntypes = [\"x\"]", "another name, because this one is reserved"),
        ("[plan]\nname = \"a\"", "plan: expected a list of tables, found a table"),
        ("[plan_defaults]\ntypes = [\"x\"]", "unknown key \"types\" in [plan_defaults]"),
    ] {
        let said = mistakes(text, &[]);
        assert!(said.contains(part) && said.ends_with("1 error in fairgate.toml"), "{text}\n{said}");
    }
    let said = mistakes(&format!("{RULE}{RULE}"), &[]);
    assert!(said.contains("plan[1].name: expected a name that no other rule has, found \"a\""), "{said}");
}
