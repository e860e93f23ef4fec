//! A rule in shadow mode watches a queue without changing it and reports the expected waits.

use crate::sidekiq::{at, beside, by_hand, configure, legacy, rule, run, waiting};
use crate::support::{ChaosProxy, Client, TestApp, TestRedis, eventually, json};
use fairgate::clock::Clock;
use fairgate::config::{FairplayClass, Sidekiq, StoreUrl};
use fairgate::domain::plan::{Batch, Pace, Rule, Webhook};
use fairgate::domain::tenant::Weight;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

const SEEN: &str = "/v1/admin/planner/r/shadow";

/// The rule `r` in shadow mode.
fn in_shadow() -> Rule {
    rule(|rule| rule.shadow = true)
}

fn now_ms() -> i64 {
    Clock::System.now_ms()
}

/// A payload like those of Sidekiq's client.
fn payload(class: &str, tenant: &str, number: usize, queue: &str) -> String {
    let (jid, at) = (format!("{tenant}-{number}"), now_ms() as f64 / 1e3);
    json!({"class": class, "args": [tenant, number], "retry": true, "queue": queue, "jid": jid, "created_at": at,
        "enqueued_at": at})
    .to_string()
}

async fn enqueue(redis: &TestRedis, queue: &str, tenant: &str, jobs: std::ops::Range<usize>) {
    let payloads: Vec<String> = jobs.map(|number| payload("HeavyJob", tenant, number, queue)).collect();
    let key = format!("queue:{queue}");
    let mut command = vec!["LPUSH", &key];
    command.extend(payloads.iter().map(String::as_str));
    redis.command::<i64>(&command).await;
}

async fn seen(client: &Client) -> Value {
    client.get(SEEN).await.expect(200).body
}

/// Waits until this number of jobs of the queue have been observed.
async fn looked_at(app: &TestApp, jobs: usize) -> Value {
    eventually("it has looked at them", async || seen(&app.client).await["line"]["looked_at"] == json!(jobs)).await;
    seen(&app.client).await
}

fn tenant<'a>(seen: &'a Value, name: &str) -> &'a Value {
    let tenants = seen["tenants"].as_array().expect("tenants");
    tenants.iter().find(|tenant| tenant["tenant_id"] == name).unwrap_or_else(|| panic!("no {name} in {seen}"))
}

/// Two Sidekiq queues with the same jobs at the same times and the same workers: as many jobs are fetched at the same
/// times.
struct Comparison<'a> {
    watched: &'a TestRedis,
    promoted: &'a TestRedis,
    /// The push time of each job; below, the waits of each tenant's jobs in the queue as it is, and with promotion.
    pushed: HashMap<(String, u64), i64>,
    as_is: HashMap<String, Vec<i64>>,
    planned: HashMap<String, Vec<i64>>,
}

impl Comparison<'_> {
    async fn push(&mut self, tenant: &str, jobs: std::ops::Range<usize>) {
        enqueue(self.watched, "heavy", tenant, jobs.clone()).await;
        enqueue(self.promoted, "stage", tenant, jobs.clone()).await;
        jobs.for_each(|number| _ = self.pushed.insert((tenant.to_owned(), number as u64), now_ms()));
    }

    /// Fetches a job, if there is one; returns its tenant and its wait, in ms.
    async fn take(&self, redis: &TestRedis) -> Option<(String, i64)> {
        let text: Option<String> = redis.command(&["RPOP", "queue:heavy"]).await;
        let job: Value = serde_json::from_str(&text?).expect("a payload");
        let tenant = job["args"][0].as_str().expect("a tenant").to_owned();
        let pushed = self.pushed[&(tenant.clone(), job["args"][1].as_u64().expect("a number"))];
        Some((tenant, now_ms() - pushed))
    }

    /// Workers fetch a hundred times per second; a worker without a job waits for the next one.
    async fn work(&mut self, ticks: usize) {
        let mut every = tokio::time::interval(Duration::from_millis(10));
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        for _ in 0..ticks {
            every.tick().await;
            if let Some((tenant, waited)) = self.take(self.watched).await {
                self.as_is.entry(tenant).or_default().push(waited);
            }
            let taken = |waits: &HashMap<String, Vec<i64>>| waits.values().map(Vec::len).sum::<usize>();
            while taken(&self.planned) < taken(&self.as_is) {
                let Some((tenant, waited)) = self.take(self.promoted).await else { break };
                self.planned.entry(tenant).or_default().push(waited);
            }
        }
    }
}

