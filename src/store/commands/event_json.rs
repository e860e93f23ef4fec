//! The JSON form of events.

use super::Event;
use super::codec::event;
use crate::domain::tenant_id::DEFAULT;
use crate::domain::{json, time};

impl Event {
    /// Returns the event as JSON.
    pub fn to_json(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    /// Appends the event as JSON.
    pub fn write(&self, out: &mut String) {
        push_event(out, self);
    }
}

fn push_event(out: &mut String, event: &Event) {
    let component = event.kind.split('.').next().unwrap_or("server");
    out.push_str(&format!(
        "{{\"specversion\":\"1.0\",\"id\":\"{}\",\"type\":\"{}\",\"source\":\"ojs://fairgate/{component}\",\"time\":\"{}\",\"subject\":",
        event.id,
        event.kind,
        time::rfc3339(event.time)
    ));
    json::push_text(out, &event.subject);
    out.push_str(",\"data\":{");
    let mut separator = "";
    let name = match component {
        "worker" => "worker_id",
        "weights" | "planner" => "rule",
        "auth" => "key_id",
        "main_queue" => "main_queue",
        "workflow" => "workflow_id",
        "cron" => "cron_name",
        // These have the name in their data already.
        "queue" | "backpressure" | "tenant" | "scheduling" => "",
        _ => "job_id",
    };
    let tenant = event.tenant.as_deref().filter(|tenant| *tenant != DEFAULT).unwrap_or_default();
    let members = [
        (name, event.subject.as_str()),
        ("job_type", &event.job_type),
        ("queue", &event.queue),
        ("trace_id", &event.trace),
        ("tenant_id", tenant),
    ];
    for (name, value) in members.into_iter().filter(|(name, value)| !name.is_empty() && !value.is_empty()) {
        out.push_str(&format!("{separator}\"{name}\":"));
        json::push_text(out, value);
        separator = ",";
    }
    if !event.data.is_empty() {
        out.push_str(separator);
        push_data(out, &event.data);
    }
    out.push_str("}}");
}

/// Appends the data. Scripts cannot format timestamps, so they put milliseconds between group
/// separators.
fn push_data(out: &mut String, data: &str) {
    for (index, part) in event::data_parts(data).enumerate() {
        match part.parse() {
            Ok(ms) if index % 2 == 1 => {
                out.push('"');
                time::write_rfc3339(out, ms);
                out.push('"');
            }
            _ => out.push_str(part),
        }
    }
}
