//! W3C trace context, kept with the job from the request that enqueues it to the worker that runs
//! it.

use crate::domain::json;

/// Members of `meta` that are copied from request headers of the same name.
pub const HEADERS: [&str; 3] = ["traceparent", "tracestate", "baggage"];

/// Returns the trace id inside a well-formed `traceparent`.
pub fn trace_id(traceparent: &str) -> Option<&str> {
    let mut parts = traceparent.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_set = |text: &str| text.bytes().any(|byte| byte != b'0');
    let valid = is_hex(version, 2) && is_hex(trace, 32) && is_hex(span, 16) && is_hex(flags, 2);
    (valid && version != "ff" && is_set(trace) && is_set(span)).then_some(trace)
}

/// Returns the trace id in a job's `meta`: from `traceparent`, else from a plain `trace_id`.
pub fn of_meta(meta: &json::Object<'_>) -> Option<String> {
    let parent = meta.get("traceparent").and_then(json::text);
    if let Some(id) = parent.as_deref().and_then(trace_id) {
        return Some(id.to_owned());
    }
    let plain = meta.get("trace_id").and_then(json::text)?;
    let safe =
        (1..=64).contains(&plain.len()) && plain.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    safe.then(|| plain.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_trace_id() {
        let id = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(trace_id(&format!("00-{id}-00f067aa0ba902b7-01")), Some(id));
        for bad in [
            "",
            "00-xyz",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(trace_id(bad), None, "{bad}");
        }
    }
}
