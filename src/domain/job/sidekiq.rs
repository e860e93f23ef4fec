//! Sidekiq's payloads: parsing, and the text that a promotion pushes.
//!
//! A payload is kept byte for byte, as a template with two placeholders: one for `args`, which the
//! job's envelope contains already, and one for the time, which is only known at promotion.

use crate::domain::json::{self, Object};
use std::ops::Range;

/// Expected value in the error for an invalid queue or namespace.
pub const NAME_EXPECTED: &str = "1 to 128 characters of a-z, A-Z, 0-9, `_`, `.` and `-`";
/// Expected value in the error for an invalid class.
pub const CLASS_EXPECTED: &str = "the name of a Ruby class, such as HeavyJob or Billing::InvoiceJob";

/// Placeholder for `args` in a template. JSON contains no raw control characters.
pub const ARGS: char = '\u{1c}';
/// Placeholder for the time in a template.
pub const TIME: char = '\u{1d}';

/// Member in which the client middleware records the job's queue and tenant.
const NOTE: &str = "fairgate";

/// Returns true for a valid name of a queue or a namespace.
pub fn is_name(text: &str) -> bool {
    (1..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

/// Returns true for a valid name of a Ruby class.
pub fn is_class(text: &str) -> bool {
    text.len() <= 255
        && text.split("::").all(|word| {
            word.as_bytes().first().is_some_and(u8::is_ascii_uppercase)
                && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        })
}

/// Returns true for a class, or for a glob that only classes match.
pub fn is_class_pattern(text: &str) -> bool {
    let in_glob = |byte: u8| byte.is_ascii_alphanumeric() || b"_:*".contains(&byte);
    let of_classes = text.contains("::") || text.bytes().any(|byte| byte.is_ascii_uppercase());
    is_class(text) || (text.contains('*') && of_classes && text.len() <= 255 && text.bytes().all(in_glob))
}

/// Converts a class name as Rails does for paths: `Billing::HTMLInvoiceJob` becomes
/// `billing/html_invoice_job`.
pub fn underscore(class: &str) -> String {
    let letters: Vec<char> = class.replace("::", "/").chars().collect();
    let mut text = String::with_capacity(class.len() + 8);
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| letters[before]);
        let after = letters.get(at + 1);
        let follows_word = before.is_some_and(|before| before.is_ascii_lowercase() || before.is_ascii_digit());
        let ends_acronym =
            before.is_some_and(|before| before.is_ascii_uppercase()) && after.is_some_and(char::is_ascii_lowercase);
        if letter.is_ascii_uppercase() && (follows_word || ends_acronym) {
            text.push('_');
        }
        text.push(if *letter == '-' { '_' } else { letter.to_ascii_lowercase() });
    }
    text
}

/// Returns the OJS type under which jobs of a class are shown, such as `billing.html_invoice_job`.
pub fn kind(class: &str) -> String {
    underscore(class).replace('/', ".")
}

/// Returns true for text of the form of a Sidekiq id (jid): 24 hexadecimal digits.
pub fn is_jid(text: &str) -> bool {
    text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the Sidekiq id of an OJS job: the last 24 hexadecimal digits of its id.
pub fn jid(id: &str) -> String {
    let digits: String = id.chars().filter(|letter| *letter != '-').collect();
    digits[digits.len().saturating_sub(24)..].to_owned()
}

/// Formats a time in milliseconds as Sidekiq 6, 7 and 8 read it: seconds with a decimal point.
pub fn seconds(ms: i64) -> String {
    format!("{}.{:03}", ms.div_euclid(1000), ms.rem_euclid(1000))
}

/// Returns the time since which a payload has been waiting, in milliseconds since the epoch.
pub fn waits_since(payload: &str) -> Option<i64> {
    let object = Object::parse(payload).ok()?;
    let text = object.get("enqueued_at").or_else(|| object.get("created_at"))?;
    let number = json::number(text)?;
    // Seconds have a fraction. Whole numbers are milliseconds (Sidekiq 8), unless that means a time
    // before 1973.
    let is_ms = !text.contains(['.', 'e', 'E']) && number >= 1e11;
    Some(if is_ms { number as i64 } else { (number * 1000.0) as i64 })
}

/// An OJS job that is converted into a Sidekiq payload.
pub struct Ordered<'a> {
    pub id: &'a str,
    pub class: &'a str,
    pub queue: &'a str,
    /// Total number of attempts, if the job has a retry policy.
    pub max_attempts: Option<u32>,
    /// Text of `tags`.
    pub tags: Option<&'a str>,
    pub created: i64,
}

