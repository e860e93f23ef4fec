use super::*;
use crate::domain::limit::LimitKey;

const LIMITS: RequestLimits =
    RequestLimits { max_envelope: 10_000, max_meta: 1000, max_result: 1000, max_batch: 1, max_nesting: 9 };

fn parse(text: &str) -> Result<CronJob, Invalid> {
    CronJob::parse(text, &LIMITS, None)
}

#[test]
fn both_dialects_read_the_same_and_the_document_reads_back() {
    let nested = parse(r#"{"name":"n","expression":"@daily","job_template":{"type":"a.b","args":[1.0]}}"#).unwrap();
    let flat = parse(r#"{"name":"n","cron":"@daily","type":"a.b","args":[1.0]}"#).unwrap();
    assert_eq!(nested.template, flat.template);
    assert_eq!((nested.overlap, nested.enabled, nested.timezone.as_str()), (Overlap::Skip, true, "UTC"));
    assert_eq!(CronJob::stored(&nested.document()), Ok(nested));
    let bare = parse(r#"{"name":"n","schedule":"@daily","type":"a.b","overlap_policy":"replace"}"#).unwrap();
    assert_eq!((bare.template.as_str(), bare.overlap.name()), (r#"{"type":"a.b","args":[]}"#, "cancel_previous"));
    let empty = parse(r#"{"name":"n","expression":"@daily","job_template":{"type":"a.b","args":null}}"#).unwrap();
    assert_eq!(empty.template, bare.template);
}

#[test]
fn a_change_changes_what_it_names() {
    let cron = parse(r#"{"name":"n","expression":"@daily","timezone":"Europe/Berlin","type":"a.b"}"#).unwrap();
    let off = cron.changed(r#"{"enabled":false}"#, &LIMITS, None).unwrap();
    assert_eq!(off, CronJob { enabled: false, ..cron.clone() });
    assert_eq!(cron.changed(r#"{"name":"n"}"#, &LIMITS, None), Ok(cron.clone()));
    assert_eq!(cron.changed(r#"{"name":"m"}"#, &LIMITS, None).unwrap_err().field, "name");
    let other = cron.changed(r#"{"type":"c.d","args":[2]}"#, &LIMITS, None).unwrap();
    assert_eq!(other.template, r#"{"type":"c.d","args":[2]}"#);
}

#[test]
fn a_queue_beside_the_template_is_that_of_its_jobs() {
    let queue = |cron: &CronJob| cron.job(0, &LIMITS).unwrap().queue;
    let base = r#""name":"n","expression":"@daily","queue":"mail""#;
    for (template, expected) in [
        (r#""type":"a.b""#, "mail"),
        (r#""type":"a.b","args":[1],"options":{"priority":1}"#, "mail"),
        (r#""type":"a.b","options":{"queue":"own"}"#, "own"),
        (r#""job_template":{"type":"a.b"}"#, "mail"),
        (r#""job_template":{"type":"a.b","args":[],"queue":"own"}"#, "own"),
        (r#""job_template":{"type":"a.b","options":{"queue":"own","priority":1}}"#, "own"),
    ] {
        let cron = parse(&format!("{{{base},{template}}}")).unwrap();
        assert_eq!(queue(&cron), expected, "{template}");
        let moved = cron.changed(r#"{"queue":"bulk"}"#, &LIMITS, None).unwrap();
        assert_eq!((queue(&moved).as_str(), moved.kind().as_str()), ("bulk", "a.b"), "{template}");
        assert_eq!(CronJob::stored(&moved.document()), Ok(moved.clone()));
        let before = cron.job(0, &LIMITS).unwrap();
        assert_eq!(moved.job(0, &LIMITS).unwrap().priority, before.priority, "{template}");
    }
    for (text, field) in [(r#"{"queue":"No"}"#, "queue"), (r#"{"queue":1}"#, "queue")] {
        let cron = parse(r#"{"name":"n","expression":"@daily","type":"a.b"}"#).unwrap();
        assert_eq!(cron.changed(text, &LIMITS, None).unwrap_err().field, field);
    }
}

#[test]
fn jobs_say_which_cron_made_them_and_for_when() {
    let cron = parse(r#"{"name":"n","expression":"@daily","type":"a.b","meta":{"x":1}}"#).unwrap();
    let job = cron.job(1_770_892_200_000, &LIMITS).unwrap();
    assert_eq!(job.meta(), r#"{"cron_name":"n","cron_triggered_at":"2026-02-12T10:30:00.000Z","x":1}"#);
    let queued = cron.changed(r#"{"overlap_policy":"queue"}"#, &LIMITS, None).unwrap().job(0, &LIMITS).unwrap();
    assert_eq!(queued.rate_limit.and_then(|limit| limit.key), Some(LimitKey::key("cron:n")));
}

#[test]
fn a_tenant_of_its_own_is_that_of_its_jobs() {
    let flat = r#"{"name":"n","expression":"@daily","type":"a.b"}"#;
    let cron = CronJob::parse(flat, &LIMITS, Some("acme")).unwrap();
    assert_eq!(cron.job(0, &LIMITS).unwrap().tenant.as_deref(), Some("acme"));
    assert_eq!(CronJob::stored(&cron.document()), Ok(cron.clone()));
    assert_eq!(cron.changed(r#"{"enabled":true}"#, &LIMITS, None), Ok(cron));
    for (more, by_header, field) in [
        (r#""tenant_id":"beta""#, Some("acme"), "tenant_id"),
        (r#""tenant_id":7"#, None, "tenant_id"),
        (r#""tenant_id":"acme","meta":{"tenant_id":"beta"}"#, None, "meta.tenant_id"),
    ] {
        let text = format!(r#"{{"name":"n","expression":"@daily","type":"a.b",{more}}}"#);
        assert_eq!(CronJob::parse(&text, &LIMITS, by_header).unwrap_err().field, field, "{more}");
    }
}

#[test]
fn every_counts_from_its_anchor_and_makes_up_for_nothing() {
    let timing = Timing::parse("@every 1h30m", "UTC").unwrap();
    assert_eq!(timing, Timing::Every(5_400_000));
    assert_eq!(
        [0, 100, 5_400_099, 5_400_100, 20_000_000].map(|now| timing.next_after(now, 100)),
        [5_400_100, 5_400_100, 5_400_100, 10_800_100, 21_600_100].map(Some)
    );
    for wrong in ["@every", "@every x", "@every 0s", "@every 999ms", "@every -1h", "@every 1h 30m!"] {
        assert!(Timing::parse(wrong, "UTC").is_err(), "{wrong}");
    }
}

#[test]
fn says_which_field_is_wrong() {
    for (text, field) in [
        (r#"{"expression":"@daily","type":"a.b"}"#, "name"),
        (r#"{"name":"Up","expression":"@daily","type":"a.b"}"#, "name"),
        (r#"{"name":"n","type":"a.b"}"#, "expression"),
        (r#"{"name":"n","expression":"x","type":"a.b"}"#, "expression"),
        (r#"{"name":"n","cron":"* * * * * * *","type":"a.b"}"#, "cron"),
        (r#"{"name":"n","expression":"@daily"}"#, "job_template.type"),
        (r#"{"name":"n","expression":"@daily","args":[]}"#, "type"),
        (r#"{"name":"n","expression":"@daily","job_template":[]}"#, "job_template"),
        (r#"{"name":"n","expression":"@daily","job_template":{"type":"A"}}"#, "job_template.type"),
        (r#"{"name":"n","expression":"@daily","job_template":{"type":"a","id":"1"}}"#, "job_template.id"),
        (r#"{"name":"n","expression":"@daily","type":"a.b","timezone":"+02:00"}"#, "timezone"),
        (r#"{"name":"n","expression":"@daily","type":"a.b","overlap_policy":"x"}"#, "overlap_policy"),
        (r#"{"name":"n","expression":"@daily","type":"a.b","enabled":1}"#, "enabled"),
        (
            r#"{"name":"n","expression":"@daily","type":"a.b","overlap_policy":"enqueue","options":{"rate_limit":{"key":"k"}}}"#,
            "rate_limit",
        ),
    ] {
        assert_eq!(parse(text).expect_err(text).field, field, "{text}");
    }
}
