//! Answers about the health of this server.

use schemars::JsonSchema;
use serde::Serialize;

/// The health of the server and its store.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Health {
    #[schemars(extend("enum" = ["ok", "unhealthy"]))]
    pub status: &'static str,
    /// The version of the Open Job Spec.
    pub version: &'static str,
    pub uptime_seconds: u64,
    pub backend: BackendHealth,
    pub queues: QueueNumbers,
    pub workers: WorkerNumbers,
}

/// The health of the store.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct BackendHealth {
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub status: &'static str,
    /// The duration of one call, in whole milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'static str>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct QueueNumbers {
    pub active: u64,
    pub paused: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct WorkerNumbers {
    pub connected: u64,
    pub stale: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Ready {
    #[schemars(extend("enum" = ["ready"]))]
    pub status: &'static str,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct NotReady {
    #[schemars(extend("enum" = ["not_ready"]))]
    pub status: &'static str,
    pub reason: &'static str,
}