impl Ordered<'_> {
    /// Builds the template of the payload.
    pub fn template(&self) -> String {
        // Sidekiq does not count the first attempt.
        let retry = self.max_attempts.map_or_else(|| "true".to_owned(), |runs| runs.saturating_sub(1).to_string());
        let tags = self.tags.map(|tags| format!(",\"tags\":{tags}")).unwrap_or_default();
        format!(
            "{{\"class\":\"{}\",\"args\":{ARGS},\"retry\":{retry},\"queue\":\"{}\",\"jid\":\"{}\",\"created_at\":{}{tags},\
             \"ojs_id\":\"{}\",\"enqueued_at\":{TIME}}}",
            self.class,
            self.queue,
            jid(self.id),
            seconds(self.created),
            self.id
        )
    }
}

/// A payload that a Sidekiq client pushed.
pub struct Payload<'a> {
    text: &'a str,
    object: Object<'a>,
    /// Class that does the work. For jobs of ActiveJob, this is the wrapped class.
    pub class: String,
    pub args: &'a str,
}

impl<'a> Payload<'a> {
    /// Parses a payload; `None` if a worker could not run it.
    pub fn parse(text: &'a str) -> Option<Payload<'a>> {
        let object = Object::parse(text).ok()?;
        let class = json::text(object.get("class")?)?;
        let class = object.get("wrapped").and_then(json::text).unwrap_or(class).into_owned();
        let args = object.get("args").filter(|args| args.starts_with('['))?;
        Some(Payload { text, object, class, args })
    }

    /// Returns the id of the job.
    pub fn jid(&self) -> Option<String> {
        self.object.get("jid").and_then(json::text).map(|jid| jid.into_owned())
    }

    /// Returns the text of `meta`, which clients may add; `{}` if it is absent.
    pub fn meta(&self) -> &'a str {
        self.object.get("meta").filter(|meta| meta.starts_with('{')).unwrap_or("{}")
    }

    /// Returns the queue and the tenant that the client middleware recorded.
    pub fn note(&self) -> (Option<String>, Option<String>) {
        let Some(note) = self.object.get(NOTE).and_then(|note| Object::parse(note).ok()) else { return (None, None) };
        let queue = note.get("queue").and_then(json::text).map(|queue| queue.into_owned());
        (queue.filter(|queue| is_name(queue)), note.get("tenant").and_then(crate::domain::tenant_id::id))
    }

    /// Returns the payload as it is pushed into a queue at a time in milliseconds.
    pub fn into_queue(&self, queue: &str, at: i64) -> String {
        fill(&self.template(queue), self.args, at)
    }

    /// Builds the template of the payload: unchanged bytes, except for queue, time and args.
    pub fn template(&self, queue: &str) -> String {
        let mut cuts: Vec<(Range<usize>, String)> = vec![(self.place(self.args), ARGS.to_string())];
        let mut missing = String::new();
        for (name, value) in [("queue", json::quoted(queue)), ("enqueued_at", TIME.to_string())] {
            // The last of duplicates counts, here and in Ruby. A member that is null is replaced
            // too.
            match self.object.members().find(|member| member.name == name) {
                Some(member) => cuts.push((self.place(member.value), value)),
                None => missing.extend(["\"", name, "\":", &value, ","]),
            }
        }
        if !missing.is_empty() {
            let after_brace = self.text.find('{').map_or(0, |at| at + 1);
            cuts.push((after_brace..after_brace, missing));
        }
        cuts.sort_by_key(|(range, _)| range.start);
        let mut template = String::with_capacity(self.text.len());
        let mut from = 0;
        for (range, value) in cuts {
            template.push_str(&self.text[from..range.start]);
            template.push_str(&value);
            from = range.end;
        }
        template.push_str(&self.text[from..]);
        template
    }

