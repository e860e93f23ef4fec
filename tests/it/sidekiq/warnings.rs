//! Misconfigurations with a Sidekiq: each is reported once, with its remedy.

use super::import::{all_at_once, draining};
use super::ruby::{Worker, WorkerOptions, script};
use super::*;
use crate::support::Process;

/// Data of the events of a type about main queues, oldest first.
async fn events(app: &TestApp, kind: &str) -> Vec<Value> {
    let answer = app.client.get(&format!("/v1/events?types={kind}&limit=100")).await.expect(200);
    answer.at("/events").as_array().expect("events").iter().map(|event| event["data"].clone()).collect()
}

async fn metrics(app: &TestApp) -> String {
    app.client.get("/metrics").await.expect(200).text
}

#[tokio::test]
async fn a_process_that_reads_the_staging_queue_is_reported_until_it_is_gone() {
    let app = beside(&[rule(|_| {})], draining()).await;
    let worker = Worker::start(&app.redis, &WorkerOptions { queues: &["heavy", "stage"], ..WorkerOptions::default() });
    eventually("it is reported", async || !events(&app, "main_queue.staging_read").await.is_empty()).await;
    let reported = events(&app, "main_queue.staging_read").await.remove(0);
    assert_eq!((&reported["main_queue"], &reported["queue"]), (&json!("legacy"), &json!("stage")), "{reported}");
    let identity: Vec<String> = app.redis.command(&["SMEMBERS", "processes"]).await;
    assert_eq!(reported["processes"], json!(identity));
    assert!(reported["message"].as_str().unwrap().contains("bypass"), "{reported}");
    drop(worker);
    // A killed process counts as gone when its record has expired.
    app.redis.command::<i64>(&["DEL", "processes", &identity[0]]).await;
    eventually("the failure has ended", async || !events(&app, "main_queue.staging_unread").await.is_empty()).await;
    assert_eq!(events(&app, "main_queue.staging_read").await.len(), 1);
}

#[tokio::test]
async fn a_class_that_no_rule_plans_is_reported_once_and_counted() {
    let heavy = rule(|rule| rule.types = vec!["HeavyJob".to_owned()]);
    let app = beside(&[heavy], draining()).await;
    script(
        &app.redis,
        r#"3.times { |n| Sidekiq::Client.push("class" => "LightJob", "queue" => "stage", "args" => ["a", n]) }
           StagedJob.perform_async("b", 0)"#,
    )
    .await;
    eventually("all have passed", async || waiting(&app.redis, "queue:default").await.len() == 4).await;
    eventually("both are reported", async || events(&app, "main_queue.class_unplanned").await.len() == 2).await;
    let reported = events(&app, "main_queue.class_unplanned").await;
    assert_eq!(
        (&reported[0]["class"], &reported[1]["class"]),
        (&json!("LightJob"), &json!("StagedJob")),
        "{reported:?}"
    );
    assert_eq!((&reported[0]["main_queue"], &reported[0]["queue"]), (&json!("legacy"), &json!("default")));
    let message = reported[0]["message"].as_str().unwrap();
    assert!(message.contains("types") && message.contains("LightJob"), "{message}");
    let shown = metrics(&app).await;
    for (class, jobs) in [("LightJob", 3), ("StagedJob", 1)] {
        let line = format!("fairgate_sidekiq_unplanned_total{{main_queue=\"legacy\",class=\"{class}\"}} {jobs}");
        assert!(shown.contains(&line), "{line} is missing in\n{shown}");
    }
}

