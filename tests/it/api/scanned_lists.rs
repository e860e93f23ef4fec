//! Lists that scan keys: jobs and workflows. Each page reads a bounded number of keys, and all pages together return
//! everything.

use crate::support::{Client, TestApp, json};
use serde_json::Value;
use std::collections::BTreeSet;

/// All items of a list and the number of pages; no page is longer than requested.
async fn all_pages(client: &Client, path: &str, headers: &[(&str, &str)], limit: usize) -> (Vec<Value>, usize) {
    let (mut items, mut pages, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let path = format!("{path}limit={limit}{cursor}");
        let page = client.try_send("GET", &path, headers, None).await.unwrap().expect(200);
        let shown = page.at("/items").as_array().unwrap();
        assert!(shown.len() <= limit, "{}", page.text);
        items.extend(shown.iter().cloned());
        pages += 1;
        if page.at("/pagination/has_more") == false {
            assert_eq!(page.at("/pagination/next_cursor"), &Value::Null);
            return (items, pages);
        }
        cursor = format!("&cursor={}", page.text_at("/pagination/next_cursor"));
    }
}

fn ids(items: &[Value]) -> BTreeSet<String> {
    items.iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

async fn enqueue(client: &Client, count: usize, queue: &str, kind: &str, tenant: &str) -> BTreeSet<String> {
    let job = json!({"type": kind, "args": [], "queue": queue, "meta": {"tenant_id": tenant}});
    let made = client.post("/v1/jobs/batch", json!({"jobs": vec![job; count]})).await.expect(201);
    made.job_ids().into_iter().collect()
}

#[tokio::test]
async fn all_jobs_are_listed_for_any_page_size() {
    let app = TestApp::start().await;
    let made = enqueue(&app.client, 300, "mail", "mail.send", "acme").await;
    for limit in [1, 7, 200] {
        let (items, _) = all_pages(&app.client, "/v1/jobs?", &[], limit).await;
        assert_eq!(ids(&items), made, "in pages of {limit}");
    }
    let page = app.client.get("/v1/jobs").await.expect(200);
    assert_eq!((page.at("/items"), page.at("/pagination/limit")), (page.at("/jobs"), &json!(50)));
}

#[tokio::test]
async fn filters_choose_by_state_queue_type_and_tenant() {
    let app = TestApp::start().await;
    let client = &app.client;
    let mail = enqueue(client, 20, "mail", "mail.send", "acme").await;
    let bulk = enqueue(client, 20, "bulk", "mail.bulk", "beta").await;
    let taken: BTreeSet<String> = client.fetch("bulk", 5).await.job_ids().into_iter().collect();
    for (query, expected) in [
        ("queue=mail&", mail.clone()),
        ("type=mail.bulk&", bulk.clone()),
        ("type=mail.*&", mail.union(&bulk).cloned().collect()),
        ("state=active&", taken.clone()),
        ("state=active,completed&queue=mail&", BTreeSet::new()),
        ("tenant=beta&state=available&", bulk.difference(&taken).cloned().collect()),
        ("tenant=_default&", BTreeSet::new()),
    ] {
        assert_eq!(ids(&all_pages(client, &format!("/v1/jobs?{query}"), &[], 6).await.0), expected, "{query}");
    }
    let of_acme = all_pages(client, "/v1/jobs?", &[("x-ojs-tenant", "acme")], 6).await.0;
    assert_eq!(ids(&of_acme), mail);
    assert!(all_pages(client, "/v1/jobs?tenant=beta&", &[("x-ojs-tenant", "acme")], 6).await.0.is_empty());
    for (query, field) in [
        ("state=odd", "state"),
        ("tenant=%01", "tenant"),
        ("cursor=after-5", "cursor"),
        ("page=2", "page"),
        ("offset=5", "offset"),
        ("limit=0", "limit"),
    ] {
        let refused = client.get(&format!("/v1/jobs?{query}")).await.expect(400);
        assert_eq!(refused.text_at("/error/details/field"), field);
    }
}

#[tokio::test]
async fn a_page_reads_a_bounded_number_of_keys() {
    let app = TestApp::start().await;
    let made = enqueue(&app.client, 3, "mail", "mail.send", "acme").await;
    // A key of another application in the same Redis.
    let fill = "for i = 1, 60000 do redis.call('SET', 'other:' .. i, '') end";
    let _: () = app.redis.command(&["EVAL", fill, "0"]).await;
    let (items, pages) = all_pages(&app.client, "/v1/jobs?", &[], 50).await;
    assert_eq!(ids(&items), made);
    assert!(pages > 2, "{pages}");
}

#[tokio::test]
async fn workflows_are_listed_without_their_parts() {
    let app = TestApp::start().await;
    let client = &app.client;
    let job = json!({"type": "a.b", "args": []});
    let mut made = BTreeSet::new();
    for number in 0..30 {
        let tenant = if number % 3 == 0 { "acme" } else { "beta" };
        let workflow =
            json!({"type": "chain", "name": format!("n{number}"), "steps": [job, job], "meta": {"tenant_id": tenant}});
        let begun =
            client.try_send("POST", "/v1/workflows", &[("x-ojs-tenant", tenant)], Some(workflow.to_string())).await;
        made.insert(begun.unwrap().expect(201).text_at("/id").to_owned());
    }
    let group = client.post("/v1/workflows", json!({"type": "group", "jobs": [job]})).await.expect(201);
    let group = group.text_at("/id").to_owned();
    client.delete(&format!("/v1/workflows/{group}")).await.expect(200);
    for limit in [4, 100] {
        let (items, _) = all_pages(client, "/v1/workflows?", &[], limit).await;
        let all: BTreeSet<String> = made.iter().chain([&group]).cloned().collect();
        assert_eq!(ids(&items), all, "in pages of {limit}");
        assert!(items.iter().all(|item| item.get("steps").is_none() && item["metadata"]["job_count"].is_u64()));
    }
    for (query, expected) in [("state=running&", made.len()), ("state=cancelled&type=group&", 1), ("tenant=acme&", 10)]
    {
        assert_eq!(
            ids(&all_pages(client, &format!("/v1/workflows?{query}"), &[], 9).await.0).len(),
            expected,
            "{query}"
        );
    }
    let of_acme = all_pages(client, "/v1/workflows?", &[("x-ojs-tenant", "acme")], 9).await.0;
    assert_eq!(ids(&of_acme).len(), 10);
    for (query, field) in [("state=odd", "state"), ("type=odd", "type"), ("cursor=x", "cursor")] {
        let refused = client.get(&format!("/v1/workflows?{query}")).await.expect(400);
        assert_eq!(refused.text_at("/error/details/field"), field);
    }
}
