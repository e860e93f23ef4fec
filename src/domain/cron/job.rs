//! Cron jobs: the schedule, the template of the jobs, and the policy for overlapping runs.

use super::schedule;
use super::{Cron, Wake};
use crate::domain::invalid::{Invalid, Kind};
use crate::domain::job::request::{self, Context};
use crate::domain::job::{NewJob, RequestLimits};
use crate::domain::json::{self, Object};
use crate::domain::{duration, names, tenant_id, time};

/// Accepted names of the member that holds the expression.
const EXPRESSION: [&str; 3] = ["expression", "cron", "schedule"];
/// Members of a job template that is written at top level.
const TEMPLATE: [&str; 4] = ["type", "args", "meta", "options"];
const OVERLAP_EXPECTED: &str = "`skip`, `allow`, `cancel_previous` or `enqueue`";
const LONGEST_DESCRIPTION: usize = 1024;
/// Shortest `@every` interval, in milliseconds. Crons are checked once per second.
const SHORTEST_MS: u64 = 1000;

/// Reaction of a cron that is due while its previous job has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// Skips this run.
    Skip,
    /// Enqueues another job.
    Allow,
    /// Cancels the previous job and enqueues another one.
    CancelPrevious,
    /// Enqueues another job that waits until the previous one has ended; at most one runs at a
    /// time.
    Enqueue,
}

impl Overlap {
    /// All policies with the names and aliases that the OJS documents use. The first name of each
    /// policy is the one that fairgate writes.
    const NAMES: [(&'static str, Overlap); 7] = [
        ("skip", Overlap::Skip),
        ("allow", Overlap::Allow),
        ("cancel_previous", Overlap::CancelPrevious),
        ("cancel", Overlap::CancelPrevious),
        ("replace", Overlap::CancelPrevious),
        ("enqueue", Overlap::Enqueue),
        ("queue", Overlap::Enqueue),
    ];

    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, choice)| *choice == self).map_or("skip", |(name, _)| name)
    }
}

/// Schedule of a cron.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Timing {
    Cron(Box<Cron>),
    /// Interval in milliseconds.
    Every(i64),
}

impl Timing {
    /// Parses a cron expression, or `@every` with a duration. The error says what is wrong.
    pub fn parse(expression: &str, timezone: &str) -> Result<Timing, String> {
        let Some(every) = expression.trim().strip_prefix("@every ") else {
            return Cron::parse(expression, timezone).map(|cron| Timing::Cron(Box::new(cron)));
        };
        schedule::check_timezone(timezone)?;
        let ms = duration::parse_sum_ms(every.trim()).filter(|ms| *ms >= SHORTEST_MS);
        ms.map(|ms| Timing::Every(ms as i64))
            .ok_or_else(|| format!("\"{every}\" is not a valid interval; expected 1s or more, such as 90s or 1h30m"))
    }

    /// Returns the first time after `ms`, in milliseconds since the epoch. `@every` counts from
    /// `anchor`.
    pub fn next_after(&self, ms: i64, anchor: i64) -> Option<i64> {
        match self {
            Timing::Cron(cron) => cron.next_after(ms),
            Timing::Every(every) => Some(anchor + ((ms - anchor).max(0) / every + 1) * every),
        }
    }

    /// Returns the first moment after `ms` at which the cron fires or daylight saving skips one of
    /// its times.
    pub fn next_wake(&self, ms: i64, anchor: i64) -> Option<i64> {
        match self {
            Timing::Cron(cron) => cron.next_wake(ms).map(|wake| wake.at),
            Timing::Every(_) => self.next_after(ms, anchor),
        }
    }

    /// Returns true if the cron wakes at `at` only because daylight saving skips one of its times.
    pub fn is_left_out(&self, at: i64) -> bool {
        let Timing::Cron(cron) = self else { return false };
        cron.next_wake(at - 1) == Some(Wake { at, is_left_out: true })
    }