#[tokio::test]
async fn a_rule_without_a_queue_and_a_job_that_names_none_are_reported() {
    let app = beside(&[Rule { queue: None, ..all_at_once() }], draining()).await;
    script(&app.redis, r#"2.times { |n| StagedJob.perform_async("a", n) }"#).await;
    eventually("they are promoted", async || waiting(&app.redis, "queue:default").await.len() == 2).await;
    let reported = events(&app, "main_queue.queue_unknown").await;
    assert_eq!(
        (reported.len(), &reported[0]["class"], &reported[0]["rule"]),
        (1, &json!("StagedJob"), &json!("r")),
        "{reported:?}"
    );
}

#[tokio::test]
async fn a_tenant_key_that_matches_nothing_is_reported_with_the_shape_of_the_arguments() {
    for is_shadow in [false, true] {
        let tenant_key = TenantKey::parse("args.0.account_id").expect("a key");
        let key = Rule { tenant_key, shadow: is_shadow, ..all_at_once() };
        let app = beside(&[key], draining()).await;
        let queue = if is_shadow { "heavy" } else { "stage" };
        let push = format!(
            r#"2.times {{ |n| Sidekiq::Client.push("class" => "HeavyJob", "queue" => "{queue}",
               "args" => [{{"accountId" => 7, "card" => {{"number" => "4111-hunter2"}}}}, ["hunter2"], true, nil]) }}"#
        );
        script(&app.redis, &push).await;
        let kind = "main_queue.tenant_missing";
        eventually("it is reported", async || !events(&app, kind).await.is_empty()).await;
        let reported = events(&app, kind).await.remove(0);
        assert_eq!((&reported["rule"], &reported["class"]), (&json!("r"), &json!("HeavyJob")), "{reported}");
        assert_eq!(reported["tenant_key"], "args.0.account_id");
        assert_eq!(reported["args"], "[{accountId: number, card: {number: string}}, [string], boolean, null]");
        assert!(!reported.to_string().contains("hunter2"), "{reported}");
        script(&app.redis, &push).await;
        eventually("the others are seen", async || {
            let jobs = if is_shadow { "/shadow/line/jobs" } else { "/rounds/promoted_total" };
            app.client.get("/v1/admin/planner/r").await.expect(200).at(jobs) == &json!(4)
        })
        .await;
        assert_eq!(events(&app, kind).await.len(), 1);
    }
}

#[tokio::test]
async fn a_tenant_key_that_matches_nothing_is_logged_with_proper_fields() {
    let redis = TestRedis::start();
    let file = redis.directory().join("fairgate.toml");
    let text = r#"
[[main_queue]]
name = "legacy"
kind = "sidekiq"
staging_queue = "stage"

[[plan]]
name = "r"
types = ["HeavyJob"]
main_queue = "legacy"
queue = "heavy"
tenant_key = "args.0.account_id"
"#;
    std::fs::write(&file, text).unwrap();
    let process = Process::serve(&["--config", file.to_str().unwrap(), "--redis", &redis.url()]).await;
    let job = json!({"class": "HeavyJob", "args": [{"accountId": 7}], "jid": "1"}).to_string();
    redis.command::<i64>(&["LPUSH", "queue:stage", &job]).await;
    let line = || {
        let log = process.logged();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        lines.into_iter().find(|line| line["message"].as_str().is_some_and(|text| text.starts_with("tenant_key finds")))
    };
    eventually("it is logged", async || line().is_some()).await;
    let line = line().unwrap();
    let shown = ["rule", "class", "tenant_key", "args"].map(|field| line[field].as_str().unwrap_or_default());
    assert_eq!(shown, ["r", "HeavyJob", "args.0.account_id", "[{accountId: number}]"], "{line}");
    assert_eq!(line["details"], Value::Null, "{line}");
}

