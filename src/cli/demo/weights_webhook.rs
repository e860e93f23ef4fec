//! The weights webhook of the demo, as a user would write one.

use super::scenario::QUIET;
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::post;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Starts the webhook on a free port and returns its URL.
pub(super) async fn start(tasks: &TaskTracker, stop: CancellationToken) -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/weights", listener.local_addr()?);
    let router = Router::new().route("/weights", post(answer));
    tasks.spawn(async move {
        let server = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned());
        if let Err(error) = server.await {
            tracing::warn!(%error, "the weights webhook of the demo stopped");
        }
    });
    Ok(url)
}

async fn answer(body: String) -> impl IntoResponse {
    let request = serde_json::from_str(&body).unwrap_or(Value::Null);
    ([(CONTENT_TYPE, "application/json")], weights(&request).to_string())
}

/// Returns weight 3 for the first quiet tenant, which pays for it, and 1 for all others.
fn weights(request: &Value) -> Value {
    let tenants = request["tenants"].as_array().map(Vec::as_slice).unwrap_or_default();
    let weight = |id: &str| if id == QUIET[0] { 3 } else { 1 };
    let weights: Map<String, Value> = tenants
        .iter()
        .filter_map(|tenant| tenant["id"].as_str())
        .map(|id| (id.to_owned(), json!(weight(id))))
        .collect();
    json!({"weights": weights})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_requested_tenant_gets_a_weight() {
        let request = json!({"rule": "reports", "tenants": [{"id": "acme"}, {"id": "noisy"}]});
        assert_eq!(weights(&request), json!({"weights": {"acme": 3, "noisy": 1}}));
        assert_eq!(weights(&json!({})), json!({"weights": {}}));
    }
}
