//! Webhook subscriptions to events: target URL, filters and signing secrets.

use super::invalid::Invalid;
use super::json::{self, Object};
use super::time;

const MOST_NAMES: usize = 100;
const LONGEST_URL: usize = 2048;
const LONGEST_METADATA: usize = 4096;
/// Time for which a replaced secret still signs, in milliseconds.
pub const OVERLAP_MS: i64 = 86_400_000;

/// A validated subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    pub id: String,
    pub url: String,
    /// Patterns of event types: exact, `job.*` or `*`.
    pub events: Vec<String>,
    pub queues: Vec<String>,
    pub job_types: Vec<String>,
    pub active: bool,
    /// Metadata of the client, as JSON.
    metadata: Option<String>,
    pub created: i64,
    secret: String,
    /// The replaced secret and the time until which it still signs, in milliseconds since the
    /// epoch.
    previous: Option<(String, i64)>,
}

impl Subscription {
    /// Parses a new subscription. `made` is the secret to use if the client sends none.
    pub fn parse(text: &str, id: &str, now: i64, made: String) -> Result<Subscription, Invalid> {
        let blank = Subscription {
            id: id.to_owned(),
            url: String::new(),
            events: Vec::new(),
            queues: Vec::new(),
            job_types: Vec::new(),
            active: true,
            metadata: None,
            created: now,
            secret: made,
            previous: None,
        };
        let body = Object::parse(text).map_err(|problem| Invalid::unreadable(text, &problem))?;
        for (name, expected) in [("url", "the URL to send events to"), ("events", "an array of event types")] {
            body.get(name).ok_or_else(|| Invalid::missing(name, expected))?;
        }
        blank.with(&body)
    }

    /// Returns the subscription with a client's changes applied.
    pub fn changed(&self, text: &str) -> Result<Subscription, Invalid> {
        let body = Object::parse(text).map_err(|problem| Invalid::unreadable(text, &problem))?;
        self.clone().with(&body)
    }

    fn with(mut self, body: &Object<'_>) -> Result<Subscription, Invalid> {
        if let Some(value) = body.get("url") {
            let url = json::text(value).filter(|url| url.len() <= LONGEST_URL);
            self.url = url.ok_or_else(|| Invalid::field("url", "a URL of at most 2048 bytes", value))?.into_owned();
        }
        if let Some(events) = names(body, "events")? {
            let is_pattern = |name: &String| {
                let word = name.strip_suffix('*').unwrap_or(name);
                (name == "*" || word.ends_with('.') || word == name)
                    && name.len() <= 100
                    && word.bytes().all(|byte| byte.is_ascii_lowercase() || b"._".contains(&byte))
            };
            if events.is_empty() || !events.iter().all(is_pattern) {
                let expected = "1 to 100 event types such as `job.completed`, `job.*` or `*`";
                return Err(Invalid::field("events", expected, body.get("events").unwrap_or_default()));
            }
            self.events = events;
        }
        if let Some(text) = body.get("filter") {
            let filter = Object::parse(text).map_err(|_| Invalid::field("filter", "an object", text))?;
            let within = |problem: Invalid| problem.within("filter");
            self.queues = names(&filter, "queues").map_err(within)?.unwrap_or_default();
            self.job_types = names(&filter, "job_types").map_err(within)?.unwrap_or_default();
        }
        if let Some(value) = body.get("active") {
            self.active = json::boolean(value).ok_or_else(|| Invalid::field("active", "true or false", value))?;
        }
        if let Some(value) = body.get("metadata") {
            let fits = value.len() <= LONGEST_METADATA && value.starts_with('{');
            self.metadata = Some(value.to_owned()).filter(|_| fits);
            if !fits {
                return Err(Invalid::field("metadata", "an object of at most 4096 bytes", value));
            }
        }
        if let Some(value) = body.get("secret") {
            let secret = json::text(value).filter(|secret| (8..=256).contains(&secret.len()));
            // The received secret must not appear in the message.
            self.secret = secret.ok_or_else(|| Invalid::field("secret", "8 to 256 bytes", "***"))?.into_owned();
        }
        Ok(self)
    }

    /// Returns the subscription with another secret. The old one still signs for a day.
    pub fn rotated(&self, secret: String, now: i64) -> Subscription {
        let previous = Some((self.secret.clone(), now + OVERLAP_MS));
        Subscription { secret, previous, ..self.clone() }
    }

    /// Returns the secrets that sign now, newest first.
    pub fn secrets(&self, now: i64) -> Vec<&str> {
        let previous = self.previous.as_ref().filter(|(_, until)| *until > now).map(|(secret, _)| secret.as_str());
        std::iter::once(self.secret.as_str()).chain(previous).collect()
    }

    /// Returns the current secret, for the answer to the request that created it.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// Returns true if the subscription matches an event. Events about webhooks never match,
    /// because their delivery would cause further events.
    pub fn wants(&self, kind: &str, queue: &str, job_type: &str, at: i64) -> bool {
        let named = |list: &[String], value: &str| list.is_empty() || list.iter().any(|wanted| wanted == value);
        let fits = |pattern: &String| match pattern.strip_suffix('*') {
            Some(prefix) => kind.starts_with(prefix),
            None => pattern == kind,
        };
        self.active
            && at >= self.created
            && !kind.starts_with("webhook.")
            && self.events.iter().any(fits)
            && named(&self.queues, queue)
            && named(&self.job_types, job_type)
    }