#[tokio::test]
async fn a_staged_job_is_found_by_its_jid() {
    let app = beside(&[all_at_once()], draining()).await;
    app.client.post("/v1/admin/planner/r/pause", json!({})).await.expect(200);
    let pushed = script(
        &app.redis,
        r#"puts StagedJob.perform_async("acme", 1)
           puts StagedJob.perform_async("globex", 2)
           puts Sidekiq::Client.push("class" => "Billing::InvoiceJob", "queue" => "stage", "args" => ["acme"])"#,
    )
    .await;
    let jids: Vec<&str> = pushed.lines().collect();
    let staged = async || app.client.get("/v1/admin/planner/r").await.expect(200).at("/staged/jobs").as_u64();
    eventually("all are staged", async || staged().await == Some(3)).await;
    for (jid, class, tenant) in
        [(jids[0], "StagedJob", "acme"), (jids[1], "StagedJob", "globex"), (jids[2], "Billing::InvoiceJob", "acme")]
    {
        let found = app.client.get(&format!("/v1/admin/sidekiq/jobs/{jid}")).await.expect(200);
        let of = |name: &str| found.text_at(&format!("/{name}")).to_owned();
        assert_eq!((of("jid").as_str(), of("class").as_str(), of("tenant_id").as_str()), (jid, class, tenant));
        assert_eq!((of("rule").as_str(), of("main_queue").as_str(), of("queue").as_str()), ("r", "legacy", "heavy"));
        assert!(found.at("/waits_ms").is_u64() && found.at("/created_at").is_string(), "{}", found.text);
        let job = app.client.job(&of("id")).await;
        assert_eq!(job["x_staged"], true);
    }
    // A job that arrived over HTTP has a jid as well.
    let id = push(&app.client, "acme", 1).await.remove(0);
    let jid = id.replace('-', "")[8..].to_owned();
    let found = app.client.get(&format!("/v1/admin/sidekiq/jobs/{jid}")).await.expect(200);
    assert_eq!((found.text_at("/id"), found.text_at("/class")), (id.as_str(), "HeavyJob"));

    // A jid in the arguments does not count; a promoted job belongs to Sidekiq.
    script(&app.redis, r#"StagedJob.perform_async("acme", "jid" => "feedfacefeedfacefeedface")"#).await;
    eventually("it is staged", async || staged().await == Some(5)).await;
    let missing = app.client.get("/v1/admin/sidekiq/jobs/feedfacefeedfacefeedface").await.expect(404);
    assert!(missing.text.contains("after its promotion"), "{}", missing.text);
    app.client.post("/v1/admin/planner/r/resume", json!({})).await.expect(200);
    eventually("all are promoted", async || waiting(&app.redis, "queue:heavy").await.len() == 5).await;
    for jid in [jids[0], &jid] {
        app.client.get(&format!("/v1/admin/sidekiq/jobs/{jid}")).await.expect(404);
    }
}

#[tokio::test]
async fn a_rule_that_promotes_into_the_staging_queue_is_refused_at_run_time_too() {
    let app = beside(&[], draining()).await;
    let put = async |queue: &str| {
        let body = json!({"types": ["HeavyJob"], "main_queue": "legacy", "queue": queue}).to_string();
        app.client.send("PUT", "/v1/admin/planner/r", Some(body)).await
    };
    let refused = put("stage").await.expect(422);
    assert!(refused.text.contains("the staging_queue of main queue"), "{}", refused.text);
    put("heavy").await.expect(201);
}

/// A batch whose jobs are all passed on leaves nothing to stage; later jobs are still imported.
#[tokio::test]
async fn a_batch_that_is_passed_on_completely_is_imported_without_an_error() {
    let redis = TestRedis::start();
    let directory = tempfile::tempdir().unwrap();
    let file = "[[main_queue]]\nname = \"legacy\"\nkind = \"sidekiq\"\nstaging_queue = \"stage\"\n";
    let path = directory.path().join("fairgate.toml");
    std::fs::write(&path, file).unwrap();
    let process = Process::serve(&["--config", path.to_str().unwrap(), "--redis", &redis.url()]).await;
    for number in 0..2 {
        let payload = json!({"class": "Other", "args": [number]}).to_string();
        redis.command::<i64>(&["LPUSH", "queue:stage", &payload]).await;
        eventually("it has passed", async || waiting(&redis, "queue:default").await.len() == number + 1).await;
    }
    eventually("it is logged", async || process.logged().contains("no plan rule has this class")).await;
    assert!(!process.logged().contains("cannot import jobs"), "{}", process.logged());
}

#[tokio::test]
async fn doctor_warns_of_a_process_that_reads_the_staging_queue() {
    let redis = TestRedis::start();
    let directory = tempfile::tempdir().unwrap();
    let file = format!(
        "[store]\nurl = \"{}\"\n[[main_queue]]\nname = \"legacy\"\nkind = \"sidekiq\"\nstaging_queue = \"stage\"\n",
        redis.url()
    );
    std::fs::write(directory.path().join("fairgate.toml"), file).unwrap();
    let info = json!({"queues": ["stage"], "concurrency": 1}).to_string();
    redis.command::<i64>(&["SADD", "processes", "host:1"]).await;
    redis.command::<i64>(&["HSET", "host:1", "info", &info, "busy", "0", "quiet", "false"]).await;
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_fairgate"));
    let output = command.current_dir(directory.path()).arg("doctor").output().await.expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("warn  a process reads the staging queue stage: host:1"), "{said}");
}
