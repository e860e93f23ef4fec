//! Enqueue requests: validation, and the envelope that is kept of them.

use super::new_job::Envelope;
use super::retry::RetryPolicy;
use super::{Ancestor, NewJob, OnConflict, RequestLimits, Timeouts, Unique, id, members, meta, unique};
use crate::domain::invalid::{Invalid, Kind};
use crate::domain::json::{self, Member, Object};
use crate::domain::limit::RateLimit;
use crate::domain::time::{self, At};
use crate::domain::{duration, names, tenant_id};
use std::fmt::Write;

/// Beginning of each stored envelope; the id follows.
pub const ENVELOPE_START: &str = r#"{"specversion":"1.0","id":""#;
pub(super) const TYPE_START: &str = r#"","type":""#;
pub(super) const QUEUE_START: &str = r#"","queue":""#;

/// Form of a request that enqueues jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnqueueKind {
    /// The body is one job.
    Single,
    /// The body has an array `jobs`, which is stored as a whole.
    Batch,
}

impl EnqueueKind {
    /// Returns the index of a job for an error about it; `None` for a single job.
    pub fn index(self, index: usize) -> Option<usize> {
        (self == EnqueueKind::Batch).then_some(index)
    }
}

/// Properties of a request that apply to its jobs.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// Additional members for `meta`, such as trace headers of the request or the name of the cron.
    /// Members of the job win over them.
    pub meta: Vec<(&'static str, String)>,
    /// True if `options.metadata.test_directive` is honoured.
    pub test_directives: bool,
    /// Tenant that the request's header names for all of its jobs, already validated.
    pub tenant: Option<String>,
    /// True if the configuration does not read tenants from `meta.tenant_id`.
    pub ignores_meta_tenant: bool,
}

/// The workflow that a job is part of.
#[derive(Clone, Copy)]
pub struct Whole<'a> {
    pub id: &'a str,
    /// `options` of the workflow, then its top level. They provide the options that a job lacks.
    pub defaults: [&'a Object<'a>; 2],
}

/// Parses one job.
pub fn parse(text: &str, limits: &RequestLimits, context: &Context) -> Result<NewJob, Invalid> {
    parse_part(text, limits, context, None)
}

/// Parses one job, optionally as part of a workflow.
pub fn parse_part(
    text: &str,
    limits: &RequestLimits,
    context: &Context,
    whole: Option<Whole<'_>>,
) -> Result<NewJob, Invalid> {
    if text.len() > limits.max_envelope {
        return Err(Invalid::too_large(Kind::EnvelopeTooLarge, "", text.len(), limits.max_envelope, "bytes"));
    }
    let body = Object::parse(text).map_err(|problem| Invalid::unreadable(text, &problem))?;
    if let Some(name) = body.too_deep(limits.max_nesting) {
        return Err(Invalid::too_deep(name, limits.max_nesting));
    }
    let options = match body.get("options") {
        None => Object::default(),
        Some(value) => Object::parse(value).map_err(|_| Invalid::field("options", "an object", value))?,
    };
    JobRequest { body, options, limits, context, whole }.read()
}

/// Parses `{"jobs":[…]}`. Returns all jobs, or the first error with the index of its job.
pub fn parse_batch(text: &str, limits: &RequestLimits, context: &Context) -> Result<Vec<NewJob>, Invalid> {
    let body = Object::parse(text).map_err(|problem| Invalid::unreadable(text, &problem))?;
    let expected = format!("an array of 1 to {} jobs", limits.max_batch);
    let value = body.get("jobs").ok_or_else(|| Invalid::missing("jobs", &expected))?;
    let elements = json::elements(value).filter(|elements| !elements.is_empty());
    let elements = elements.ok_or_else(|| Invalid::field("jobs", &expected, value))?;
    if elements.len() > limits.max_batch {
        return Err(Invalid::too_large(Kind::BatchTooLarge, "jobs", elements.len(), limits.max_batch, "jobs"));
    }
    let mut jobs: Vec<NewJob> = Vec::with_capacity(elements.len());
    let mut ids = std::collections::HashSet::new();
    for (index, element) in elements.into_iter().enumerate() {
        let job = parse(element, limits, context).map_err(|problem| problem.in_job(index))?;
        if job.own_id && !ids.insert(job.id.clone()) {
            let problem = Invalid::new(Kind::Duplicate, "id", "duplicates the id of an earlier job in the batch");
            return Err(Invalid { received: Some(job.id), ..problem.in_job(index) });
        }
        jobs.push(job);
    }
    Ok(jobs)
}