    /// Returns the next time at which the cron fires, given that it wakes at `at`.
    pub fn fires(&self, at: i64) -> Option<i64> {
        if self.is_left_out(at) { self.next_after(at, at) } else { Some(at) }
    }
}

/// A validated cron.
#[derive(Clone, Debug, PartialEq)]
pub struct CronJob {
    pub name: String,
    pub expression: String,
    pub timezone: String,
    pub timing: Timing,
    pub overlap: Overlap,
    pub enabled: bool,
    pub description: Option<String>,
    /// Tenant of the jobs, unless their template names one.
    pub tenant: Option<String>,
    /// Template of the jobs, as the client wrote it.
    pub template: String,
}

impl CronJob {
    /// Parses a registration. `tenant` is the tenant that the request's header names.
    pub fn parse(text: &str, limits: &RequestLimits, tenant: Option<&str>) -> Result<CronJob, Invalid> {
        let body = Object::parse(text).map_err(|problem| Invalid::unreadable(text, &problem))?;
        Self::read(&body, None, Some((limits, tenant)))
    }

    /// Parses the result of [`CronJob::document`]. The job template is not validated here but each
    /// time the cron fires.
    pub fn stored(document: &str) -> Result<CronJob, Invalid> {
        let body = Object::parse(document).map_err(|problem| Invalid::unreadable(document, &problem))?;
        Self::read(&body, None, None)
    }

    /// Returns the cron with a client's changes applied. The name cannot change.
    pub fn changed(&self, text: &str, limits: &RequestLimits, tenant: Option<&str>) -> Result<CronJob, Invalid> {
        let body = Object::parse(text).map_err(|problem| Invalid::unreadable(text, &problem))?;
        if let Some(name) = body.get("name").filter(|name| json::text(name).as_deref() != Some(&self.name)) {
            return Err(Invalid::field("name", "left out, because the name of a cron cannot change", name));
        }
        Self::read(&body, Some(self), Some((limits, tenant)))
    }

