//! New jobs: their fields and lanes. The counterparts are `lua/queue/enqueue.lua` and
//! `lua/queue/lane.lua`, and for policies `lua/queue/unique.lua` and `lua/queue/failure.lua`.

use super::wire;
use crate::domain::escape::escape;
use crate::domain::job::retry::{DEFAULT_MAX_ATTEMPTS, RetryPolicy};
use crate::domain::job::{Keeps, NewJob, Outward, State, Timeouts, Unique};
use crate::domain::limit::OnLimit;
use crate::domain::time::At;

/// Returns the fields that differ from the default, as `name US value US …`; empty for most jobs.
pub fn further_fields(job: &NewJob) -> String {
    let mut packed = String::new();
    let mut push = |name: &str, value: &str| wire::push_field(&mut packed, name, value);
    if let Some(plan) = &job.plan {
        push("rule", &plan.rule);
        push("tenant", &escape(&plan.tenant));
        // Right after the rule and the tenant, where `lua/staging/outbox_target.lua` expects it.
        job.outward.iter().for_each(|outward| push("push", &pushed(job, outward)));
    } else if let Some(tenant) = &job.tenant {
        push("tenant", &escape(tenant));
    }
    if let Some(limit) = job.rate_limit.as_ref().filter(|limit| !limit.quota.is_empty()) {
        push("quota", &limit.quota.packed());
    }
    if job.pending {
        push("pending", "1");
    }
    if job.priority != 0 {
        push("priority", &job.priority.to_string());
    }
    // A delay keeps its length if the clock is set back; a time of day stays as it is.
    if matches!(job.scheduled, Some(At::Relative(_))) {
        push("delayed", "1");
    }
    for (name, time) in [("due", job.scheduled), ("expires", job.expires), ("ttl", job.ttl), ("total", job.total)] {
        time.into_iter().for_each(|at| push(name, &at.argument()));
    }
    // The tenant is known by now, and is part of the key.
    job.unique.iter().for_each(|unique| push("unique", &unique.packed(job.owner())));
    if let Some(policy) = job.retry.as_ref().filter(|policy| !policy.fatal.is_empty()) {
        push("fatal", &policy.fatal.join(&wire::FILE.to_string()));
    }
    job.trace.iter().for_each(|trace| push("trace", trace));
    for (name, shows) in [("shows_due", job.shows_due), ("shows_expires", job.shows_expires)] {
        if shows {
            push(name, "1");
        }
    }
    let Timeouts { attempt, visibility, heartbeat, grace } = job.timeouts;
    for (name, ms) in [("timeout", attempt), ("visibility", visibility), ("beat", heartbeat), ("grace", grace)] {
        ms.into_iter().for_each(|ms| push(name, &ms.to_string()));
    }
    if let Some(policy) = &job.retry {
        push("retry", &policy.packed());
        if policy.max_attempts != DEFAULT_MAX_ATTEMPTS {
            push("max", &policy.max_attempts.to_string());
        }
    }
    job.directive.iter().for_each(|directive| push("directive", directive));
    if let Some(position) = &job.position {
        push("workflow", &position.workflow);
        push("node", &position.node.to_string());
        if position.takes_results {
            push("inputs", "1");
        }
    }
    job.gem_tenant.iter().for_each(|tenant| push("fairplay", &escape(tenant)));
    packed
}

/// Returns the job's lane within its queue, as far as the job's own fields decide it.
/// `lua/queue/lane.lua` documents the names.
pub fn lane(job: &NewJob) -> String {
    let mut lane = format!("p{}", job.priority);
    let mut push = |name: &str, value: &str| lane.extend([";", name, "=", value]);
    let limit = job.rate_limit.as_ref();
    if let Some(limit) = limit.filter(|limit| limit.key.is_some()) {
        push("k", &limit.key_of(job.owner(), &job.queue, &job.kind).stored());
    }
    if let Some(key) = &job.type_limit {
        push("y", &key.stored());
    }
    match limit.map(|limit| limit.on_limit) {
        Some(OnLimit::Reschedule) => push("o", "r"),
        Some(OnLimit::Drop) => push("o", "d"),
        Some(OnLimit::Wait) | None => {}
    }
    if let Some(tenant) = job.tenant.as_deref().filter(|_| job.apart && job.plan.is_none()) {
        push("b", &escape(tenant));
    }
    lane
}

/// Encodes the payload for another system: what is kept, offset and length of the args in the
/// envelope, and the template.
fn pushed(job: &NewJob, Outward { template, keeps }: &Outward) -> String {
    let letter = match keeps {
        Keeps::Nothing => 'd',
        Keeps::Record => 'k',
        Keeps::All => 'a',
    };
    let args = job.args_range();
    format!("{letter},{},{},{template}", args.start + 1, args.len())
}

impl RetryPolicy {
    /// Encodes the policy as `backoff initial coefficient max jitter on_exhaustion`.
    fn packed(&self) -> String {
        let RetryPolicy { backoff, initial, coefficient, max, jitter, on_exhaustion, .. } = self;
        format!("{} {initial} {coefficient} {max} {} {}", backoff.name(), u8::from(*jitter), on_exhaustion.name())
    }
}

