//! Jobs that another system runs: the payload that is pushed there on promotion.

use super::new_job::Envelope;
use super::record::push_time;
use super::request::{ENVELOPE_START, QUEUE_START, TYPE_START};
use super::sidekiq::{ARGS, Ordered, kind};
use super::{NewJob, id};
use crate::domain::time::At;
use crate::domain::{json, names};

/// Payload for another system's queue, pushed when the job is promoted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outward {
    /// Payload with placeholders for `args` and the time.
    pub template: String,
    pub keeps: Keeps,
}

/// The data of a job that is kept after its promotion into another system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// Nothing, because no client knows the id.
    Nothing,
    /// The record, for clients that know the id.
    Record,
    /// The record and the payload, because the other system may refuse it.
    All,
}

impl NewJob {
    /// Creates a job that came from another system. No client knows its id.
    pub fn foreign(class: &str, queue: &str, args: &str, template: String) -> NewJob {
        let id = id::generate();
        let kind = Some(kind(class)).filter(|kind| names::is_type(kind)).unwrap_or_else(|| "sidekiq.job".to_owned());
        let mut envelope = String::with_capacity(160 + args.len());
        for part in [ENVELOPE_START, &id, TYPE_START, &kind, QUEUE_START, queue, r#"","args":"#] {
            envelope.push_str(part);
        }
        let start = envelope.len();
        envelope.push_str(args);
        let args = start..envelope.len();
        envelope.push_str(r#","meta":{},"priority":0"#);
        let meta = args.end + r#","meta":"#.len()..args.end + r#","meta":{}"#.len();
        NewJob {
            outward: Some(Outward { template, keeps: Keeps::Nothing }),
            ..NewJob::bare(id, kind, queue.to_owned(), Envelope { text: envelope, args, meta })
        }
    }

    /// Turns the job into one for a Sidekiq, with a Ruby class.
    pub fn order(&mut self, class: &str, created: i64) {
        let whole = format!("{}}}", self.envelope);
        let members = json::Object::parse(&whole).unwrap_or_default();
        let ordered = Ordered {
            id: &self.id,
            class,
            queue: &self.queue,
            max_attempts: self.retry.as_ref().map(|policy| policy.max_attempts),
            tags: members.get("tags"),
            created,
        };
        self.outward = Some(Outward { template: ordered.template(), keeps: Keeps::Record });
    }

    /// Turns the job into one for another OJS server, with its members unchanged except for two: a
    /// relative expiry becomes absolute, counted from `now`, and `scheduled_at` is dropped because
    /// the job is sent when it is due.
    pub fn hand_on(&mut self, now: i64) {
        let whole = format!("{}}}", self.envelope);
        let members = json::Object::parse(&whole).unwrap_or_default();
        let mut template = String::with_capacity(self.envelope.len() - self.args.len() + 8);
        for member in members.members().filter(|member| member.name != "scheduled_at") {
            template.push(if template.is_empty() { '{' } else { ',' });
            template.extend([member.raw_name, ":"]);
            match &*member.name {
                "args" => template.push(ARGS),
                _ => template.push_str(member.value),
            }
        }
        if let Some(At::Relative(ms)) = self.expires {
            push_time(&mut template, "expires_at", Some(now.saturating_add_unsigned(ms)));
        }
        template.push('}');
        self.outward = Some(Outward { template, keeps: Keeps::All });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::job::RequestLimits;
    use crate::domain::job::request::{Context, parse};
    use crate::domain::job::sidekiq::ARGS;

    #[test]
    fn another_ojs_server_gets_a_job_as_it_came() {
        let text = r#"{"type":"a.b","id":"019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f","args":[1.0, "é"],"x_odd": 1e400,"meta":{"a": 1},
            "options":{"queue":"q","priority":3,"scheduled_at":"2030-01-01T00:00:00Z","expires_at":"+PT1S","tags":["x"],
            "retry":{"max_attempts":4},"unique":{"keys":["type"]},"timeout_ms":5}}"#;
        let mut job = parse(text, &RequestLimits::default(), &Context::default()).expect("a job");
        job.hand_on(1000);
        let outward = job.outward.expect("a template");
        assert_eq!(outward.keeps, Keeps::All);
        let payload = outward.template.replace(ARGS, r#"[1.0, "é"]"#);
        let value: serde_json::Value = serde_json::from_str(&payload.replace("1e400", "7")).expect("JSON");
        for (name, expected) in [
            ("id", "\"019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f\""),
            ("type", "\"a.b\""),
            ("queue", "\"q\""),
            ("priority", "3"),
            ("expires_at", "\"1970-01-01T00:00:02.000Z\""),
            ("timeout_ms", "5"),
            ("x_odd", "7"),
            ("tags", "[\"x\"]"),
            ("unique", "{\"keys\":[\"type\"]}"),
            ("scheduled_at", "null"),
        ] {
            assert_eq!(value[name].to_string(), expected, "{payload}");
        }
        assert!(payload.contains(r#""args":[1.0, "é"],"meta":{"a": 1}"#) && payload.contains("1e400"), "{payload}");
        assert_eq!(value["retry"]["max_attempts"], 4);
        let again = parse(&payload, &RequestLimits::default(), &Context::default()).expect("it is accepted again");
        assert_eq!((again.kind.as_str(), again.priority, again.queue.as_str()), ("a.b", 3, "q"));
    }

    #[test]
    fn a_job_for_a_sidekiq_has_a_template() {
        let text = r#"{"type":"a.b","args":[1.0,"é"],"tags":["x"],"options":{"retry":{"max_attempts":4}}}"#;
        let mut ordered = parse(text, &RequestLimits::default(), &Context::default()).expect("a job");
        ordered.order("Heavy", 5);
        let foreign = NewJob::foreign("A::HTMLJob", "q", "[2]", format!("x{ARGS}"));
        assert_eq!((foreign.kind.as_str(), foreign.args(), foreign.meta()), ("a.html_job", "[2]", "{}"));
        let template = ordered.outward.expect("a template").template;
        assert!(template.contains(r#""retry":3"#) && template.contains(r#""tags":["x"]"#), "{template}");
        assert_eq!(NewJob::foreign("x y", "q", "[]", String::new()).kind, "sidekiq.job");
    }
}