fn quantile(waits: &[i64], share: f64) -> f64 {
    let mut waits = waits.to_vec();
    waits.sort_unstable();
    waits[((waits.len() as f64 * share).ceil() as usize).max(1) - 1] as f64
}

/// Two real queues are within 10 % of each other only if neither is delayed by the machine: one of five comparisons
/// must be. All other assertions hold for each.
#[tokio::test]
async fn predicted_waits_match_the_waits_with_promotion() {
    let mut differences = Vec::new();
    for _ in 0..5 {
        match compare_once().await {
            None => return,
            Some(difference) => differences.push(difference),
        }
    }
    panic!("{}", differences.join("\n"));
}

/// Watches a queue in shadow mode and promotes the same jobs into another. Returns the first wait that differs by more
/// than 10 %.
async fn compare_once() -> Option<String> {
    let (watched, promoted) = (TestRedis::start(), TestRedis::start());
    let weigh =
        |rule: &mut Rule| _ = rule.weights.fixed.insert("paying".to_owned(), Weight::of(2.0).expect("a weight"));
    let shadow = beside(&[Rule { shadow: true, ..rule(weigh) }], legacy(|sidekiq| sidekiq.access = at(&watched))).await;
    let live = beside(
        &[rule(weigh)],
        legacy(|sidekiq| (sidekiq.access, sidekiq.staging_queue) = (at(&promoted), Some("stage".to_owned()))),
    )
    .await;
    // A process record, so that an empty queue is noticed.
    let info = json!({"queues": ["heavy"], "concurrency": 1}).to_string();
    promoted.command::<i64>(&["SADD", "processes", "p"]).await;
    promoted.command::<i64>(&["HSET", "p", "info", &info, "busy", "1", "quiet", "false"]).await;
    let (pushed, as_is, planned) = Default::default();
    let mut comparison = Comparison { watched: &watched, promoted: &promoted, pushed, as_is, planned };
    looked_at(&shadow, 0).await;
    comparison.push("noisy", 0..600).await;
    eventually("they are staged", async || {
        let stats = live.client.get("/v1/admin/planner/r").await.expect(200);
        stats.at("/staged/jobs").as_u64().unwrap_or(0) + stats.at("/main_queue/depth").as_u64().unwrap_or(0) >= 600
    })
    .await;
    // A job that came and went between two observations would be missed.
    looked_at(&shadow, 600).await;
    // Waits until the planner has measured the rate of its workers.
    comparison.work(300).await;
    comparison.push("quiet", 0..60).await;
    comparison.push("paying", 0..90).await;
    comparison.work(450).await;
    eventually("all are taken", async || {
        comparison.work(5).await;
        let seen = seen(&shadow.client).await;
        seen["as_is"]["jobs"] == json!(750) && seen["planned"]["jobs"] == json!(750)
    })
    .await;
    let seen = seen(&shadow.client).await;
    let live_stats = live.client.get("/v1/admin/planner/r").await.expect(200);
    assert_eq!(live_stats.at("/rounds/promoted_total"), &json!(750));
    let mut difference = None;
    for name in ["noisy", "quiet", "paying"] {
        for (order, waits) in [("as_is", &comparison.as_is[name]), ("planned", &comparison.planned[name])] {
            for (field, share) in [("p50_ms", 0.5), ("p95_ms", 0.95)] {
                let (reported, is) =
                    (tenant(&seen, name)[order][field].as_f64().expect("a wait"), quantile(waits, share));
                if (reported - is).abs() > is * 0.1 {
                    difference.get_or_insert(format!("{name} {order} {field}: reported {reported}, is {is}\n{seen:#}"));
                }
            }
        }
    }
    let p95 = |name: &str, order: &str| tenant(&seen, name)[order]["p95_ms"].as_u64().expect("a wait");
    assert!(p95("quiet", "planned") < p95("quiet", "as_is"), "planning shortens the waits of quiet tenants");
    // Rounds are recorded as if they had run.
    let rounds = shadow.client.get("/v1/admin/planner/r/rounds?limit=100").await.expect(200);
    let rounds = rounds.at("/items").as_array().expect("rounds").clone();
    let would = seen["would"]["promoted_total"].as_u64().expect("a number");
    assert_eq!(rounds.iter().map(|round| round["promoted"].as_u64().expect("a number")).sum::<u64>(), would);
    assert!(rounds.iter().all(|round| round["outcome"] == "shadow" && round["round"].as_u64() > Some(0)));
    let metrics = shadow.client.get("/metrics").await.text;
    for order in ["as_is", "planned"] {
        let series = format!("fairgate_shadow_wait_p95_seconds{{rule=\"r\",tenant=\"quiet\",order=\"{order}\"}}");
        assert!(metrics.contains(&series), "{series}");
    }
    difference
}

