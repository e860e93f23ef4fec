//! Observers: events, metrics and responses that follow the rules, from any process.

use super::{by_hand, push, rulebook, serving, serving_on, stage};
use crate::support::{TestApp, TestRedis, eventually, json};
use fairgate::domain::plan::Rule;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

const PLANNER: &str = "/ojs/v1/admin/planner";
const SECRET_URL: &str = "http://127.0.0.1:9/weights?token=hunter2&key=swordfish";

/// How long a test waits for an event.
const PATIENCE: Duration = Duration::from_secs(10);

/// The ids and rounds of the next `count` events of a stream for a reader that resumes after `last`.
async fn events(
    app: &TestApp,
    path: &str,
    last: &str,
    count: usize,
    meanwhile: impl Future<Output = ()>,
) -> Vec<(String, Value)> {
    let request = fairgate::weights::client_builder().build().unwrap().get(format!("{}{path}", app.client.base()));
    let mut live = request.header("last-event-id", last).send().await.unwrap();
    meanwhile.await;
    let mut reported = String::new();
    while reported.matches("\n\n").count() < count {
        let chunk = tokio::time::timeout(PATIENCE, live.chunk()).await.unwrap_or_else(|_| panic!("only: {reported}"));
        reported.push_str(&String::from_utf8_lossy(&chunk.unwrap().expect("the stream goes on")));
    }
    let field = |event: &str, name: &str| event.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
    let events = reported.split_terminator("\n\n").map(|event| (field(event, "id: "), field(event, "data: ")));
    events.map(|(id, data)| (id, serde_json::from_str(&data).unwrap())).collect()
}

async fn run(app: &TestApp, rule: &str) {
    let round = app.client.post(&format!("{PLANNER}/{rule}/run"), json!({})).await.expect(200);
    assert_eq!(round.at("/outcome"), "promoted");
}

