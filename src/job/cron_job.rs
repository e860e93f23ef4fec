//! A cron: when it fires, which job that makes, and what happens if the last one has not ended.

use super::NewJob;
use super::cron::{self, Cron, Wake};
use super::invalid::Invalid;
use super::json::{self, Object};
use super::request::{self, Context};
use super::{Limits, duration, names, time};

/// The names under which an expression may come.
const EXPRESSION: [&str; 3] = ["expression", "cron", "schedule"];
/// What a template is made of where it stands at top level.
const TEMPLATE: [&str; 4] = ["type", "args", "meta", "options"];
const OVERLAP_EXPECTED: &str = "`skip`, `allow`, `cancel_previous` or `enqueue`";
const LONGEST_DESCRIPTION: usize = 1024;
/// The shortest `@every`: times are looked at once a second.
const SHORTEST_MS: u64 = 1000;

/// What happens when a cron is due although the last job that it made has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// No job is made.
    Skip,
    /// Another one is made.
    Allow,
    /// The last one is cancelled.
    CancelPrevious,
    /// Another one is made and waits: never do two of them run at once.
    Enqueue,
}

impl Overlap {
    /// All of them, by the names that the texts have for them; the first of each is ours.
    const NAMES: [(&'static str, Overlap); 7] = [
        ("skip", Overlap::Skip),
        ("allow", Overlap::Allow),
        ("cancel_previous", Overlap::CancelPrevious),
        ("cancel", Overlap::CancelPrevious),
        ("replace", Overlap::CancelPrevious),
        ("enqueue", Overlap::Enqueue),
        ("queue", Overlap::Enqueue),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, choice)| *choice == self).map_or("skip", |(name, _)| name)
    }
}

/// When a cron fires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Timing {
    Cron(Box<Cron>),
    /// Milliseconds from one time to the next.
    Every(i64),
}

impl Timing {
    /// Reads an expression, or `@every` and a duration; a message tells what is wrong with it.
    pub fn parse(expression: &str, timezone: &str) -> Result<Timing, String> {
        let Some(every) = expression.trim().strip_prefix("@every ") else {
            return Cron::parse(expression, timezone).map(|cron| Timing::Cron(Box::new(cron)));
        };
        cron::check_timezone(timezone)?;
        let ms = duration::parse_sum_ms(every.trim()).filter(|ms| *ms >= SHORTEST_MS);
        ms.map(|ms| Timing::Every(ms as i64)).ok_or_else(|| {
            format!("\"{every}\" is no time from one run to the next; expected 1s or more, such as 90s or 1h30m")
        })
    }

    /// The first time after a moment, in milliseconds; `@every` counts from `anchor`.
    pub fn next_after(&self, ms: i64, anchor: i64) -> Option<i64> {
        match self {
            Timing::Cron(cron) => cron.next_after(ms),
            Timing::Every(every) => Some(anchor + ((ms - anchor).max(0) / every + 1) * every),
        }
    }

    /// The same, or a moment before at which a time of it is left out.
    pub fn next_wake(&self, ms: i64, anchor: i64) -> Option<i64> {
        match self {
            Timing::Cron(cron) => cron.next_wake(ms).map(|wake| wake.at),
            Timing::Every(_) => self.next_after(ms, anchor),
        }
    }

    /// Whether it was woken because a time of it is left out.
    pub fn is_left_out(&self, at: i64) -> bool {
        let Timing::Cron(cron) = self else { return false };
        cron.next_wake(at - 1) == Some(Wake { at, is_left_out: true })
    }

    /// When it fires, where it is woken at a moment.
    pub fn fires(&self, at: i64) -> Option<i64> {
        if self.is_left_out(at) { self.next_after(at, at) } else { Some(at) }
    }
}

/// A checked cron.
#[derive(Clone, Debug, PartialEq)]
pub struct CronJob {
    pub name: String,
    pub expression: String,
    pub timezone: String,
    pub timing: Timing,
    pub overlap: Overlap,
    pub enabled: bool,
    pub description: Option<String>,
    /// What it enqueues, as its client wrote it.
    pub template: String,
}

impl CronJob {
    /// Reads what a client registers.
    pub fn parse(text: &str, limits: &Limits) -> Result<CronJob, Invalid> {
        let body = Object::parse(text).map_err(|problem| request::unreadable(text, &problem))?;
        Self::read(&body, None, Some(limits))
    }

    /// Reads what [`CronJob::document`] made. Whether its job is still acceptable is asked when it fires.
    pub fn stored(document: &str) -> Result<CronJob, Invalid> {
        let body = Object::parse(document).map_err(|problem| request::unreadable(document, &problem))?;
        Self::read(&body, None, None)
    }

    /// The same cron with what a client wants changed. Its name stays.
    pub fn changed(&self, text: &str, limits: &Limits) -> Result<CronJob, Invalid> {
        let body = Object::parse(text).map_err(|problem| request::unreadable(text, &problem))?;
        if let Some(name) = body.get("name").filter(|name| json::text(name).as_deref() != Some(&self.name)) {
            return Err(Invalid::field("name", "left out, because a cron keeps its name", name));
        }
        Self::read(&body, Some(self), Some(limits))
    }