/// The names of the commands a Redis received, and of those that write.
async fn writes(redis: &TestRedis) -> (Vec<String>, Vec<String>) {
    let stats: String = redis.command(&["INFO", "commandstats"]).await;
    let name = |line: &str| Some(line.strip_prefix("cmdstat_")?.split(':').next()?.to_owned());
    let sent: Vec<String> = stats.lines().filter_map(name).collect();
    let listed: Vec<String> = redis.command(&["COMMAND", "LIST", "FILTERBY", "ACLCAT", "write"]).await;
    let writing = sent.iter().filter(|command| listed.contains(command)).cloned().collect();
    (sent, writing)
}

/// The contents of a Redis.
async fn contents(redis: &TestRedis) -> Vec<(String, Vec<u8>)> {
    let mut keys: Vec<String> = redis.command(&["KEYS", "*"]).await;
    keys.sort();
    let mut contents = Vec::new();
    for key in keys {
        let dump: Vec<u8> = redis.command(&["DUMP", &key]).await;
        contents.push((key, dump));
    }
    contents
}

#[tokio::test]
async fn nothing_is_changed_in_the_watched_redis_and_the_gem_keeps_its_locks() {
    let theirs = TestRedis::start();
    enqueue(&theirs, "heavy", "noisy", 0..300).await;
    enqueue(&theirs, "heavy", "quiet", 0..3).await;
    theirs.command::<i64>(&["LPUSH", "queue:heavy", &payload("Other", "x", 1, "heavy"), "junk"]).await;
    theirs.command::<i64>(&["SADD", "queues", "heavy"]).await;
    theirs.command::<i64>(&["HSET", "fairplay:heavy_job:tenant_counts", "a", "1"]).await;
    theirs.command::<i64>(&["RPUSH", "fairplay:heavy_job:tenant_queue:a", "[\"a\",1]"]).await;
    // A read-only replica is sufficient for watching.
    theirs.command::<String>(&["REPLICAOF", "127.0.0.1", "1"]).await;
    theirs.command::<String>(&["CONFIG", "RESETSTAT"]).await;
    let before = contents(&theirs).await;
    let app = beside(
        &[in_shadow()],
        legacy(|sidekiq| {
            (sidekiq.access, sidekiq.staging_queue) = (at(&theirs), Some("stage".to_owned()));
            sidekiq.fairplay_classes = vec![FairplayClass {
                class: "HeavyJob".to_owned(),
                key: "heavy_job".to_owned(),
                planner_queue: "default".to_owned(),
                options: String::new(),
            }];
        }),
    )
    .await;
    let seen = looked_at(&app, 305).await;
    assert_eq!((&seen["line"]["planned"], &seen["line"]["tenants"]), (&json!(303), &json!(2)));
    assert_eq!((&tenant(&seen, "noisy")["waiting"], &tenant(&seen, "quiet")["waiting"]), (&json!(300), &json!(3)));
    assert_eq!((&seen["line"]["truncated"], &seen["trouble"]), (&json!(false), &Value::Null));
    let stats = app.client.get("/v1/admin/planner/r").await.expect(200);
    assert_eq!((stats.at("/state"), stats.at("/shadow/line/looked_at")), (&json!("shadow"), &json!(305)));
    assert_eq!((stats.at("/staged/jobs"), stats.at("/shadow/tenants")), (&json!(0), &Value::Null));
    // A requested round does not run, and no jobs are imported.
    assert_eq!(run(&app.client).await["promoted"], 0);
    let refused = app.client.post("/v1/jobs", json!({"type": "t.job", "args": ["a"]})).await.expect(400);
    assert!(refused.text.contains("in shadow"), "{}", refused.text);
    app.app.shut_down().await;
    let (sent, writing) = writes(&theirs).await;
    assert!(sent.iter().any(|command| command == "lrange"), "{sent:?}");
    assert_eq!(writing, Vec::<String>::new(), "of {sent:?}");
    assert!(before == contents(&theirs).await, "not a byte");
}