/// Returns true if the job takes over the schedule of the duplicate that it replaces.
fn keeps_old_time(job: &NewJob) -> bool {
    job.unique.as_ref().is_some_and(|unique| unique.on_conflict == OnConflict::ReplaceExceptSchedule)
}

struct JobRequest<'a> {
    body: Object<'a>,
    options: Object<'a>,
    limits: &'a RequestLimits,
    context: &'a Context,
    whole: Option<Whole<'a>>,
}

impl<'a> JobRequest<'a> {
    fn read(&self) -> Result<NewJob, Invalid> {
        self.check_version()?;
        let kind =
            self.own_string("type")?.ok_or_else(|| Invalid::missing("type", "a job type such as `email.send`"))?;
        names::check_type("type", &kind)?;
        let args = self.body.get("args").ok_or_else(|| Invalid::missing("args", "an array"))?;
        if !args.starts_with('[') {
            return Err(Invalid::field("args", "an array", args));
        }
        let id = self.own_string("id")?;
        if let Some(id) = id.as_deref().filter(|id| !id::is_valid(id)) {
            return Err(Invalid::field("id", "a lower-case UUIDv7", id));
        }
        let queue = self.string("queue")?.unwrap_or_else(|| "default".to_owned());
        names::check_queue("queue", &queue).map_err(|invalid| Invalid { field: self.path("queue"), ..invalid })?;
        let priority = self.integer("priority", -100, 100, "an integer from -100 to 100")?.unwrap_or(0) as i8;
        let (meta, trace) = meta::merge(&self.body, &self.options, &self.context.meta, self.limits.max_meta)?;

        let (meta, tenant) = match self.context.ignores_meta_tenant && self.context.tenant.is_none() {
            true => (meta, None),
            false => tenant_id::settle(meta, self.context.tenant.as_deref())?,
        };
        let own_id = id.is_some();
        let id = id.unwrap_or_else(id::generate);
        let mut envelope = String::with_capacity(160 + args.len() + meta.len());
        for part in [ENVELOPE_START, &id, TYPE_START, &kind, QUEUE_START, &queue, r#"","args":"#] {
            envelope.push_str(part);
        }
        let mut push = |part: &str| {
            let start = envelope.len();
            envelope.push_str(part);
            start..envelope.len()
        };
        let args = push(args);
        push(r#","meta":"#);
        let meta = push(&meta);
        // Writing to a String cannot fail.
        _ = write!(envelope, ",\"priority\":{priority}");

        let mut job = NewJob {
            own_id,
            priority,
            pending: self.boolean("pending")?.unwrap_or(false),
            ttl: self.seconds("enqueue_ttl", 1)?.map(At::Relative),
            total: self.seconds("total_timeout", 1)?.map(At::Relative),
            tenant,
            ancestors: Ancestor::in_meta(&envelope[meta.clone()]),
            ..NewJob::bare(id, kind, queue, Envelope { text: envelope, args, meta })
        };
        job.trace = trace;
        self.unique(&mut job)?;
        self.times(&mut job)?;
        self.timeouts(&mut job)?;
        self.retry(&mut job)?;
        self.rate_limit(&mut job)?;
        self.tags(&mut job)?;
        self.test_directive(&mut job);
        self.unknown(&mut job);
        if let Some(whole) = self.whole {
            job.envelope.extend([",\"workflow_id\":\"", whole.id, "\""]);
        }
        Ok(job)
    }

    /// Returns the value of an option. `options` wins over the top level, and the job over its
    /// workflow.
    fn value(&self, name: &str) -> Option<&'a str> {
        let by_default = || self.whole?.defaults.iter().find_map(|object| object.get(name));
        self.options.get(name).or_else(|| self.body.get(name)).or_else(by_default)
    }

