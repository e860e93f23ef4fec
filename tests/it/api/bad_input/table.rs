//! Sends every row of the table of malformed requests to a server.

use super::rows::{self, Row};
use super::{Contents, app, faults_of_form};
use crate::support::json;
use crate::support::wire::{Connection, Response, request};
use serde_json::Value;

/// The faults of the response to a row.
fn faults_of_answer(row: &Row, answer: &Response) -> Vec<String> {
    if answer.status != row.status {
        return vec![format!("status is {}, not {}", answer.status, row.status)];
    }
    let mut faults = faults_of_form(answer);
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let error = &body["error"];
    if row.closes && answer.header("connection") != "close" {
        // A client that is not told about the close reuses the connection and loses its next request.
        faults.push("the connection ends, but no header says so".to_owned());
    }
    if error["code"] != row.code {
        faults.push(format!("code is {}, not {:?}", error["code"], row.code));
    }
    if let Some(field) = &row.field {
        let (reported, message) = (&error["details"]["field"], error["message"].as_str().unwrap_or_default());
        if reported != field {
            faults.push(format!("details.field is {reported}, not {field:?}"));
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
        // Every other request has its own request id, which must be returned.
        let own_id = (number % 2 == 1).then(|| format!("row-{number}"));
        let mut headers = row.headers.clone();
        headers.extend(own_id.iter().map(|id| ("X-Request-Id", id.clone().into_bytes())));
        let bytes = request(row.method, &row.path, &headers, row.body.as_deref());
        let mut faults = Vec::new();
        match connection.send(&bytes).await {
            Ok(()) => {}
            // A server that closes the connection need not read the whole request; its response still counts.
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
fn rows_have_distinct_names() {
    let rows = rows::all();
    let mut names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    names.sort_unstable();
    let repeated: Vec<&[&str]> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(repeated.is_empty(), "{repeated:?}");
    assert!(rows.len() >= 80, "only {} rows", rows.len());
}

#[tokio::test]
async fn each_invalid_ack_of_a_list_has_its_own_error() {
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