    fn read(body: &Object<'_>, old: Option<&CronJob>, limits: Option<&Limits>) -> Result<CronJob, Invalid> {
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
        let expression = expression.ok_or_else(|| Invalid::missing("expression", cron::EXPECTED))?;
        let timezone = text("timezone")?.or_else(|| old.map(|old| old.timezone.clone()));
        let timezone = timezone.unwrap_or_else(|| "UTC".to_owned());
        cron::check_timezone(&timezone)
            .map_err(|problem| Invalid { problem, ..Invalid::field("timezone", cron::TIMEZONE_EXPECTED, &timezone) })?;
        let timing = Timing::parse(&expression, &timezone).map_err(|problem| Invalid {
            problem: format!("cannot be read: {problem}"),
            ..Invalid::field(field, cron::EXPECTED, &expression)
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
            return Err(Invalid::new(super::invalid::Kind::Field, "description", problem));
        }
        let (template, path) = match template(body)? {
            Some(found) => found,
            None => (old.map(|old| old.template.clone()).unwrap_or_default(), "job_template"),
        };
        let cron = CronJob { name, expression, timezone, timing, overlap, enabled, description, template };
        let Some(limits) = limits else { return Ok(cron) };
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
            return Err(Invalid::field("id", "left out, because each run makes a job of its own", id));
        }
        let in_options = template.get("options").and_then(|options| Object::parse(options).ok());
        let limit = template.get("rate_limit").or_else(|| in_options.and_then(|options| options.get("rate_limit")));
        match limit {
            Some(limit) if self.overlap == Overlap::Enqueue => {
                let expected = "left out with the overlap policy `enqueue`, which needs the job's one rate limit";
                Err(Invalid::field("rate_limit", expected, limit))
            }
            _ => Ok(()),
        }
    }

    /// The type of its jobs; empty if the template has none.
    pub fn kind(&self) -> String {
        let template = Object::parse(&self.template).unwrap_or_default();
        template.get("type").and_then(json::text).unwrap_or_default().into_owned()
    }

    /// The job that it makes for a time.
    pub fn job(&self, at: i64, limits: &Limits) -> Result<NewJob, Invalid> {
        let meta = vec![("cron_name", self.name.clone()), ("cron_triggered_at", time::rfc3339(at))];
        let context = Context { meta, ..Context::default() };
        if self.overlap != Overlap::Enqueue {
            return request::parse(&self.template, limits, &context);
        }
        // A template is an object with members.
        let open = self.template.trim_end().strip_suffix('}').unwrap_or(&self.template);
        let text = format!("{open},\"rate_limit\":{{\"key\":\"cron:{}\",\"concurrency\":1}}}}", self.name);
        request::parse(&text, limits, &context)
    }

    /// What its times depend on: they are counted anew where this changes.
    pub fn timing_text(&self) -> String {
        format!("{} {}", self.expression, self.timezone)
    }

    /// The form in which it is stored, and the beginning of how it is shown: an object that [`CronJob::stored`] reads.
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
        push(",\"job_template\":", &self.template);
        push("}", "");
        out
    }
}

/// The template that a body brings, if it brings one, and where that stands. A job without `args` has none.
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

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits =
        Limits { max_envelope: 10_000, max_meta: 1000, max_result: 1000, max_batch: 1, max_nesting: 9 };

    fn parse(text: &str) -> Result<CronJob, Invalid> {
        CronJob::parse(text, &LIMITS)
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
        let off = cron.changed(r#"{"enabled":false}"#, &LIMITS).unwrap();
        assert_eq!(off, CronJob { enabled: false, ..cron.clone() });
        assert_eq!(cron.changed(r#"{"name":"n"}"#, &LIMITS), Ok(cron.clone()));
        assert_eq!(cron.changed(r#"{"name":"m"}"#, &LIMITS).unwrap_err().field, "name");
        let other = cron.changed(r#"{"type":"c.d","args":[2]}"#, &LIMITS).unwrap();
        assert_eq!(other.template, r#"{"type":"c.d","args":[2]}"#);
    }

    #[test]
    fn jobs_say_which_cron_made_them_and_for_when() {
        let cron = parse(r#"{"name":"n","expression":"@daily","type":"a.b","meta":{"x":1}}"#).unwrap();
        let job = cron.job(1_770_892_200_000, &LIMITS).unwrap();
        assert_eq!(job.meta(), r#"{"cron_name":"n","cron_triggered_at":"2026-02-12T10:30:00.000Z","x":1}"#);
        let queued = cron.changed(r#"{"overlap_policy":"queue"}"#, &LIMITS).unwrap().job(0, &LIMITS).unwrap();
        assert_eq!(queued.rate_limit.and_then(|limit| limit.key), Some("cron:n".to_owned()));
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
}
