//! Jobs that another system runs: what is pushed there when they are promoted.

use super::request::{ENVELOPE_START, NewJob, QUEUE_START, TYPE_START};
use super::sidekiq::{Ordered, kind};
use super::{id, json, names, retry};

/// What is pushed into another system's queue when a job is promoted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outward {
    /// The text, with marks where `args` and the time belong.
    pub template: String,
    /// Whether the record is kept for whoever knows its id.
    pub kept: bool,
}

impl NewJob {
    /// A job that came from another system, without an id that anybody knows.
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
            id,
            own_id: false,
            kind,
            queue: queue.to_owned(),
            priority: 0,
            pending: false,
            scheduled: None,
            expires: None,
            ttl: None,
            total: None,
            envelope,
            args,
            meta,
            tenant: None,
            rate_limit: None,
            unique: None,
            type_limit: None,
            shared: false,
            plan: None,
            own_queue: None,
            outward: Some(Outward { template, kept: false }),
            fields: Vec::new(),
        }
    }

    /// Makes it a job of a Ruby class, for a Sidekiq.
    pub fn order(&mut self, class: &str, created: i64) {
        let field = |name: &str| self.fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value.as_str());
        let most = || field("max").and_then(|max| max.parse().ok()).unwrap_or(retry::DEFAULT_MAX_ATTEMPTS);
        let whole = format!("{}}}", self.envelope);
        let members = json::Object::parse(&whole).unwrap_or_default();
        let ordered = Ordered {
            id: &self.id,
            class,
            queue: &self.queue,
            max_attempts: field("retry").map(|_| most()),
            tags: members.get("tags"),
            created,
        };
        self.outward = Some(Outward { template: ordered.template(), kept: true });
    }

    /// `outward` as the store keeps it: whether the record is kept, where in the envelope the args begin, their length, and
    /// the template.
    pub fn push_field(&self) -> Option<String> {
        let Outward { template, kept } = self.outward.as_ref()?;
        Some(format!("{},{},{},{template}", if *kept { 'k' } else { 'd' }, self.args.start + 1, self.args.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::{Context, parse};
    use super::*;
    use crate::job::Limits;
    use crate::job::sidekiq::ARGS;

    #[test]
    fn args_stand_where_the_field_says() {
        let text = r#"{"type":"a.b","args":[1.0,"é"],"tags":["x"],"options":{"retry":{"max_attempts":4}}}"#;
        let mut ordered = parse(text, &Limits::default(), &Context::default()).expect("a job");
        ordered.order("Heavy", 5);
        let foreign = NewJob::foreign("A::HTMLJob", "q", "[2]", format!("x{ARGS}"));
        for (job, args, kept) in [(&ordered, r#"[1.0,"é"]"#, "k"), (&foreign, "[2]", "d")] {
            let field = job.push_field().expect("a field");
            let parts: Vec<&str> = field.splitn(4, ',').collect();
            let (first, length): (usize, usize) = (parts[1].parse().unwrap(), parts[2].parse().unwrap());
            assert_eq!((parts[0], &job.envelope[first - 1..first - 1 + length]), (kept, args));
        }
        assert_eq!((foreign.kind.as_str(), foreign.args(), foreign.meta()), ("a.html_job", "[2]", "{}"));
        let template = ordered.outward.expect("a template").template;
        assert!(template.contains(r#""retry":3"#) && template.contains(r#""tags":["x"]"#), "{template}");
        assert_eq!(NewJob::foreign("x y", "q", "[]", String::new()).kind, "sidekiq.job");
    }
}