    /// Parses a request, validating it against the given limits, or a stored document (`request` is
    /// `None`), which was validated before.
    fn read(
        body: &Object<'_>,
        old: Option<&CronJob>,
        request: Option<(&RequestLimits, Option<&str>)>,
    ) -> Result<CronJob, Invalid> {
        let text = |name: &str| match body.get(name) {
            None => Ok(None),
            Some(value) => {
                let text = json::text(value).ok_or_else(|| Invalid::field(name, "a string", value))?;
                Ok(Some(text.into_owned()))
            }
        };
        let name = match old {
            Some(old) => old.name.clone(),
            None => text("name")?.ok_or_else(|| Invalid::missing("name", names::CRON_EXPECTED))?,
        };
        names::check_cron("name", &name)?;
        let field = EXPRESSION.into_iter().find(|name| body.get(name).is_some()).unwrap_or("expression");
        let expression = text(field)?.or_else(|| old.map(|old| old.expression.clone()));
        let expression = expression.ok_or_else(|| Invalid::missing("expression", super::EXPECTED))?;
        let timezone = text("timezone")?.or_else(|| old.map(|old| old.timezone.clone()));
        let timezone = timezone.unwrap_or_else(|| "UTC".to_owned());
        schedule::check_timezone(&timezone).map_err(|problem| Invalid {
            problem,
            ..Invalid::field("timezone", schedule::TIMEZONE_EXPECTED, &timezone)
        })?;
        let timing = Timing::parse(&expression, &timezone).map_err(|problem| Invalid {
            problem: format!("is invalid: {problem}"),
            ..Invalid::field(field, super::EXPECTED, &expression)
        })?;
        let overlap = match text("overlap_policy")? {
            None => old.map_or(Overlap::Skip, |old| old.overlap),
            Some(name) => {
                let known = Overlap::NAMES.iter().find(|(known, _)| *known == name);
                known
                    .map(|(_, choice)| *choice)
                    .ok_or_else(|| Invalid::field("overlap_policy", OVERLAP_EXPECTED, &name))?
            }
        };
        let enabled = match body.get("enabled") {
            None => old.is_none_or(|old| old.enabled),
            Some(value) => json::boolean(value).ok_or_else(|| Invalid::field("enabled", "true or false", value))?,
        };
        let description = text("description")?.or_else(|| old.and_then(|old| old.description.clone()));
        if let Some(length) = description.as_ref().map(String::len).filter(|length| *length > LONGEST_DESCRIPTION) {
            let problem = format!("has {length} bytes, over the limit of {LONGEST_DESCRIPTION}");
            return Err(Invalid::new(Kind::Field, "description", problem));
        }
        let tenant = match (body.get("tenant_id"), request.and_then(|(_, tenant)| tenant)) {
            (None, by_header) => by_header.map(str::to_owned).or_else(|| old.and_then(|old| old.tenant.clone())),
            (Some(value), by_header) => {
                let named = tenant_id::named_by(value);
                let named = named.ok_or_else(|| {
                    Invalid::field("tenant_id", tenant_id::NAME_EXPECTED, value).of_kind(Kind::Tenant)
                })?;
                if let Some(other) = by_header.filter(|other| *other != named) {
                    let expected = format!("{other:?} as in the request's header, or left out");
                    return Err(Invalid::field("tenant_id", expected, value));
                }
                Some(named)
            }
        };
        let queue = text("queue")?;
        queue.iter().try_for_each(|queue| names::check_queue("queue", queue))?;
        let (template, path) = match (template(body)?, queue, old) {
            // As with jobs, a queue in the options wins over one at top level.
            (Some((template, path)), Some(queue), _) if !names_queue(&template) => {
                (with_queue(&template, &queue), path)
            }
            (Some(found), ..) => found,
            (None, Some(queue), Some(old)) => (with_queue(&old.template, &queue), "job_template"),
            (None, _, old) => (old.map(|old| old.template.clone()).unwrap_or_default(), "job_template"),
        };
        let cron = CronJob { name, expression, timezone, timing, overlap, enabled, description, tenant, template };
        let Some((limits, _)) = request else { return Ok(cron) };
        let checked = cron.check_template().and_then(|()| cron.job(0, limits));
        match checked {
            Err(problem) if !path.is_empty() => Err(problem.within(path)),
            checked => checked.map(|_| cron),
        }
    }

    fn check_template(&self) -> Result<(), Invalid> {
        let template =
            Object::parse(&self.template).map_err(|_| Invalid::missing("type", "a job type such as `email.send`"))?;
        if let Some(id) = template.get("id") {
            return Err(Invalid::field("id", "left out, because each run creates a new job", id));
        }
        let in_options = template.get("options").and_then(|options| Object::parse(options).ok());
        let limit = template.get("rate_limit").or_else(|| in_options.and_then(|options| options.get("rate_limit")));
        match limit {
            Some(limit) if self.overlap == Overlap::Enqueue => {
                let expected = "left out with the overlap policy `enqueue`, which sets a rate limit itself";
                Err(Invalid::field("rate_limit", expected, limit))
            }
            _ => Ok(()),
        }
    }

    /// Returns the type of the jobs; empty if the template has none.
    pub fn kind(&self) -> String {
        let template = Object::parse(&self.template).unwrap_or_default();
        template.get("type").and_then(json::text).unwrap_or_default().into_owned()
    }

    /// Builds the job of the run at `at` (milliseconds since the epoch).
    pub fn job(&self, at: i64, limits: &RequestLimits) -> Result<NewJob, Invalid> {
        let meta = vec![("cron_name", self.name.clone()), ("cron_triggered_at", time::rfc3339(at))];
        let context = Context { meta, tenant: self.tenant.clone(), ..Context::default() };
        if self.overlap != Overlap::Enqueue {
            return request::parse(&self.template, limits, &context);
        }
        // The template is an object with at least one member.
        let open = self.template.trim_end().strip_suffix('}').unwrap_or(&self.template);
        let text = format!("{open},\"rate_limit\":{{\"key\":\"cron:{}\",\"concurrency\":1}}}}", self.name);
        request::parse(&text, limits, &context)
    }