    fn path(&self, name: &str) -> String {
        let in_options = match self.whole {
            Some(whole) if self.body.get(name).is_none() => whole.defaults[0].get(name).is_some(),
            _ => false,
        };
        if in_options || self.options.get(name).is_some() { format!("options.{name}") } else { name.to_owned() }
    }

    fn refuse(&self, name: &str, expected: &str, value: &str) -> Invalid {
        Invalid::field(self.path(name), expected, value)
    }

    fn string(&self, name: &str) -> Result<Option<String>, Invalid> {
        let Some(value) = self.value(name) else { return Ok(None) };
        json::text(value).map(|text| Some(text.into_owned())).ok_or_else(|| self.refuse(name, "a string", value))
    }

    /// Reads a string that only the top level may contain.
    fn own_string(&self, name: &str) -> Result<Option<String>, Invalid> {
        let Some(value) = self.body.get(name) else { return Ok(None) };
        json::text(value).map(|text| Some(text.into_owned())).ok_or_else(|| Invalid::field(name, "a string", value))
    }

    fn boolean(&self, name: &str) -> Result<Option<bool>, Invalid> {
        let Some(value) = self.value(name) else { return Ok(None) };
        json::boolean(value).map(Some).ok_or_else(|| self.refuse(name, "true or false", value))
    }