fn rounds(events: &[(String, Value)]) -> Vec<String> {
    let mut rounds: Vec<String> =
        events.iter().map(|(_, round)| format!("{} {}", round["rule"], round["round"])).collect();
    rounds.sort();
    rounds
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_returning_reader_gets_missed_events_at_once() {
    let app = serving(&[by_hand(1, |_| {})]).await;
    stage(&app, &[("a", 9)]).await;
    let path = format!("{PLANNER}/r/events");
    let first = events(&app, &path, "", 1, run(&app, "r")).await;
    run(&app, "r").await;
    run(&app, "r").await;
    let missed = events(&app, &path, &first[0].0, 2, async {}).await;
    assert_eq!(rounds(&missed), ["\"r\" 2", "\"r\" 3"]);
    assert_eq!(missed[0].1["round"], 2, "oldest first");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_of_all_rules_resumes_in_each_of_them() {
    let other = Rule { name: "s".to_owned(), types: vec!["s.*".to_owned()], ..by_hand(1, |_| {}) };
    let app = serving(&[by_hand(1, |_| {}), other]).await;
    stage(&app, &[("a", 9)]).await;
    app.store().pause_rule("s", true, "test").await.unwrap();
    let job = json!({"type": "s.job", "args": [], "meta": {"tenant_id": "a"}});
    app.client.post("/v1/jobs/batch", json!({"jobs": vec![job; 9]})).await.expect(201);
    app.store().pause_rule("s", false, "test").await.unwrap();
    run(&app, "s").await;

    let path = format!("{PLANNER}/events");
    let first = events(&app, &path, "", 1, run(&app, "r")).await;
    assert_eq!(rounds(&first), ["\"r\" 1"], "a new reader does not get earlier events");
    run(&app, "r").await;
    run(&app, "s").await;
    let missed = events(&app, &path, &first[0].0, 2, async {}).await;
    assert_eq!(rounds(&missed), ["\"r\" 2", "\"s\" 2"]);
    // A reader can disconnect again in the middle of the missed events.
    let rest = events(&app, &path, &missed[0].0, 1, async {}).await;
    assert_eq!(rest[0].1, missed[1].1);
    // Nothing was missed here, and an invalid id is not an error.
    let next = events(&app, &path, &missed[1].0, 1, run(&app, "s")).await;
    assert_eq!(rounds(&next), ["\"s\" 3"]);
    let next = events(&app, &path, "r/x,s,/,%%", 1, run(&app, "s")).await;
    assert_eq!(rounds(&next), ["\"s\" 4"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_plans_nothing_follows_the_rules() {
    let redis = Arc::new(TestRedis::start());
    let (first, second) = (serving_on(&redis, &[]).await, serving_on(&redis, &[]).await);
    let path = format!("{PLANNER}/r");
    let put = async |jobs: u32| {
        let rule = json!({"types": ["t.*"], "queue": "q", "enqueue_jobs": jobs}).to_string();
        first.client.send("PUT", &path, Some(rule)).await;
    };
    put(5).await;
    eventually("the rule is known", async || second.client.get(&path).await.status == 200).await;
    second.client.post(&format!("{path}/run"), json!({})).await.expect(200);
    put(6).await;
    let seen = async || second.client.get(&path).await.at("/options/enqueue_jobs") == 6;
    eventually("the change is known", seen).await;
    first.client.delete(&path).await.expect(200);
    eventually("the rule is gone", async || second.client.get(&path).await.status == 404).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_response_shows_secrets_in_a_webhooks_url() {
    let app = serving(&[]).await;
    let path = format!("{PLANNER}/r");
    let put = async |url: &str| {
        let rule = json!({"types": ["t.*"], "queue": "q", "weights": {"webhook": {"url": url}}}).to_string();
        app.client.send("PUT", &path, Some(rule)).await
    };
    let put_it = put(SECRET_URL).await.expect(201);
    assert_eq!(put_it.at("/options/weights/webhook/url"), "http://127.0.0.1:9/weights?***");
    let mut answers = vec![put_it, app.client.get(&path).await, app.client.get(PLANNER).await];
    for verb in ["pause", "resume"] {
        answers.push(app.client.post(&format!("{path}/{verb}"), json!({})).await.expect(200));
    }
    // The id is refused and quoted in the error.
    answers.push(put("http://swordfish:hunter2@h/").await.expect(422));
    answers.push(put("ftp://h/?token=hunter2").await.expect(422));
    for answer in answers {
        assert!(!answer.text.contains("hunter2") && !answer.text.contains("swordfish"), "{}", answer.text);
    }
    let shown_again = put("http://127.0.0.1:9/weights?***").await.expect(422);
    assert!(shown_again.text.contains("weights.webhook.url"), "{}", shown_again.text);
    let known = rulebook(app.store(), &[]).reload().await.unwrap();
    let url = known.rules.get("r").and_then(|rule| rule.weights.webhook.as_ref()).map(|webhook| webhook.url.as_str());
    assert_eq!(url, Some(SECRET_URL), "the request is sent to the complete URL");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gauges_follow_a_rule_that_drains_and_end_with_it() {
    let app = serving(&[]).await;
    let path = format!("{PLANNER}/r");
    let put = async || {
        let rule = json!({"types": ["t.*"], "queue": "q"}).to_string();
        app.client.send("PUT", &path, Some(rule)).await.expect(201);
    };
    let gauges = async || {
        let metrics = app.client.get("/metrics").await.text;
        let of_rule = |line: &&str| line.contains("{rule=\"r\"}") && !line.contains("_planner_");
        metrics.lines().filter(of_rule).map(str::to_owned).collect::<Vec<_>>()
    };
    put().await;
    assert_eq!(gauges().await.len(), 11);
    app.client.delete(&path).await.expect(200);
    assert_eq!(gauges().await, Vec::<String>::new());

    put().await;
    app.store().pause_rule("r", true, "test").await.unwrap();
    let ids = push(&app.client, "a", 3).await;
    assert!(gauges().await.contains(&"fairgate_staged_jobs{rule=\"r\"} 3".to_owned()));
    app.client.delete(&path).await.expect(200);
    app.client.delete(&format!("/ojs/v1/jobs/{}", ids[0])).await.expect(200);
    let left = gauges().await;
    assert!(left.contains(&"fairgate_staged_jobs{rule=\"r\"} 2".to_owned()), "{left:?}");
}
