//! Valid jobs with random mutations: members, bytes, truncation.

use super::{Contents, app, faults_of_form};
use crate::support::json;
use crate::support::wire::{Connection, request};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config as Cases, TestCaseError, TestRunner};
use std::cell::Cell;

/// A mutation of a valid job.
#[derive(Clone, Debug)]
enum Mutation {
    /// Sets a member to a JSON value, at top level or in `options`.
    Member {
        inside: bool,
        name: String,
        value: String,
    },
    Delete(Index),
    Replace(Index, u8),
    Insert(Index, u8),
    /// Removes everything after a byte.
    Cut(Index),
}

/// Selects one of the words of a text.
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
    // Bytes with a meaning in JSON are more likely to cause errors.
    let byte = || prop_oneof![prop::sample::select(&b"{}[]\",:\\0-+.eEu \n\0\x7f\x80\xc3\xff"[..]), any::<u8>()];
    prop_oneof![
        6 => member,
        1 => any::<Index>().prop_map(Mutation::Delete),
        1 => (any::<Index>(), byte()).prop_map(|(at, byte)| Mutation::Replace(at, byte)),
        1 => (any::<Index>(), byte()).prop_map(|(at, byte)| Mutation::Insert(at, byte)),
        1 => any::<Index>().prop_map(Mutation::Cut),
    ]
}

/// Removes `waiting_for`, which only GET of a job returns.
fn without_wait(text: &str) -> String {
    let mut parts = text.split(",\"waiting_for\":{");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('}').map_or("", |(_, rest)| rest))
}

/// Generates the text of a JSON value.
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

/// Applies all mutations to a valid job: members first, then bytes.
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
        // Maps an index to a byte position, or to the end.
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
                prop_assert_eq!(
                    without_wait(&shown.text()),
                    answer.text(),
                    "GET returns the same document as the response"
                );
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
    // Every accepted job can be fetched and shown.
    runtime.block_on(async {
        app.client.fetch("mutants", 1000).await;
        app.client.get("/v1/events?limit=1000").await.expect(200);
        app.client.get("/v1/queues/mutants/stats").await.expect(200);
    });
}