    fn place(&self, part: &str) -> Range<usize> {
        // Parts are slices of the text.
        let start = part.as_ptr() as usize - self.text.as_ptr() as usize;
        start..start + part.len()
    }
}

/// Fills in a template.
pub fn fill(template: &str, args: &str, at: i64) -> String {
    template.replace(ARGS, args).replace(TIME, &seconds(at))
}

/// Restores the payload of a staged job as its client pushed it into a queue. The time is that of
/// staging, not the original one.
pub fn pushed(template: &str, args: &str, queue: &str, staged_at: i64) -> String {
    let text = fill(template, args, staged_at);
    let payload = Payload::parse(&text).map(|payload| payload.into_queue(queue, staged_at));
    payload.unwrap_or(text)
}

/// Members of a payload that fairgate sets itself. Options of a class must not set them.
pub const OWN_MEMBERS: [&str; 8] =
    ["class", "args", "queue", "jid", "created_at", "enqueued_at", "fairplay_enqueued_at", "at"];

/// Builds the template of a job that the gem sidekiq-fairplay staged, which stores only the
/// arguments. `options` are those of the class, as JSON members. If they lack `retry`, Sidekiq uses
/// the setting of the class.
pub fn fairplay_template(class: &str, options: &str, queue: &str, jid: &str, now: i64) -> String {
    let comma = if options.is_empty() { "" } else { "," };
    // Without this mark, the gem's middleware would stage a retry again.
    format!(
        "{{\"class\":\"{class}\",\"args\":{ARGS},\"queue\":\"{queue}\",\"jid\":\"{jid}\",\"created_at\":{},{options}{comma}\
         \"fairplay_enqueued_at\":{},\"enqueued_at\":{TIME}}}",
        seconds(now),
        now.div_euclid(1000)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn underscores_as_rails_does() {
        for (class, expected) in [
            ("HeavyJob", "heavy_job"),
            ("Billing::HTMLInvoiceJob", "billing/html_invoice_job"),
            ("A::B2Job", "a/b2_job"),
            ("OAuth2Job", "o_auth2_job"),
            ("X", "x"),
        ] {
            assert_eq!(underscore(class), expected, "{class}");
        }
        assert_eq!(kind("Billing::HTMLInvoiceJob"), "billing.html_invoice_job");
    }

    #[test]
    fn classes_and_globs() {
        for (text, class, pattern) in [
            ("HeavyJob", true, true),
            ("Billing::InvoiceJob", true, true),
            ("Billing::*", false, true),
            ("*Job", false, true),
            ("*", false, false),
            ("report.*", false, false),
            ("heavy", false, false),
            ("Heavy Job", false, false),
            ("Heavy::", false, false),
            ("", false, false),
        ] {
            assert_eq!((is_class(text), is_class_pattern(text)), (class, pattern), "{text}");
        }
    }

    #[test]
    fn only_queue_and_time_change() {
        for (text, expected) in [
            (
                r#"{"retry":true,"queue":"stage","class":"A","args":[1.0, {"queue":"x"}],"jid":"b","enqueued_at":1690.5,"x":"é\u00e9"}"#,
                r#"{"retry":true,"queue":"heavy","class":"A","args":[1.0, {"queue":"x"}],"jid":"b","enqueued_at":12.345,"x":"é\u00e9"}"#,
            ),
            (
                r#" { "class":"A", "args" : [] }"#,
                r#" {"queue":"heavy","enqueued_at":12.345, "class":"A", "args" : [] }"#,
            ),
            (
                r#"{"class":"A","queue":"a","queue":"b","args":[2],"enqueued_at":null}"#,
                r#"{"class":"A","queue":"a","queue":"heavy","args":[2],"enqueued_at":12.345}"#,
            ),
        ] {
            let payload = Payload::parse(text).expect(text);
            assert_eq!(payload.into_queue("heavy", 12_345), expected);
        }
        let text =
            r#"{"queue":"stage","class":"A","args":[{"queue":"heavy"}],"fairgate":{"queue":"heavy"},"enqueued_at":5}"#;
        let payload = Payload::parse(text).expect("a payload");
        let back = pushed(&payload.template("heavy"), payload.args, "stage", 12_345);
        assert_eq!(back, text.replace("\"enqueued_at\":5", "\"enqueued_at\":12.345"));
        for text in ["", "[]", "{}", r#"{"class":"A"}"#, r#"{"class":1,"args":[]}"#, r#"{"class":"A","args":{}}"#] {
            assert!(Payload::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_wrapped_class_is_the_one_that_counts() {
        let text = r#"{"class":"ActiveJob::Wrapper","wrapped":"HeavyJob","args":[{}]}"#;
        assert_eq!(Payload::parse(text).expect("a payload").class, "HeavyJob");
    }

    #[test]
    fn notes_of_the_middleware() {
        let note = |text: &str| Payload::parse(text).expect(text).note();
        let noted = note(r#"{"class":"A","args":[],"fairgate":{"queue":"heavy","tenant":7}}"#);
        assert_eq!(noted, (Some("heavy".to_owned()), Some("7".to_owned())));
        assert_eq!(note(r#"{"class":"A","args":[],"fairgate":{"queue":"a b"}}"#), (None, None));
        assert_eq!(note(r#"{"class":"A","args":[],"fairgate":1}"#), (None, None));
    }

    #[test]
    fn times_of_all_versions() {
        for (text, expected) in [
            (r#"{"enqueued_at":1700000000.5}"#, Some(1_700_000_000_500)),
            (r#"{"enqueued_at":1700000000500}"#, Some(1_700_000_000_500)),
            (r#"{"enqueued_at":1700000000}"#, Some(1_700_000_000_000)),
            (r#"{"created_at":1700000000.5}"#, Some(1_700_000_000_500)),
            ("{}", None),
            ("junk", None),
        ] {
            assert_eq!(waits_since(text), expected, "{text}");
        }
        assert_eq!((seconds(1_700_000_000_005), seconds(12_300)), ("1700000000.005".to_owned(), "12.300".to_owned()));
    }

    #[test]
    fn a_job_of_the_gem_gets_the_options_of_its_class() {
        let payload = |options| fill(&fairplay_template("A", options, "q", "b", 1500), "[1]", 2000);
        let plain = r#"{"class":"A","args":[1],"queue":"q","jid":"b","created_at":1.500,"fairplay_enqueued_at":1,"enqueued_at":2.000}"#;
        assert_eq!(payload(""), plain);
        let with = r#"{"class":"A","args":[1],"queue":"q","jid":"b","created_at":1.500,"retry":false,"fairplay_enqueued_at":1,"enqueued_at":2.000}"#;
        assert_eq!(payload("\"retry\":false"), with);
    }

    #[test]
    fn an_ojs_job_becomes_a_payload() {
        let id = "019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f";
        let job = Ordered { id, class: "A", queue: "q", max_attempts: Some(4), tags: Some("[\"x\"]"), created: 1500 };
        let text = job.template().replace(ARGS, "[1]").replace(TIME, "2.000");
        let expected = format!(
            r#"{{"class":"A","args":[1],"retry":3,"queue":"q","jid":"1a2b7c3d8e4f5a6b7c8d9e0f","created_at":1.500,"tags":["x"],"ojs_id":"{id}","enqueued_at":2.000}}"#
        );
        assert_eq!(text, expected);
        assert_eq!(Ordered { max_attempts: None, ..job }.template().matches("\"retry\":true").count(), 1);
    }
}
