//! Whatever a client sends, it is told what is wrong with it, nothing is stored, and the server goes on.

mod rows;
mod wire;

use crate::support::{TestApp, TestRedis, eventually, json};
use fairgate::config::{Config, Role};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config as Cases, TestCaseError, TestRunner};
use redis::aio::MultiplexedConnection;
use rows::Row;
use serde_json::Value;
use std::cell::Cell;
use std::time::Duration;
use wire::{Connection, Response, request};

/// A server with limits that are cheap to exceed, and without the tick: whatever changes, a request has changed.
async fn app(change: impl FnOnce(&mut Config)) -> TestApp {
    TestApp::start_with(Default::default(), |config| {
        config.server.roles = vec![Role::Api];
        rows::limits(&mut config.limits);
        change(config);
    })
    .await
}

/// Everything in a Redis: all keys, sorted, with a digest of what they hold.
struct Contents(MultiplexedConnection);

impl Contents {
    async fn of(redis: &TestRedis) -> Self {
        Contents(redis.connection().await)
    }

    async fn read(&mut self) -> Vec<String> {
        // A large hash is dumped in an order that changes while Redis tidies it up.
        const SCRIPT: &str = "local found = {}
            local function text(key)
              if redis.call('TYPE', key).ok ~= 'hash' then return redis.call('DUMP', key) end
              local words, pairs = redis.call('HGETALL', key), {}
              for at = 1, #words, 2 do pairs[#pairs + 1] = words[at] .. '=' .. words[at + 1] end
              table.sort(pairs)
              return table.concat(pairs, ' ')
            end
            for _, key in ipairs(redis.call('KEYS', '*')) do
              found[#found + 1] = key .. ' ' .. redis.sha1hex(text(key))
            end
            table.sort(found)
            return found";
        let mut command = redis::cmd("EVAL");
        command.arg(SCRIPT).arg(0).query_async(&mut self.0).await.expect("Redis runs the script")
    }
}

/// What is wrong with the form that all error answers share.
fn faults_of_form(answer: &Response) -> Vec<String> {
    let mut faults = Vec::new();
    let mut check = |holds: bool, fault: String| {
        if !holds {
            faults.push(fault);
        }
    };
    let (kind, version, id) =
        (answer.header("content-type"), answer.header("ojs-version"), answer.header("x-request-id"));
    check(kind == "application/openjobspec+json", format!("Content-Type is {kind:?}"));
    check(version == "1.0", format!("OJS-Version is {version:?}"));
    check(!id.is_empty(), "X-Request-Id is missing".to_owned());
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let error = &body["error"];
    check(
        error["request_id"] == id && !id.is_empty(),
        format!("request_id is {}, the header {id:?}", error["request_id"]),
    );
    check(error["retryable"] == false, format!("retryable is {}", error["retryable"]));
    check(error["message"].as_str().is_some_and(|text| text.len() > 10), format!("message is {}", error["message"]));
    check(error["code"].is_string(), format!("code is {}", error["code"]));
    faults
}

/// What is wrong with the answer to a row.
fn faults_of_answer(row: &Row, answer: &Response) -> Vec<String> {
    if answer.status != row.status {
        return vec![format!("status is {}, not {}", answer.status, row.status)];
    }
    let mut faults = faults_of_form(answer);
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let error = &body["error"];
    if row.closes && answer.header("connection") != "close" {
        // A client that is not told puts the connection back into its pool and loses its next request.
        faults.push("the connection ends, but no header says so".to_owned());
    }
    if error["code"] != row.code {
        faults.push(format!("code is {}, not {:?}", error["code"], row.code));
    }
    if let Some(field) = &row.field {
        let (told, message) = (&error["details"]["field"], error["message"].as_str().unwrap_or_default());
        if told != field {
            faults.push(format!("details.field is {told}, not {field:?}"));
        }
        let named = if field.is_empty() { "request body" } else { field };
        if !message.contains(named) {
            faults.push(format!("the message does not name {named:?}: {message:?}"));
        }
    }
    if row.hints && error["hint"].as_str().is_none_or(|hint| hint.len() <= 10) {
        faults.push(format!("hint is {}", error["hint"]));
    }
    for (place, expected) in &row.members {
        let holds = match *place {
            "allow" => answer.header("allow") == expected,
            "limit" => {
                error["details"].as_object().is_some_and(|details| details.values().any(|value| value == expected))
            }
            pointer => body.pointer(pointer) == Some(expected),
        };
        if !holds {
            faults.push(format!("{place} is not {expected}"));
        }
    }
    faults
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_malformed_request_is_named_and_refused_and_stores_nothing() {
    let app = app(|config| config.policy = rows::policy()).await;
    app.client.enqueue(json!({"id": rows::TAKEN, "type": "test.job", "args": []})).await;
    rows::set_up(&app.client).await;
    let mut contents = Contents::of(&app.redis).await;
    let mut connection = Connection::open(app.app.address).await;
    let mut wrong = Vec::new();
    let rows = rows::all();
    for (number, row) in rows.iter().enumerate() {
        let before = contents.read().await;
        // Every other request brings its own id, which must come back.
        let own_id = (number % 2 == 1).then(|| format!("row-{number}"));
        let mut headers = row.headers.clone();
        headers.extend(own_id.iter().map(|id| ("X-Request-Id", id.clone().into_bytes())));
        let bytes = request(row.method, &row.path, &headers, row.body.as_deref());
        let mut faults = Vec::new();
        match connection.send(&bytes).await {
            Ok(()) => {}
            // A server that closes need not read to the end; its answer still counts.
            Err(_) if row.closes => {}
            Err(error) => faults.push(format!("not taken: {error}")),
        }
        match connection.receive().await {
            Ok(answer) => {
                faults.extend(faults_of_answer(row, &answer));
                if own_id.is_some_and(|id| id != answer.header("x-request-id")) {
                    faults.push(format!("X-Request-Id is {:?}", answer.header("x-request-id")));
                }
                if !faults.is_empty() {
                    faults.push(format!("it was {} {}", answer.status, answer.text()));
                }
            }
            Err(error) => faults.push(format!("no answer: {error}")),
        }
        if row.closes {
            if !connection.is_closed_by_the_server().await {
                faults.push("the connection is still open".to_owned());
            }
            connection = Connection::open(app.app.address).await;
        }
        if !connection.is_usable().await {
            faults.push("the connection is not usable afterwards".to_owned());
            connection = Connection::open(app.app.address).await;
        }
        let after = contents.read().await;
        if after != before {
            let changed: Vec<&String> = after.iter().filter(|key| !before.contains(key)).collect();
            faults.push(format!("something was stored: {changed:?}"));
        }
        if !faults.is_empty() {
            wrong.push(format!("{} ({} {})\n    {}", row.name, row.method, row.path, faults.join("\n    ")));
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows are answered wrongly:\n\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

#[test]
fn rows_have_names_of_their_own() {
    let rows = rows::all();
    let mut names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    names.sort_unstable();
    let repeated: Vec<&[&str]> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(repeated.is_empty(), "{repeated:?}");
    assert!(rows.len() >= 80, "only {} rows", rows.len());
}

#[tokio::test]
async fn each_bad_ack_of_a_list_has_an_error_of_its_own() {
    let app = app(|_| {}).await;
    let good = app.client.enqueue_into("q").await;
    app.client.fetch("q", 1).await;
    let answer = app
        .client
        .post("/v1/workers/ack", json!({"acks": [5, {"worker_id": "w1"}, {"job_id": good}]}))
        .await
        .expect(200);
    for (index, field) in ["acks[0]", "acks[1].job_id"].into_iter().enumerate() {
        let error = answer.at(&format!("/results/{index}/error"));
        assert_eq!(error["code"], "invalid_request", "{error}");
        assert_eq!(error["details"]["field"], field, "{error}");
        assert_eq!(error["request_id"], answer.header("x-request-id"), "{error}");
    }
    assert_eq!(answer.text_at("/results/2/state"), "completed", "a bad neighbour does no harm");
}

/// Requests that are no HTTP, or too much of it. hyper answers them before there is a request, hence only with a
/// status, and closes the connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_http_is_refused_and_the_server_goes_on() {
    let app = app(|_| {}).await;
    let mut contents = Contents::of(&app.redis).await;
    let before = contents.read().await;
    let start = "POST /ojs/v1/jobs HTTP/1.1\r\nHost: fairgate\r\n";
    let job = r#"{"type":"test.job","args":[]}"#;
    let endless = format!("{start}X-Long: {}", "a".repeat(rows::MAX_HEADER));
    for (name, bytes, status) in [
        ("headers that are too long", endless[..rows::MAX_HEADER].to_owned(), 431),
        ("a path that is too long", format!("GET /{}", "a".repeat(rows::MAX_HEADER - 5)), 431),
        ("too many headers", format!("{start}{}\r\n", "X-Many: 1\r\n".repeat(150)), 431),
        ("no request line", "hello\r\n\r\n".to_owned(), 400),
        ("TLS", "\u{16}\u{3}\u{1}\u{0}\u{5}hello".to_owned(), 400),
        ("another version of HTTP", "GET / HTTP/9.9\r\n\r\n".to_owned(), 400),
        ("a method that is none", "G@T / HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("a path with a blank", "GET /a b HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("a header without a name", format!("{start}: 1\r\n\r\n"), 400),
        ("a header with a blank in its name", format!("{start}X Y: 1\r\n\r\n"), 400),
        ("a header with a NUL", format!("{start}X-Y: a\0b\r\n\r\n"), 400),
        ("a folded header", format!("{start}X-Y: a\r\n b\r\n\r\n"), 400),
        ("a length below zero", format!("{start}Content-Length: -5\r\n\r\n{job}"), 400),
        ("a length that is no number", format!("{start}Content-Length: few\r\n\r\n{job}"), 400),
        ("two lengths", format!("{start}Content-Length: 5\r\nContent-Length: {}\r\n\r\n{job}", job.len()), 400),
        ("a length that is absurd", format!("{start}Content-Length: 18446744073709551615\r\n\r\n"), 431),
        ("an unknown transfer encoding", format!("{start}Transfer-Encoding: gzip\r\n\r\n{job}"), 400),
    ] {
        let mut connection = Connection::open(app.app.address).await;
        connection.send(bytes.as_bytes()).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        let answer = connection.receive().await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(answer.status, status, "{name}: {}", answer.text());
        assert!(connection.is_closed_by_the_server().await, "{name}");
        assert!(Connection::open(app.app.address).await.is_usable().await, "{name}");
    }
    assert_eq!(contents.read().await, before, "nothing was stored");
}

/// A change to a good job.
#[derive(Clone, Debug)]
enum Mutation {
    /// A member with some JSON value, at top level or in `options`.
    Member {
        inside: bool,
        name: String,
        value: String,
    },
    Delete(Index),
    Replace(Index, u8),
    Insert(Index, u8),
    /// Everything behind some byte is missing.
    Cut(Index),
}

/// One of the words of a text.
fn one_of(words: &'static str) -> impl Strategy<Value = &'static str> {
    prop::sample::select(words.split_whitespace().collect::<Vec<_>>())
}

fn mutation() -> impl Strategy<Value = Mutation> {
    const NAMES: &str = "type args id meta queue priority timeout_ms timeout tags retry retry_policy scheduled_at
        delay_until expires_at visibility_timeout_ms visibility_timeout heartbeat_timeout total_timeout enqueue_ttl
        grace_period pending options metadata specversion unique rate_limit state";
    let name = prop_oneof![4 => one_of(NAMES).prop_map(str::to_owned), 1 => "[a-z_]{0,12}"];
    let member =
        (any::<bool>(), name, value()).prop_map(|(inside, name, value)| Mutation::Member { inside, name, value });
    // Bytes with a meaning in JSON are likelier to hurt.
    let byte = || prop_oneof![prop::sample::select(&b"{}[]\",:\\0-+.eEu \n\0\x7f\x80\xc3\xff"[..]), any::<u8>()];
    prop_oneof![
        6 => member,
        1 => any::<Index>().prop_map(Mutation::Delete),
        1 => (any::<Index>(), byte()).prop_map(|(at, byte)| Mutation::Replace(at, byte)),
        1 => (any::<Index>(), byte()).prop_map(|(at, byte)| Mutation::Insert(at, byte)),
        1 => any::<Index>().prop_map(Mutation::Cut),
    ]
}

/// The text of some JSON value.
fn value() -> impl Strategy<Value = String> {
    const NASTY: &str = r#"null true 0 -0 1 -1 1.0 1.5 100 1e2 1e400 -1e400 1e-400 9223372036854775807
        9223372036854775808 123456789012345678901234567890 "" "\u0000" "\ud800" "\ud83d\ude00" "1.0" "default"
        "P1D" "+PT1S" "2030-01-01T00:00:00Z" "9999-12-31T23:59:59.999999999Z" "0000-01-01T00:00:00Z" [] {}
        [[[[[[[[[[[[]]]]]]]]]]]]"#;
    const POLICY: &str = "max_attempts initial_interval max_interval_ms backoff_coefficient key concurrency rate
        throttle max_per_second on_limit";
    prop_oneof![
        6 => one_of(NASTY).prop_map(str::to_owned),
        1 => any::<i64>().prop_map(|number| number.to_string()),
        1 => any::<f64>().prop_map(|number| json!(number).to_string()),
        1 => "\\PC{0,40}".prop_map(|text| json!(text).to_string()),
        1 => any::<String>().prop_map(|text| json!([text, {text.clone(): text}]).to_string()),
        1 => (one_of(POLICY), one_of(NASTY)).prop_map(|(name, value)| format!("{{\"{name}\":{value}}}")),
    ]
}

/// The body of a good job with all mutations applied: members first, then bytes.
fn mutate(mutations: &[Mutation]) -> Vec<u8> {
    let mut top = String::from(r#"{"type":"test.mutant","args":[1,{"a":"\u00e9"}],"meta":{"k":"v"}"#);
    let mut options = String::from(r#"{"queue":"mutants","priority":5,"retry":{"max_attempts":3},"tags":["x"]"#);
    for mutation in mutations {
        if let Mutation::Member { inside, name, value } = mutation {
            let place = if *inside { &mut options } else { &mut top };
            place.push_str(&format!(",\"{name}\":{value}"));
        }
    }
    let mut body = format!("{top},\"options\":{options}}}}}").into_bytes();
    for mutation in mutations {
        // The byte that an index stands for, or the place behind the last one.
        let byte_at = |index: &Index| {
            let place = index.index(body.len() + 1);
            place..body.len().min(place + 1)
        };
        match mutation {
            Mutation::Member { .. } => {}
            Mutation::Delete(index) => _ = body.drain(byte_at(index)),
            Mutation::Replace(index, byte) => _ = body.splice(byte_at(index), [*byte]),
            Mutation::Insert(index, byte) => body.insert(byte_at(index).start, *byte),
            Mutation::Cut(index) => body.truncate(byte_at(index).start),
        }
    }
    body
}

#[test]
fn mutants_of_a_job_are_stored_or_refused_and_nothing_in_between() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let (app, contents, connection) = runtime.block_on(async {
        let app = app(|_| {}).await;
        let contents = Contents::of(&app.redis).await;
        let connection = Connection::open(app.app.address).await;
        (app, tokio::sync::Mutex::new(contents), tokio::sync::Mutex::new(connection))
    });
    let (stored, refused) = (Cell::new(0), Cell::new(0));
    let case = async |body: Vec<u8>| -> Result<(), TestCaseError> {
        let (mut contents, mut connection) = (contents.lock().await, connection.lock().await);
        let before = contents.read().await;
        let answered = async {
            connection.send(&request("POST", "/ojs/v1/jobs", &[], Some(&body))).await?;
            connection.receive().await
        };
        let answer = answered.await;
        if answer.is_err() {
            *connection = Connection::open(app.app.address).await;
        }
        let answer = answer.map_err(|error| TestCaseError::fail(format!("no answer: {error}")))?;
        let changed = contents.read().await != before;
        match answer.status {
            201 => {
                stored.set(stored.get() + 1);
                prop_assert!(changed, "201, but nothing was stored: {}", answer.text());
                let location = answer.header("location").to_owned();
                connection.send(&request("GET", &location, &[], None)).await?;
                let shown = connection.receive().await?;
                prop_assert_eq!(shown.status, 200, "stored, but not shown at {:?}: {}", location, shown.text());
                // The job itself, and again as it was answered.
                let text = answer.text();
                let job = text.strip_prefix("{\"job\":").and_then(|text| text.strip_suffix("}}")).unwrap_or_default();
                prop_assert_eq!(shown.text(), format!("{},{}", job, &text[1..]));
            }
            400..500 => {
                refused.set(refused.get() + 1);
                prop_assert!(!changed, "{}, but something was stored: {}", answer.status, answer.text());
                let faults = faults_of_form(&answer);
                prop_assert!(faults.is_empty(), "{:?}: {}", faults, answer.text());
            }
            other => return Err(TestCaseError::fail(format!("{other} {}", answer.text()))),
        }
        let usable = connection.is_usable().await;
        if !usable {
            *connection = Connection::open(app.app.address).await;
        }
        prop_assert!(usable, "the connection is not usable afterwards");
        Ok(())
    };
    let mut runner = TestRunner::new(Cases { cases: 256, ..Cases::default() });
    let mutants = prop::collection::vec(mutation(), 1..5);
    let outcome = runner.run(&mutants, |mutations| {
        let body = mutate(&mutations);
        let text = String::from_utf8_lossy(&body).into_owned();
        runtime.block_on(case(body)).map_err(|error| TestCaseError::fail(format!("{error}\nbody: {text}")))
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let (stored, refused) = (stored.get(), refused.get());
    assert!(stored > 10 && refused > 10, "one-sided mutants: {stored} stored, {refused} refused");
    // Whatever was taken can be handed out and told about.
    runtime.block_on(async {
        app.client.fetch("mutants", 1000).await;
        app.client.get("/v1/events?limit=1000").await.expect(200);
        app.client.get("/v1/queues/mutants/stats").await.expect(200);
    });
}

/// A request of which only a part is sent.
fn half_a_request(body: &str) -> Vec<u8> {
    let bytes = request("POST", "/ojs/v1/jobs", &[], Some(body.as_bytes()));
    bytes[..bytes.len() - body.len() / 2].to_vec()
}

const JOB: &str = r#"{"type":"test.job","args":["a body of which half is sent"]}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_go_away_in_the_middle_leave_no_trace() {
    let app = app(|_| {}).await;
    let open = app.app.metrics.http.connections();
    let mut contents = Contents::of(&app.redis).await;
    let before = contents.read().await;
    let mut witness = Connection::open(app.app.address).await;
    assert!(witness.is_usable().await);
    let mut halves = Vec::new();
    for part in
        [half_a_request(JOB), b"POST /ojs/v1/jobs HT".to_vec(), b"POST /ojs/v1/jobs HTTP/1.1\r\nHost: f".to_vec()]
    {
        for _ in 0..20 {
            let mut connection = Connection::open(app.app.address).await;
            connection.send(&part).await.expect("sent");
            halves.push(connection);
        }
    }
    eventually("all of them are connected", async || open.get() == 61).await;
    assert!(witness.is_usable().await, "others are served while they dawdle");
    drop(halves);
    eventually("they are gone", async || open.get() == 1).await;
    assert_eq!(contents.read().await, before, "nothing was stored");
    assert!(witness.is_usable().await);
    app.client.enqueue_into("q").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_client_that_finishes_is_served() {
    let app = app(|_| {}).await;
    let mut connection = Connection::open(app.app.address).await;
    for byte in request("POST", "/ojs/v1/jobs", &[], Some(JOB.as_bytes())) {
        connection.send(&[byte]).await.expect("sent");
    }
    assert_eq!(connection.receive().await.expect("an answer").status, 201);
    assert!(connection.is_usable().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_taken_by_a_client_that_goes_away_is_free_again() {
    let app = app(|config| config.limits.max_connections = 2).await;
    let mut halves = Vec::new();
    for _ in 0..2 {
        let mut connection = Connection::open(app.app.address).await;
        connection.send(&half_a_request(JOB)).await.expect("sent");
        halves.push(connection);
    }
    let open = app.app.metrics.http.connections();
    eventually("both places are taken", async || open.get() == 2).await;
    let mut waiting = Connection::open(app.app.address).await;
    let served = tokio::spawn(async move { waiting.is_usable().await });
    halves.pop();
    assert!(served.await.expect("no panic"), "the next in the backlog is served");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_never_finishes_is_told_so_and_leaves_no_trace() {
    let app = app(|config| config.limits.request_timeout = Duration::from_millis(300)).await;
    let mut contents = Contents::of(&app.redis).await;
    let before = contents.read().await;
    let mut connection = Connection::open(app.app.address).await;
    connection.send(&half_a_request(JOB)).await.expect("sent");
    let answer = connection.receive().await.expect("an answer");
    assert!(connection.is_closed_by_the_server().await);
    assert_eq!(contents.read().await, before, "nothing was stored");
    assert!(Connection::open(app.app.address).await.is_usable().await);
    assert_eq!(answer.status, 408, "the client is late, not the store: {}", answer.text());
}