impl Unique {
    /// Encodes the policy: key, states, period in milliseconds or `-`, reaction.
    fn packed(&self, tenant: Option<&str>) -> String {
        let states: String = self.states.iter().copied().map(letter).collect();
        let period = self.period.map_or_else(|| "-".to_owned(), |ms| ms.to_string());
        format!("{} {states} {period} {}", self.key(tenant), self.on_conflict.name())
    }
}

/// Returns the letter of a state in the policies of unique jobs.
fn letter(state: State) -> char {
    match state {
        State::Available => 'v',
        State::Active => 'a',
        State::Scheduled => 's',
        State::Retryable => 'r',
        State::Pending => 'p',
        State::Completed => 'c',
        State::Cancelled => 'x',
        State::Discarded => 'd',
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::job::request::{Context, parse};
    use crate::domain::job::sidekiq::ARGS;
    use crate::domain::job::{RequestLimits, WorkflowPosition};

    fn job(members: &str) -> NewJob {
        let text = format!(r#"{{"type":"a.b","args":[1.0,"é"]{members}}}"#);
        parse(&text, &RequestLimits::default(), &Context::default()).expect("a job")
    }

    /// The fields of a job as `name=value`.
    fn fields(job: &NewJob) -> Vec<String> {
        let packed = further_fields(job);
        let words: Vec<&str> = wire::values(&packed).collect();
        let (pairs, last) = words.as_chunks::<2>();
        assert_eq!(last, [""]);
        pairs.iter().map(|[name, value]| format!("{name}={value}")).collect()
    }

    #[test]
    fn a_plain_job_has_no_fields() {
        let job = job("");
        assert_eq!((further_fields(&job), lane(&job)), (String::new(), "p0".to_owned()));
    }

    #[test]
    fn fields_say_what_differs_from_the_default() {
        let members = r#","priority":3,"delay_until":"+PT1M","expires_at":"2030-01-01T00:00:00Z","timeout_ms":5,
            "visibility_timeout":60,"heartbeat_timeout":2,"grace_period":3,
            "retry":{"max_attempts":5,"backoff_strategy":"linear","jitter":false,"non_retryable_errors":["a","b.*"],
            "on_exhaustion":"dead_letter"}"#;
        let mut job = job(members);
        job.trace = Some("t".to_owned());
        job.directive = Some("quiet".to_owned());
        job.position = Some(WorkflowPosition { workflow: "w".to_owned(), node: 2, takes_results: true });
        job.gem_tenant = Some("a:b".to_owned());
        assert_eq!(
            fields(&job),
            [
                "priority=3",
                "delayed=1",
                "due=+60000",
                "expires=1893456000000",
                &format!("fatal=a{}b.*", wire::FILE),
                "trace=t",
                "shows_due=1",
                "timeout=5",
                "visibility=60000",
                "beat=2000",
                "grace=3000",
                "retry=linear 1000 2 300000 0 dead_letter",
                "max=5",
                "directive=quiet",
                "workflow=w",
                "node=2",
                "inputs=1",
                "fairplay=a%3Ab",
            ]
        );
    }

    #[test]
    fn a_policy_for_retries_without_members_is_the_default_one() {
        assert_eq!(fields(&job(r#","retry":{}"#)), ["retry=exponential 1000 2 300000 1 discard"]);
    }

    #[test]
    fn uniqueness_is_a_key_and_three_words() {
        let packed = |unique: &str| job(&format!(r#","unique":{unique}"#)).unique.expect("a policy").packed(None);
        assert!(packed("{}").ends_with(" vasrp - reject"), "{}", packed("{}"));
        let text = r#"{"states":["completed","active"],"period":"PT2S","on_conflict":"use_existing"}"#;
        assert!(packed(text).ends_with(" ca 2000 ignore"), "{}", packed(text));
    }

    #[test]
    fn lanes_name_what_decides_about_a_start() {
        let mut limited = job(r#","rate_limit":{"key":"k","concurrency":1,"on_limit":"drop"}"#);
        limited.type_limit = Some(crate::domain::limit::LimitKey::of(crate::domain::limit::LimitScope::Type, "a.*"));
        (limited.tenant, limited.apart) = (Some("acme".to_owned()), true);
        assert_eq!(lane(&limited), "p0;k=k;y=~a.*;o=d;b=acme");
    }

    #[test]
    fn args_stand_where_the_field_says() {
        let mut ordered = job(r#","tags":["x"],"options":{"retry":{"max_attempts":4}}"#);
        ordered.order("Heavy", 5);
        let foreign = NewJob::foreign("A::HTMLJob", "q", "[2]", format!("x{ARGS}"));
        for (job, args, kept) in [(&ordered, r#"[1.0,"é"]"#, "k"), (&foreign, "[2]", "d")] {
            let field = pushed(job, job.outward.as_ref().expect("a payload"));
            let parts: Vec<&str> = field.splitn(4, ',').collect();
            let (first, length): (usize, usize) = (parts[1].parse().unwrap(), parts[2].parse().unwrap());
            assert_eq!((parts[0], &job.envelope[first - 1..first - 1 + length]), (kept, args));
        }
    }
}