    /// Formats the subscription as answers show it, without its secrets.
    pub fn to_json(&self) -> String {
        let list = |names: &[String]| names.iter().map(|name| json::quoted(name)).collect::<Vec<_>>().join(",");
        let mut out = format!(
            "{{\"id\":{},\"url\":{},\"events\":[{}],\"filter\":{{\"queues\":[{}],\"job_types\":[{}]}},\"active\":{},\"created_at\":\"{}\"",
            json::quoted(&self.id),
            json::quoted(&self.url),
            list(&self.events),
            list(&self.queues),
            list(&self.job_types),
            self.active,
            time::rfc3339(self.created)
        );
        if let Some(metadata) = &self.metadata {
            out.extend([",\"metadata\":", metadata]);
        }
        out.push('}');
        out
    }

    /// Serializes the subscription for storage, including its secrets.
    pub fn document(&self) -> String {
        let mut out = self.to_json();
        out.pop();
        out.push_str(&format!(",\"created\":{},\"secret\":{}", self.created, json::quoted(&self.secret)));
        if let Some((secret, until)) = &self.previous {
            out.push_str(&format!(",\"previous\":{},\"previous_until\":{until}", json::quoted(secret)));
        }
        out.push('}');
        out
    }

    /// Parses the result of [`Subscription::document`].
    pub fn stored(document: &str) -> Option<Subscription> {
        let body = Object::parse(document).ok()?;
        let text = |name: &str| body.get(name).and_then(json::text).map(|text| text.into_owned());
        let number = |name: &str| body.get(name).and_then(json::integer);
        let read = Self::parse(document, &text("id")?, number("created")?, String::new()).ok()?;
        Some(Subscription { previous: text("previous").zip(number("previous_until")), ..read })
    }
}

fn names(body: &Object<'_>, name: &str) -> Result<Option<Vec<String>>, Invalid> {
    let Some(value) = body.get(name) else { return Ok(None) };
    let names = json::elements(value)
        .filter(|names| names.len() <= MOST_NAMES)
        .and_then(|names| names.into_iter().map(|name| json::text(name).map(Into::into)).collect());
    names.map(Some).ok_or_else(|| Invalid::field(name, format!("an array of at most {MOST_NAMES} strings"), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Subscription, Invalid> {
        Subscription::parse(text, "sub_1", 5, "made-secret".to_owned())
    }

    #[test]
    fn a_stored_one_reads_back_and_its_secret_is_not_shown() {
        let text = r#"{"url":"https://e.com/","events":["job.*"],"filter":{"queues":["q"]},"metadata":{"a":1},"secret":"whk_12345"}"#;
        let subscription = parse(text).unwrap();
        assert_eq!(Subscription::stored(&subscription.document()), Some(subscription.clone()));
        let rotated = subscription.rotated("another-one".to_owned(), 100);
        assert_eq!(Subscription::stored(&rotated.document()), Some(rotated.clone()));
        assert_eq!(rotated.secrets(101), ["another-one", "whk_12345"]);
        assert_eq!(rotated.secrets(100 + OVERLAP_MS), ["another-one"]);
        assert!(!rotated.to_json().contains("another") && !rotated.to_json().contains("whk_"));
        let off = subscription.changed(r#"{"active":false}"#).unwrap();
        assert_eq!(off, Subscription { active: false, ..subscription });
    }

    #[test]
    fn it_hears_of_what_it_names() {
        let wants = |events: &str, more: &str, kind: &str| {
            let text = format!(r#"{{"url":"https://e.com/","events":{events}{more}}}"#);
            parse(&text).unwrap().wants(kind, "q", "a.b", 5)
        };
        assert!(wants(r#"["job.completed"]"#, "", "job.completed"));
        assert!(wants(r#"["*"]"#, "", "cron.skipped"));
        assert!(wants(r#"["job.*"]"#, r#","filter":{"queues":["q"],"job_types":["a.b"]}"#, "job.failed"));
        assert!(!wants(r#"["job.*"]"#, "", "jobs.failed"));
        assert!(!wants(r#"["job.*"]"#, r#","filter":{"queues":["r"]}"#, "job.failed"));
        assert!(!wants(r#"["job.*"]"#, r#","active":false"#, "job.failed"));
        assert!(!wants(r#"["*"]"#, "", "webhook.dead"));
        assert!(
            !parse(r#"{"url":"u","events":["*"]}"#).unwrap().wants("job.failed", "q", "a.b", 4),
            "before it was there"
        );
    }

    #[test]
    fn says_which_field_is_wrong() {
        for (text, field) in [
            (r#"{"events":["*"]}"#, "url"),
            (r#"{"url":"u"}"#, "events"),
            (r#"{"url":1,"events":["*"]}"#, "url"),
            (r#"{"url":"u","events":[]}"#, "events"),
            (r#"{"url":"u","events":["Job"]}"#, "events"),
            (r#"{"url":"u","events":["job*"]}"#, "events"),
            (r#"{"url":"u","events":["*"],"filter":{"queues":1}}"#, "filter.queues"),
            (r#"{"url":"u","events":["*"],"active":1}"#, "active"),
            (r#"{"url":"u","events":["*"],"metadata":[]}"#, "metadata"),
            (r#"{"url":"u","events":["*"],"secret":"short"}"#, "secret"),
        ] {
            let problem = parse(text).expect_err(text);
            assert_eq!(problem.field, field, "{text}");
            assert!(!problem.to_string().contains("short"));
        }
    }
}
