//! Plan rules in the bodies of requests, read and checked like those of the file.

use super::{PlanDefaults, RuleContext, read_rule};
use crate::config::convert::Refused;
use crate::config::env::from_json;
use crate::config::problem::Problem;
use crate::config::reader::SettingsReader;
use crate::config::report::Findings;
use crate::config::tree::{Kind, Origin, Value};
use crate::domain::plan::Rule;

/// Reads a rule with the given name, completed from the defaults. Returns all errors, each with the
/// path of its key in the body.
///
/// The body has the options of `[[plan]]`, as printed by [`Rule::to_json`]; `name` is optional.
pub fn plan_from_json(
    name: &str,
    json: serde_json::Value,
    defaults: &PlanDefaults,
    scope: RuleContext<'_>,
) -> Result<Rule, Vec<Problem>> {
    let body = from_json(json, &Origin::Request);
    let Kind::Table(mut table) = body.kind else {
        let message = format!("expected an object with the options of a rule, found {}", body.found());
        return Err(vec![Problem::at(&body, String::new(), message, None)]);
    };
    let given = || Value::new(Kind::Text(name.to_owned()), Origin::Request);
    table.entry("name".to_owned()).or_insert_with(given);
    defaults.complete(&mut table);

    let mut report = Findings::default();
    let rule = SettingsReader::root(&table, &mut report, |reader| {
        let rule = read_rule(reader, scope);
        if reader.is_sound(&["name"]) && rule.name != name {
            let help = "leave it out: the name of a rule cannot change";
            reader.refuse("name", Refused::new(format!("\"{name}\" as in the path")).help(help));
        }
        rule
    });
    match report.finish().0 {
        problems if problems.is_empty() => Ok(rule),
        problems => Err(problems),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::load;
    use super::super::{KnownMainQueue, System};
    use super::*;
    use crate::domain::plan::{
        Batch, OnMissingTenant, OnUnknownWeight, OnWebhookError, Pace, PriorityScope, TenantKey, Webhook,
    };
    use crate::domain::tenant::Weight;
    use proptest::option::of;
    use proptest::prelude::*;
    use serde_json::json;

    fn read(name: &str, json: serde_json::Value, file: &str) -> Result<Rule, Vec<String>> {
        let defaults = load(file, &[]).config.plan_defaults;
        let show = |problem: Problem| {
            let help = problem.help.map(|help| format!(" ({help})")).unwrap_or_default();
            format!("{}: {}{help}", problem.path, problem.message)
        };
        plan_from_json(
            name,
            json,
            &defaults,
            RuleContext {
                is_set: &|name| name == "SET",
                main_queues: Some(&[KnownMainQueue {
                    name: "legacy".to_owned(),
                    system: Some(System::Sidekiq),
                    staging_queue: Some("stage".to_owned()),
                }]),
                passes_through: false,
            },
        )
        .map_err(|problems| problems.into_iter().map(show).collect())
    }

    #[test]
    fn what_is_left_out_comes_from_the_defaults() {
        assert_eq!(read("a", json!({"types": ["x.*"]}), ""), Ok(Rule::new("a", &["x.*"])));
        let file = "[plan_defaults]\nmax_depth = 5\nschedule = \"@daily\"\ntimezone = \"Europe/Berlin\"\n";
        let rule = read("a", json!({"name": "a", "types": ["x"]}), file).expect("it is fine");
        let pace = Pace::Cron { expression: "@daily".to_owned(), timezone: "Europe/Berlin".to_owned() };
        assert_eq!((rule.max_depth, rule.pace), (5, pace));
        let rule = read("a", json!({"types": ["x"], "enqueue_interval": "2s"}), file).expect("it is fine");
        assert_eq!(rule.pace, Pace::Every(2000));
    }

    #[test]
    fn every_mistake_is_told_with_its_path() {
        let json = json!({
            "name": "b",
            "types": ["ok", "Not Ok"],
            "max_depht": 3,
            "max_depth": null,
            "enqueue_interval": "1s",
            "schedule": "* * *",
            "weights": {"static": {"acme": "3"}, "webhook": {"url": "ftp://h", "secret_env": "UNSET"}},
        });
        let expected = [
            "types[1]: expected a job type such as email.send, or a glob such as email.*, found \"Not Ok\"",
            "schedule: expected a cron expression such as \"*/5 * * * *\", found \"* * *\" (it has 3 fields; expected five",
            "schedule: enqueue_interval and schedule are both set (keep one of the two)",
            "max_depth: expected a whole number, found null (leave the key out instead)",
            "weights.static.acme: expected a number from 0.05 to 1000, or 0 to hold a tenant, found \"3\" (remove the",
            "weights.webhook.url: expected a URL such as http://127.0.0.1:9000/weights, found \"ftp://h\" (it must start",
            "weights.webhook.secret_env: expected the name of an environment variable that is set and not empty, found",
            "name: expected \"a\" as in the path, found \"b\" (leave it out: the name of a rule cannot change)",
            "max_depht: unknown key \"max_depht\" in the request (did you mean \"max_depth\"?)",
        ];
        let problems = read("a", json, "").expect_err("it has errors");
        assert_eq!(problems.len(), expected.len(), "{problems:#?}");
        for (problem, expected) in problems.iter().zip(expected) {
            assert!(problem.starts_with(expected), "{problem}\n{expected}");
        }
    }

    #[test]
    fn a_body_must_be_an_object_and_a_name_a_name() {
        let refused = |name, json| read(name, json, "").expect_err("it is wrong").join("\n");
        assert_eq!(refused("a", json!([1])), ": expected an object with the options of a rule, found a list");
        assert!(refused("A b", json!({"types": ["x"]})).starts_with("name: expected 1 to 63 lower-case letters"));
        assert!(refused("events", json!({"types": ["x"]})).contains("reserved"));
        assert_eq!(refused("a", json!({})), "types: expected a value, found none");
    }

    prop_compose! {
        fn weights()(
            fixed in prop::collection::btree_map("[a-zA-Z0-9._ ü-]{1,8}", 0..1_000_000_u32, 0..4),
            default_weight in 0..1_000_000_u32,
            webhook in of((10..60_000_u64, of(Just("SET".to_owned())))),
            max_weight_age in 0..10_000_000_u64,
            [hold, ask] in prop::array::uniform2(any::<bool>()),
        ) -> crate::domain::plan::Weights {
            crate::domain::plan::Weights {
                fixed: fixed.into_iter().map(|(tenant, weight)| (tenant, Weight::from_thousandths(weight))).collect(),
                default_weight: Weight::from_thousandths(default_weight),
                webhook: webhook.map(|(timeout, secret_env)| {
                    Webhook { url: "https://h/w".to_owned(), timeout, secret_env }
                }),
                max_weight_age,
                on_webhook_error: hold.then_some(OnWebhookError::Hold),
                on_unknown_weight: if ask { OnUnknownWeight::Ask } else { OnUnknownWeight::DefaultWeight },
            }
        }
    }

    prop_compose! {
        fn rule()(
            types in prop::collection::vec("[a-z]{1,5}(\\.[a-z*]{1,5})?", 1..4),
            queue in of("[a-z0-9][a-z.-]{0,5}"),
            pace in prop_oneof![
                (10..100_000_u64).prop_map(Pace::Every),
                Just(Pace::Cron { expression: "0 9 * * 1-5".to_owned(), timezone: "Europe/Berlin".to_owned() }),
            ],
            batch in prop_oneof![Just(Batch::Auto), (1..=100_000_u32).prop_map(Batch::Jobs)],
            tenant_key in prop_oneof!["meta\\.[a-z_]{1,5}", "args\\.[0-9]\\.[a-z]{1,5}", "header:[a-z-]{1,5}", "api_key"],
            on_missing_tenant in prop_oneof![Just(OnMissingTenant::Reject), Just(OnMissingTenant::Default)],
            priority in prop_oneof![Just(PriorityScope::Global), Just(PriorityScope::WithinTenant)],
            weights in weights(),
            [latency_threshold, max_depth, target_latency, max_blocked] in prop::array::uniform4(1..u64::from(u32::MAX)),
            max_staged in of(1..u64::MAX),
            planner_lock_ttl in 1000..100_000_u64,
            planner_group in "[a-z0-9][a-z-]{0,5}",
            [strict_interval, restage, shadow, is_foreign] in prop::array::uniform4(any::<bool>()),
        ) -> Rule {
            let tenant_key = TenantKey::parse(&tenant_key).expect("a tenant key");
            let main_queue = if is_foreign { "legacy" } else { "builtin" }.to_owned();
            let (class, shadow) = (is_foreign.then(|| "A::Job".to_owned()), shadow && is_foreign && queue.is_some());
            Rule {
                name: "r".to_owned(), types, queue, pace, batch, strict_interval, tenant_key, on_missing_tenant, priority,
                weights,
                latency_threshold, max_depth, target_latency, max_staged, max_blocked, planner_lock_ttl, planner_group,
                restage, shadow, main_queue, class,
            }
        }
    }

    proptest! {
        #[test]
        fn what_a_rule_prints_reads_as_that_rule(rule in rule()) {
            prop_assert_eq!(read("r", rule.to_json(), ""), Ok(rule));
        }
    }
}
