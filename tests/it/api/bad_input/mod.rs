//! Invalid requests of any kind get a precise error, nothing is stored, and the server continues.

mod connections;
mod mutants;
mod rows;
mod table;

use crate::support::wire::Response;
use crate::support::{TestApp, TestRedis};
use fairgate::config::{Config, Role};
use redis::aio::MultiplexedConnection;
use serde_json::Value;

/// Starts a server with small limits and without the tick, so that only requests change data.
async fn app(change: impl FnOnce(&mut Config)) -> TestApp {
    TestApp::start_with(Default::default(), |config| {
        config.server.roles = vec![Role::Api];
        rows::limits(&mut config.limits);
        change(config);
    })
    .await
}

/// The contents of a Redis: all keys, sorted, with a digest of their values.
struct Contents(MultiplexedConnection);

impl Contents {
    async fn of(redis: &TestRedis) -> Self {
        Contents(redis.connection().await)
    }

    async fn read(&mut self) -> Vec<String> {
        // The order in the dump of a large hash changes while Redis rehashes it.
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

/// The faults of an error response in the members that all share.
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
