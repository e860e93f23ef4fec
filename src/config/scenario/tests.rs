use super::*;
use crate::domain::plan::{Batch, Pace};
use crate::domain::simulation::{Arrivals, Burst, Phases, Retry};
use crate::domain::tenant::Weight;

fn try_read(text: &str) -> Result<Scenario, Error> {
    parse(ConfigText { path: Path::new("flood.toml").into(), text: text.to_owned() })
}

fn read(text: &str) -> Scenario {
    try_read(text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn five_lines_are_a_scenario() {
    let scenario = read("[[tenant]]\nname = \"noisy\"\nburst = 1000\n[[tenant]]\nname = \"quiet\"\nrate = 2\n");
    assert_eq!((scenario.name.as_str(), scenario.seed, scenario.workers), ("flood", 1, 10));
    assert_eq!((scenario.mode, scenario.duration_us, scenario.jobs), (Mode::Fair, 60_000_000, MOST_JOBS));
    assert_eq!(scenario.rule, crate::domain::plan::Rule::new("simulation", &["*"]));
    let [noisy, quiet] = &scenario.groups[..] else { panic!("two tenants") };
    assert_eq!(noisy.arrivals.burst, Some(Burst { jobs: 1000, at_us: 0, every_us: None }));
    assert_eq!(noisy.retry, Retry { failures: 0.0, attempts: 3, delay_us: 1_000_000 });
    assert_eq!((quiet.count, quiet.weight, quiet.run_time), (1, Weight::ONE, RunTime::Fixed { us: 100_000 }));
    assert_eq!(quiet.arrivals, Arrivals { rate: Some(2.0), ..Arrivals::default() });
}

#[test]
fn every_option_is_read() {
    let scenario = read(
        r#"
        seed = 7
        mode = "fifo"
        jobs = 5000
        workers = 3
        run_time = { distribution = "uniform", from = "10ms", to = "20ms" }
        [rule]
        enqueue_interval = "2s"
        enqueue_jobs = 50
        strict_interval = true
        target_latency = "250ms"
        latency_threshold = "5s"
        max_depth = 70
        weights = { static = { a = 3 }, default_weight = 0.5 }
        [[tenant]]
        name = "a"
        count = 4
        rate = 0.5
        every = "250ms"
        burst = { jobs = 9, at = "1s", every = "10s" }
        on = "1s"
        off = "3s"
        start = "2s"
        [[tenant]]
        name = "b"
        every = "1s"
        run_time = { distribution = "lognormal", median = "5ms", p99 = "2s" }
        failures = 0.25
        attempts = 5
        retry_delay = "500ms"
        [[tenant]]
        name = "c"
        weight = 8
        burst = 1
        run_time = { distribution = "exponential", mean = "1s" }
        "#,
    );
    assert_eq!((scenario.seed, scenario.mode, scenario.jobs, scenario.workers), (7, Mode::Fifo, 5000, 3));
    assert_eq!(scenario.duration_us, 30 * 86_400_000_000, "the number of jobs ends the arrivals");
    let rule = &scenario.rule;
    assert_eq!((&rule.pace, rule.batch, rule.strict_interval), (&Pace::Every(2000), Batch::Jobs(50), true));
    assert_eq!((rule.target_latency, rule.latency_threshold, rule.max_depth), (250, 5000, 70));
    let [a, b, c] = &scenario.groups[..] else { panic!("three tenants") };
    assert_eq!([a, b, c].map(|group| group.weight.as_f64()), [3.0, 0.5, 8.0]);
    let expected = Arrivals {
        rate: Some(0.5),
        every_us: Some(250_000),
        burst: Some(Burst { jobs: 9, at_us: 1_000_000, every_us: Some(10_000_000) }),
        phases: Some(Phases { on_us: 1_000_000, off_us: 3_000_000 }),
        start_us: 2_000_000,
    };
    assert_eq!((a.count, a.arrivals, a.run_time), (4, expected, RunTime::Uniform { from_us: 10_000, to_us: 20_000 }));
    assert_eq!(b.retry, Retry { failures: 0.25, attempts: 5, delay_us: 500_000 });
    assert_eq!(b.run_time, RunTime::Lognormal { median_us: 5000, p99_us: 2_000_000 });
    assert_eq!(c.run_time, RunTime::Exponential { mean_us: 1_000_000 });
}

/// The whole message, so that each error is seen as users see it.
#[test]
fn all_errors_come_at_once_with_their_places() {
    let text = "\
mode = \"fare\"
duration = 60
worker = 5

[rule]
enqueue_jobs = \"many\"
max_dept = 3

[[tenant]]
name = \"a\"
rate = -1
weight = 2000

[[tenant]]
name = \"a\"
burst = { jobs = 0 }
on = \"5s\"
run_time = { distribution = \"uniform\", from = \"2s\", to = \"1s\" }

[[tenant]]
name = \"c\"
failures = 1.5
";
    let error = try_read(text).expect_err("it has errors").to_string();
    assert_eq!(error, EXPECTED, "{error}");
}

const EXPECTED: &str = r#"error: mode: expected one of fair, fifo, found "fare"
 --> flood.toml:1:8
  |
1 | mode = "fare"
  |        ^^^^^^

error: duration: expected a duration such as 500ms, 60s, 5m, 2h, 7d or ISO 8601 (PT1M), found 60
 --> flood.toml:2:12
  |
2 | duration = 60
  |            ^^
  = help: a duration needs a unit: "60s" are seconds

error: worker: unknown key "worker" at the top of the file
 --> flood.toml:3:1
  |
3 | worker = 5
  | ^^^^^^
  = help: did you mean "workers"?

error: rule.enqueue_jobs: expected a whole number from 1 to 100000, or "auto", found "many"
 --> flood.toml:6:16
  |
6 | enqueue_jobs = "many"
  |                ^^^^^^

error: rule.max_dept: unknown key "max_dept" in [rule]
 --> flood.toml:7:1
  |
7 | max_dept = 3
  | ^^^^^^^^
  = help: did you mean "max_depth"?

error: tenant[0].rate: expected a number of jobs per second above 0 and at most 1000000, found -1
  --> flood.toml:11:8
   |
11 | rate = -1
   |        ^^

error: tenant[0].weight: expected a number from 0.05 to 1000, or 0 to hold a tenant, found 2000
  --> flood.toml:12:10
   |
12 | weight = 2000
   |          ^^^^

error: tenant[1].name: expected a name that no other [[tenant]] has, found "a"
  --> flood.toml:15:8
   |
15 | name = "a"
   |        ^^^

error: tenant[1].burst.jobs: expected a whole number of at least 1 and at most 10000000, found 0
  --> flood.toml:16:18
   |
16 | burst = { jobs = 0 }
   |                  ^

error: tenant[1].on: on requires off
  --> flood.toml:17:6
   |
17 | on = "5s"
   |      ^^^^
   = help: on and off are the lengths of phases

error: tenant[1].on: phases apply to rate and every, and this tenant has neither
  --> flood.toml:17:6
   |
17 | on = "5s"
   |      ^^^^
   = help: remove on and off

error: tenant[1].run_time.to: expected a duration of at least `from`, found "1s"
  --> flood.toml:18:58
   |
18 | run_time = { distribution = "uniform", from = "2s", to = "1s" }
   |                                                          ^^^^

error: tenant[2]: this tenant enqueues no jobs
  --> flood.toml:20:1
   |
20 | [[tenant]]
   | ^^^^^^^^^^
   = help: add rate = 5 (jobs per second, at random times), every = "200ms" or burst = 1000

error: tenant[2].failures: expected a number of at least 0 and at most 1, found 1.5
  --> flood.toml:22:12
   |
22 | failures = 1.5
   |            ^^^

14 errors in flood.toml"#;

#[test]
fn a_tenant_needs_jobs_and_a_scenario_a_tenant() {
    let error = |text: &str| try_read(text).expect_err("it has errors").to_string();
    let none = error("workers = 3\n");
    assert!(
        none.starts_with("error: tenant: expected at least one [[tenant]], found none\n --> flood.toml:1:1\n"),
        "{none}"
    );
    assert!(none.ends_with("= help: fairgate simulate --example prints a scenario\n\n1 error in flood.toml"), "{none}");
    assert!(error("[[tenant]]\nname = \"a\"\n").contains("tenant[0]: this tenant enqueues no jobs"));
    let alike = "[[tenant]]\nname = \"a\"\ncount = 20\nrate = 1\n[[tenant]]\nname = \"a-07\"\nrate = 1\n";
    assert!(error(alike).contains("tenants with the name \"a-07\" are in two [[tenant]] tables"), "{}", error(alike));
    let many = "[[tenant]]\nname = \"a\"\ncount = 60000\nrate = 1\n[[tenant]]\nname = \"b\"\ncount = 60000\nrate = 1\n";
    assert!(error(many).contains("at most 100000 tenants in total (they have 120000)"), "{}", error(many));
    let phases = "[[tenant]]\nname = \"a\"\nburst = 5\non = \"1s\"\noff = \"1s\"\n";
    assert!(error(phases).contains("phases apply to rate and every, and this tenant has neither"));
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = read_scenario(Path::new("no-such.toml")).expect_err("there is none").to_string();
    assert!(error.starts_with("cannot read the scenario no-such.toml: "), "{error}");
}