#[tokio::test]
async fn returned_jobs_and_emptied_queues_do_not_distort_the_report() {
    let theirs = TestRedis::start();
    let app = beside(&[in_shadow()], legacy(|sidekiq| sidekiq.access = at(&theirs))).await;
    enqueue(&theirs, "heavy", "a", 0..1000).await;
    looked_at(&app, 1000).await;
    let taken: Vec<String> = theirs.command(&["RPOP", "queue:heavy", "10"]).await;
    looked_at(&app, 990).await;
    let mut back = vec!["RPUSH", "queue:heavy"];
    back.extend(taken.iter().take(5).map(String::as_str));
    theirs.command::<i64>(&back).await;
    enqueue(&theirs, "heavy", "b", 0..7).await;
    let seen = looked_at(&app, 997).await;
    assert_eq!((&tenant(&seen, "b")["waiting"], &seen["taken_total"]), (&json!(7), &json!(10)));
    // A job that came and went before the others.
    theirs.command::<i64>(&["DEL", "queue:heavy"]).await;
    enqueue(&theirs, "heavy", "c", 0..3).await;
    let seen = looked_at(&app, 3).await;
    assert_eq!((&tenant(&seen, "a")["waiting"], &tenant(&seen, "c")["waiting"]), (&json!(0), &json!(3)));
    assert_eq!(&seen["taken_total"], &json!(1007));
}

#[tokio::test]
async fn an_unreachable_redis_is_reported_and_watched_again_afterwards() {
    let theirs = TestRedis::start();
    let proxy = ChaosProxy::start(&theirs).await;
    enqueue(&theirs, "heavy", "a", 0..5).await;
    let access = |sidekiq: &mut Sidekiq| sidekiq.access.url = Some(StoreUrl::parse(&proxy.url()).expect("a url"));
    let app = beside(&[in_shadow()], legacy(access)).await;
    looked_at(&app, 5).await;
    proxy.arm("LLEN");
    proxy.struck().await;
    eventually("the failure is reported", async || seen(&app.client).await["trouble"].is_string()).await;
    enqueue(&theirs, "heavy", "a", 5..9).await;
    proxy.open();
    let seen = looked_at(&app, 9).await;
    assert_eq!((&seen["trouble"], &seen["taken_total"]), (&Value::Null, &json!(0)));
}