    /// Key of the schedule. If it changes, the next run is computed again.
    pub fn timing_text(&self) -> String {
        format!("{} {}", self.expression, self.timezone)
    }

    /// Serializes the cron for storage, as an object that [`CronJob::stored`] reads. Answers begin
    /// with the same text.
    pub fn document(&self) -> String {
        let mut out = String::from("{\"name\":");
        let mut push = |name: &str, value: &str| out.extend([name, value]);
        push("", &json::quoted(&self.name));
        push(",\"expression\":", &json::quoted(&self.expression));
        push(",\"timezone\":", &json::quoted(&self.timezone));
        push(",\"overlap_policy\":", &json::quoted(self.overlap.name()));
        push(",\"enabled\":", if self.enabled { "true" } else { "false" });
        if let Some(description) = &self.description {
            push(",\"description\":", &json::quoted(description));
        }
        if let Some(tenant) = &self.tenant {
            push(",\"tenant_id\":", &json::quoted(tenant));
        }
        push(",\"job_template\":", &self.template);
        push("}", "");
        out
    }
}

/// Returns the template in a body, if there is one, and its path. `args` defaults to an empty
/// array.
fn template(body: &Object<'_>) -> Result<Option<(String, &'static str)>, Invalid> {
    let (parts, path): (Vec<(String, &str)>, _) = match body.get("job_template") {
        Some(text) => {
            let template = Object::parse(text).map_err(|_| Invalid::field("job_template", "an object", text))?;
            if template.get("args").is_some() {
                return Ok(Some((text.to_owned(), "job_template")));
            }
            let members = template.members().map(|member| (member.raw_name.to_owned(), member.value));
            (members.filter(|(name, _)| name != "\"args\"").collect(), "job_template")
        }
        None => (TEMPLATE.iter().filter_map(|name| Some((json::quoted(name), body.get(name)?))).collect(), ""),
    };
    if parts.is_empty() {
        return Ok(None);
    }
    let mut text = String::from("{");
    parts.iter().for_each(|(name, value)| text.extend([name.as_str(), ":", value, ","]));
    match body.get("args").filter(|_| path.is_empty()) {
        Some(_) => _ = text.pop(),
        None => text.push_str("\"args\":[]"),
    }
    text.push('}');
    Ok(Some((text, path)))
}

/// Returns the options of a template.
fn options_of<'a>(template: &Object<'a>) -> Option<Object<'a>> {
    template.get("options").and_then(|options| Object::parse(options).ok())
}

fn names_queue(template: &str) -> bool {
    let template = Object::parse(template).unwrap_or_default();
    template.get("queue").is_some() || options_of(&template).is_some_and(|options| options.get("queue").is_some())
}

/// Replaces the queue of a template, in its options and at top level.
fn with_queue(template: &str, queue: &str) -> String {
    let object = Object::parse(template).unwrap_or_default();
    let options = options_of(&object).map(|options| {
        let members = options.members().filter(|member| member.name != "queue");
        let members: Vec<String> = members.map(|member| format!("{}:{}", member.raw_name, member.value)).collect();
        format!("{{{}}}", members.join(","))
    });
    let members = object.members().filter(|member| member.name != "queue").map(|member| match &options {
        Some(options) if member.name == "options" => format!("{}:{options}", member.raw_name),
        _ => format!("{}:{}", member.raw_name, member.value),
    });
    let members: Vec<String> = members.chain([format!("\"queue\":{}", json::quoted(queue))]).collect();
    format!("{{{}}}", members.join(","))
}

#[cfg(test)]
mod tests;
