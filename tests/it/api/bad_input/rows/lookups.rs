//! Invalid queries, and resources that do not exist.

use super::*;

pub(super) fn all() -> Vec<Row> {
    [queries(), lookups()].into_iter().flatten().collect()
}

fn queries() -> Vec<Row> {
    let mut rows = Vec::new();
    for list in ["dead-letter", "queues", "rate-limits", "admin/pools"] {
        for (query, field) in [
            ("limit=0", "limit"),
            ("limit=-1", "limit"),
            ("limit=ten", "limit"),
            ("limit=1.5", "limit"),
            ("limit=99999999999999999999999", "limit"),
            ("limit=5&limit=x", "limit"),
            ("limit=%ff", "limit"),
            ("offset=-1", "offset"),
            ("offset=x", "offset"),
            ("offset=18446744073709551615", "offset"),
            ("cursor=bogus", "cursor"),
            ("cursor=after-", "cursor"),
            ("cursor=after--1", "cursor"),
            ("cursor=after-99999999999", "cursor"),
            ("page=0", "page"),
            ("page=x", "page"),
            ("page=18446744073709551615", "page"),
            ("per_page=0", "per_page"),
            ("per_page=-5", "per_page"),
            ("page=1&per_page=many", "per_page"),
        ] {
            let path = format!("/v1/{list}?{query}");
            rows.push(Row::get(format!("{list} with {query}"), path).field(field));
        }
    }
    for value in ["yesterday", "2026-01-01", "2026-01-01T00:00:00", "1767225600", "%2BPT5S", "2026-01-01T00:00:00%2B02"]
    {
        for name in ["since", "until"] {
            let path = format!("/v1/dead-letter?{name}={value}");
            rows.push(Row::get(format!("dead letters {name} {value}"), path).field(name));
        }
    }
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=-1", "limit"),
        ("limit=x", "limit"),
        ("limit=99999999999999999999999", "limit"),
        ("after=bogus", "after"),
        ("after=0-0", "after"),
        ("after=evt_", "after"),
        ("after=evt_f47ac10b-58cc-4372-a567-0e02b2c3d479", "after"),
        ("after=evt_019461A8-1A2B-7C3D-8E4F-5A6B7C8D9E0F", "after"),
        ("after=%00", "after"),
        ("cursor=bogus", "cursor"),
        ("cursor=after-5", "cursor"),
    ] {
        rows.push(Row::get(format!("events with {query}"), format!("/v1/events?{query}")).field(field));
    }
    rows
}

/// Lookups with an invalid or unknown name.
fn lookups() -> Vec<Row> {
    let mut rows = Vec::new();
    let odd = [
        "x",
        "f47ac10b-58cc-4372-a567-0e02b2c3d479",
        "019461A8-1A2B-7C3D-8E4F-5A6B7C8D9E0F",
        "%00",
        "a%2Fb",
        "*",
        "%0D%0AX:1",
    ];
    for id in odd.iter().chain(&[FREE]) {
        for (method, path, resource) in [
            ("GET", format!("/v1/jobs/{id}"), "job"),
            ("DELETE", format!("/v1/jobs/{id}"), "job"),
            ("POST", format!("/v1/jobs/{id}/cancel"), "job"),
            ("POST", format!("/v1/jobs/{id}/activate"), "job"),
            ("GET", format!("/v1/dead-letter/{id}"), "dead letter"),
            ("DELETE", format!("/v1/dead-letter/{id}"), "dead letter"),
            ("POST", format!("/v1/dead-letter/{id}/retry"), "dead letter"),
            ("GET", format!("/v1/queues/{id}"), "queue"),
            ("GET", format!("/v1/queues/{id}/stats"), "queue"),
            ("DELETE", format!("/v1/workers/{id}"), "worker"),
            ("GET", format!("/v1/admin/jobs/{id}"), "job"),
            ("GET", format!("/v1/admin/pools/{id}"), "pool"),
            ("DELETE", format!("/v1/admin/pools/{id}"), "pool"),
            ("GET", format!("/v1/rate-limits/{id}"), "rate limit"),
            ("DELETE", format!("/v1/rate-limits/{id}"), "override"),
            ("GET", format!("/v1/admin/queues/{id}/rate-limit"), "limit of queue"),
            ("DELETE", format!("/v1/admin/queues/{id}/rate-limit"), "limit of queue"),
        ] {
            rows.push(Row::new(format!("{method} {path}"), method, path).missing(resource));
        }
    }
    for (method, path, field) in [
        ("GET", "/v1/jobs/%FF", "id"),
        ("DELETE", "/v1/jobs/%C3%28", "id"),
        ("POST", "/v1/jobs/%FF/cancel", "id"),
        ("POST", "/v1/jobs/%FF/ack", "id"),
        ("GET", "/v1/dead-letter/%FF", "id"),
        ("POST", "/v1/dead-letter/%FF/retry", "id"),
        ("GET", "/v1/queues/%FF", "name"),
        ("GET", "/v1/queues/%FF/stats", "name"),
        ("DELETE", "/v1/workers/%FF", "id"),
        ("GET", "/v1/admin/pools/%FF", "name"),
        ("PUT", "/v1/admin/pools/%FF", "name"),
        ("GET", "/v1/rate-limits/%FF", "key"),
        ("PUT", "/v1/rate-limits/%FF", "key"),
        ("PUT", "/v1/admin/queues/%FF/rate-limit", "name"),
    ] {
        rows.push(Row::new(format!("{method} {path}"), method, path).field(field));
    }
    let taken = |verb: &str| format!("/v1/jobs/{TAKEN}/{verb}");
    rows.push(Row::new("activate what is not pending", "POST", taken("activate")).is(409, "conflict"));
    rows.push(Row::get("a dead letter that lives", format!("/v1/dead-letter/{TAKEN}")).missing("dead letter"));
    rows.into_iter()
        .map(|row| if row.status == 409 { row.with("/error/details/current_state", json!("available")) } else { row })
        .collect()
}