#[tokio::test]
async fn one_process_watches_and_another_takes_over() {
    let (redis, theirs) = (Arc::new(TestRedis::start()), TestRedis::start());
    let start = async || {
        let main_queue = legacy(|sidekiq| sidekiq.access = at(&theirs));
        let rule = Rule { planner_lock_ttl: 1000, ..in_shadow() };
        TestApp::start_on(Arc::clone(&redis), Clock::System, |config| configure(config, &[rule], main_queue)).await
    };
    let first = start().await;
    eventually("it watches", async || seen(&first.client).await["watcher"].is_string()).await;
    let watcher = seen(&first.client).await["watcher"].clone();
    let second = start().await;
    enqueue(&theirs, "heavy", "a", 0..5).await;
    assert_eq!(looked_at(&second, 5).await["watcher"], watcher, "any process reports for the one that watches");
    first.app.shut_down().await;
    eventually("the other one watches", async || {
        let seen = seen(&second.client).await;
        seen["watcher"].is_string() && seen["watcher"] != watcher && seen["line"]["looked_at"] == json!(5)
    })
    .await;
}

#[tokio::test]
async fn switching_shadow_mode_off_and_on() {
    let app = beside(&[], legacy(|sidekiq| sidekiq.staging_queue = Some("stage".to_owned()))).await;
    let put = async |rule: Rule| {
        app.client.send("PUT", "/v1/admin/planner/r", Some(rule.to_json().to_string())).await;
    };
    put(in_shadow()).await;
    enqueue(&app.redis, "heavy", "a", 0..3).await;
    looked_at(&app, 3).await;
    app.redis.command::<i64>(&["DEL", "queue:heavy"]).await;
    put(by_hand(2)).await;
    app.client.get(SEEN).await.expect(404);
    enqueue(&app.redis, "stage", "a", 0..5).await;
    eventually("they are staged or promoted", async || app.redis.command::<i64>(&["LLEN", "queue:stage"]).await == 0)
        .await;
    // In shadow mode again: staged jobs are still promoted, and new jobs of the staging queue are passed on.
    put(Rule { batch: Batch::Jobs(100), ..in_shadow() }).await;
    enqueue(&app.redis, "stage", "a", 5..8).await;
    eventually("all are there", async || waiting(&app.redis, "queue:heavy").await.len() == 8).await;
    let stats = app.client.get("/v1/admin/planner/r").await.expect(200);
    assert_eq!((stats.at("/state"), stats.at("/staged/jobs")), (&json!("shadow"), &json!(0)));
    let unfit = Rule { queue: None, ..in_shadow() }.to_json().to_string();
    let refused = app.client.send("PUT", "/v1/admin/planner/r", Some(unfit)).await.expect(422);
    assert!(refused.text.contains("shadow requires a queue to watch"), "{}", refused.text);
}

#[tokio::test]
async fn the_webhook_is_asked_and_its_weights_count() {
    let (theirs, webhook) = (TestRedis::start(), MockServer::start().await);
    let answer = ResponseTemplate::new(200).set_body_json(json!({"weights": {"paying": 3}}));
    Mock::given(method("POST")).respond_with(answer).mount(&webhook).await;
    // The second round is the first after a certain webhook call.
    let rule = rule(|rule| {
        (rule.shadow, rule.batch, rule.pace) = (true, Batch::Jobs(40), Pace::Every(3000));
        rule.weights.webhook = Some(Webhook { url: webhook.uri(), timeout: 1000, secret_env: None });
    });
    let app = beside(&[rule], legacy(|sidekiq| sidekiq.access = at(&theirs))).await;
    enqueue(&theirs, "heavy", "free", 0..200).await;
    enqueue(&theirs, "heavy", "paying", 0..200).await;
    eventually("a round has used its weights", async || {
        let rounds = app.client.get("/v1/admin/planner/r/rounds").await.expect(200);
        let served = rounds.at("/items/0/served");
        let jobs = |place: usize| (served[place]["tenant_id"].clone(), served[place]["jobs"].clone());
        jobs(0) == (json!("paying"), json!(30)) && jobs(1) == (json!("free"), json!(10))
    })
    .await;
    let seen = seen(&app.client).await;
    assert_eq!((&tenant(&seen, "paying")["weight"], &tenant(&seen, "free")["weight"]), (&json!(3.0), &json!(1.0)));
}