    fn integer(&self, name: &str, least: i64, most: i64, expected: &str) -> Result<Option<i64>, Invalid> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let number = json::integer(value).filter(|number| (least..=most).contains(number));
        number.map(Some).ok_or_else(|| self.refuse(name, expected, value))
    }

    /// Reads a whole number of seconds, converted to milliseconds.
    fn seconds(&self, name: &str, least: u8) -> Result<Option<u64>, Invalid> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let seconds = json::integer(value).and_then(|seconds| u64::try_from(seconds).ok());
        let seconds = seconds.filter(|seconds| (u64::from(least)..=duration::LONGEST_MS / 1000).contains(seconds));
        let expected = || format!("a number of seconds of {least} or more");
        seconds.map(|seconds| Some(seconds * 1000)).ok_or_else(|| self.refuse(name, &expected(), value))
    }

    fn check_version(&self) -> Result<(), Invalid> {
        match self.body.get("specversion") {
            None | Some(r#""1.0""#) => Ok(()),
            Some(version) => Err(Invalid::field("specversion", "\"1.0\"", version)),
        }
    }

    fn times(&self, job: &mut NewJob) -> Result<(), Invalid> {
        let name = if self.value("scheduled_at").is_some() { "scheduled_at" } else { "delay_until" };
        job.scheduled = self.time(name, "scheduled_at", job)?;
        job.expires = self.time("expires_at", "expires_at", job)?;
        Ok(())
    }

    /// Parses a time. Absolute times are echoed as they were sent; relative ones are shown after
    /// the store has made them absolute.
    fn time(&self, name: &str, shown: &'static str, job: &mut NewJob) -> Result<Option<At>, Invalid> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let at = json::text(value).and_then(|text| At::parse(&text));
        let at = at.ok_or_else(|| self.refuse(name, time::EXPECTED, value))?;
        match at {
            // The store may keep the time of the replaced job instead, so it determines the time to
            // show.
            At::Absolute(_) if shown == "scheduled_at" && keeps_old_time(job) => {}
            At::Absolute(_) => job.envelope.extend([",\"", shown, "\":", value]),
            At::Relative(_) if shown == "scheduled_at" && keeps_old_time(job) => {}
            At::Relative(_) if shown == "scheduled_at" => job.shows_due = true,
            At::Relative(_) => job.shows_expires = true,
        }
        Ok(Some(at))
    }

    fn timeouts(&self, job: &mut NewJob) -> Result<(), Invalid> {
        let longest = duration::LONGEST_MS as i64;
        let milliseconds = |name| self.integer(name, 0, longest, "a number of milliseconds of 0 or more");
        let timeout = match milliseconds("timeout_ms")? {
            Some(ms) => Some(ms as u64),
            None => self.seconds("timeout", 0)?,
        };
        let visibility = match milliseconds("visibility_timeout_ms")? {
            Some(ms) => Some(ms as u64),
            None => self.visibility()?,
        };
        // 0 requests the server's default.
        let is_set = |ms: &u64| *ms > 0;
        job.timeouts = Timeouts {
            attempt: timeout.filter(is_set),
            visibility: visibility.filter(is_set),
            heartbeat: self.seconds("heartbeat_timeout", 1)?,
            grace: self.seconds("grace_period", 1)?,
        };
        let Timeouts { attempt, visibility, heartbeat, grace } = job.timeouts;
        for (name, value, unit) in [
            ("timeout_ms", attempt, 1),
            ("visibility_timeout_ms", visibility, 1),
            ("heartbeat_timeout", heartbeat, 1000),
            ("grace_period", grace, 1000),
        ] {
            if let Some(ms) = value {
                job.envelope.push_str(&format!(",\"{name}\":{}", ms / unit));
            }
        }
        for (name, at) in [("enqueue_ttl", job.ttl), ("total_timeout", job.total)] {
            if let Some(At::Relative(ms)) = at {
                job.envelope.push_str(&format!(",\"{name}\":{}", ms / 1000));
            }
        }
        Ok(())
    }

    /// Parses `visibility_timeout`, a number of seconds or a duration.
    fn visibility(&self) -> Result<Option<u64>, Invalid> {
        let Some(value) = self.value("visibility_timeout") else { return Ok(None) };
        if value.starts_with('"') {
            let ms = json::text(value).and_then(|text| duration::parse_ms(&text));
            return ms.map(Some).ok_or_else(|| self.refuse("visibility_timeout", duration::EXPECTED, value));
        }
        self.seconds("visibility_timeout", 1)
    }

    fn retry(&self, job: &mut NewJob) -> Result<(), Invalid> {
        let name = if self.value("retry").is_some() { "retry" } else { "retry_policy" };
        let Some(value) = self.value(name) else { return Ok(()) };
        let (policy, json) = RetryPolicy::parse(&self.path(name), value)?;
        job.envelope.extend([",\"retry\":", &json]);
        job.retry = Some(policy);
        Ok(())
    }

    fn unique(&self, job: &mut NewJob) -> Result<(), Invalid> {
        let Some(value) = self.value("unique") else { return Ok(()) };
        let subject = unique::Subject { kind: &job.kind, queue: &job.queue, args: job.args(), meta: job.meta() };
        let unique = Unique::parse(&self.path("unique"), value, &subject)?;
        job.envelope.extend([",\"unique\":", value]);
        job.unique = Some(unique);
        if keeps_old_time(job) {
            job.shows_due = true;
        }
        Ok(())
    }

    fn rate_limit(&self, job: &mut NewJob) -> Result<(), Invalid> {
        let Some(value) = self.value("rate_limit") else { return Ok(()) };
        job.rate_limit = Some(RateLimit::parse(&self.path("rate_limit"), value)?);
        job.envelope.extend([",\"rate_limit\":", value]);
        Ok(())
    }

    fn tags(&self, job: &mut NewJob) -> Result<(), Invalid> {
        let Some(value) = self.value("tags") else { return Ok(()) };
        let strings = json::elements(value).is_some_and(|tags| tags.iter().all(|tag| tag.starts_with('"')));
        if !strings {
            return Err(self.refuse("tags", "an array of strings", value));
        }
        job.envelope.extend([",\"tags\":", value]);
        Ok(())
    }

    fn test_directive(&self, job: &mut NewJob) {
        let metadata = self.options.get("metadata").filter(|_| self.context.test_directives);
        let directive = metadata
            .and_then(|metadata| Object::parse(metadata).ok())
            .and_then(|metadata| metadata.get("test_directive").and_then(json::text));
        if let Some(directive) = directive.filter(|directive| matches!(directive.as_ref(), "quiet" | "terminate")) {
            job.directive = Some(directive.into_owned());
        }
    }

    /// Copies members that the server does not know into the envelope unchanged.
    fn unknown(&self, job: &mut NewJob) {
        for Member { name, raw_name, value } in self.body.members() {
            let is_ours = self.whole.is_some() && name == "workflow_id";
            if !members::is_known(name) && !is_ours {
                job.envelope.extend([",", raw_name, ":", value]);
                job.ancestors.extend(Ancestor::of_member("", name, value));
            }
        }
    }
}