#[tokio::test]
async fn only_the_front_of_a_long_queue_is_observed() {
    let theirs = TestRedis::start();
    for part in 0..11 {
        enqueue(&theirs, "heavy", "a", part * 10_000..(part + 1) * 10_000).await;
    }
    let app = beside(&[in_shadow()], legacy(|sidekiq| sidekiq.access = at(&theirs))).await;
    // The time limit applies to each part, because the total depends on the machine.
    for part in 1..10 {
        let enough = async || seen(&app.client).await["line"]["looked_at"].as_u64() >= Some(part * 10_000);
        eventually("it has looked at a part", enough).await;
    }
    let seen = looked_at(&app, 100_000).await;
    assert_eq!((&seen["line"]["jobs"], &seen["line"]["truncated"]), (&json!(110_000), &json!(true)));
    // Slots that become free are filled with later jobs.
    theirs.command::<Vec<String>>(&["RPOP", "queue:heavy", "500"]).await;
    eventually("it goes on", async || self::seen(&app.client).await["taken_total"] == json!(500)).await;
    looked_at(&app, 100_000).await;
}

#[tokio::test]
async fn a_global_weight_of_a_tenant_applies_at_once() {
    let theirs = TestRedis::start();
    let rule = rule(|rule| (rule.shadow, rule.batch, rule.pace) = (true, Batch::Jobs(40), Pace::Every(2000)));
    let app = beside(&[rule], legacy(|sidekiq| sidekiq.access = at(&theirs))).await;
    enqueue(&theirs, "heavy", "free", 0..300).await;
    enqueue(&theirs, "heavy", "gold", 0..300).await;
    looked_at(&app, 600).await;
    let weighs = json!({"fairness_weight": 3}).to_string();
    app.client.send("PUT", "/v1/admin/tenants/gold", Some(weighs)).await.expect(201);
    eventually("a round has used it", async || {
        let rounds = app.client.get("/v1/admin/planner/r/rounds").await.expect(200);
        let served = rounds.at("/items/0/served");
        served[0]["tenant_id"] == "gold" && served[0]["jobs"] == 30 && served[0]["weight"] == 3.0
    })
    .await;
}

#[tokio::test]
async fn a_weights_webhook_that_fails_is_reported() {
    let server = MockServer::start().await;
    let broken = Mock::given(method("POST")).respond_with(ResponseTemplate::new(500)).mount_as_scoped(&server).await;
    let mut rule = in_shadow();
    rule.weights.webhook = Some(Webhook { url: server.uri(), timeout: 5000, secret_env: None });
    let app = beside(&[rule], legacy(|_| {})).await;
    enqueue(&app.redis, "heavy", "a", 0..3).await;
    let events = async || app.client.get("/v1/events?types=weights.*").await.expect(200);
    eventually("it is reported", async || events().await.at("/events/0/type") == "weights.failed").await;
    assert_eq!(events().await.at("/events/0/data/fallback"), "default_weight");
    eventually("stats show it", async || {
        let stats = app.client.get("/v1/admin/planner/r").await.expect(200);
        stats.at("/weights/failing_since").is_string() && stats.at("/weights/fallback") == "default_weight"
    })
    .await;
    drop(broken);
    let answer = ResponseTemplate::new(200).set_body_json(json!({"weights": {"a": 3}}));
    Mock::given(method("POST")).respond_with(answer).mount(&server).await;
    eventually("it recovers", async || events().await.at("/events/1/type") == "weights.recovered").await;
    assert!(events().await.at("/events/2").is_null());
}
