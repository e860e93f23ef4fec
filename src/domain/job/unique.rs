//! Unique jobs: which jobs are duplicates, for how long, and the reaction to a duplicate.

use super::State;
use crate::domain::invalid::Invalid;
use crate::domain::json::{self, Object};
use crate::domain::{canonical, duration};
use sha2::{Digest, Sha256};

const KEYS: [&str; 4] = ["type", "queue", "args", "meta"];
const KEYS_EXPECTED: &str = "an array of `type`, `queue`, `args` and `meta`";
const CONFLICT_EXPECTED: &str = "`reject`, `replace`, `replace_except_schedule` or `ignore`";
/// Maximum number of names in one list of a policy.
const MOST_NAMES: usize = 64;
/// States in which a job counts if the policy names none.
const DEFAULT_STATES: [State; 5] =
    [State::Available, State::Active, State::Scheduled, State::Retryable, State::Pending];

/// Reaction to a job that duplicates an existing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    Reject,
    Replace,
    /// Like `Replace`, but the new job keeps the schedule of the old one.
    ReplaceExceptSchedule,
    Ignore,
}

impl OnConflict {
    const NAMES: [(&'static str, OnConflict); 5] = [
        ("reject", OnConflict::Reject),
        ("replace", OnConflict::Replace),
        ("replace_except_schedule", OnConflict::ReplaceExceptSchedule),
        ("ignore", OnConflict::Ignore),
        ("use_existing", OnConflict::Ignore),
    ];

    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, choice)| *choice == self).map_or("reject", |(name, _)| name)
    }
}

/// A validated policy of one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unique {
    /// Canonical JSON of the members that identify the job, and the offset at which its tenant is
    /// inserted.
    subject: String,
    tenant_at: usize,
    /// States in which an existing job counts.
    pub states: Vec<State>,
    /// Time in milliseconds for which an existing job counts; `None` if it always does.
    pub period: Option<u64>,
    pub on_conflict: OnConflict,
}

/// Parts of a job that can identify it; `args` and `meta` as text.
pub struct Subject<'a> {
    pub kind: &'a str,
    pub queue: &'a str,
    pub args: &'a str,
    pub meta: &'a str,
}

impl Unique {
    /// Parses the policy at `path`.
    pub fn parse(path: &str, text: &str, subject: &Subject<'_>) -> Result<Unique, Invalid> {
        let object = Object::parse(text).map_err(|_| Invalid::field(path, "an object", text))?;
        let policy = UniqueReader { path, object };
        let states = policy.states()?;
        let period = match policy.object.get("period") {
            None => None,
            Some(value) => {
                let ms = json::text(value).and_then(|text| duration::parse_ms(&text));
                Some(ms.ok_or_else(|| policy.refuse("period", duration::EXPECTED, value))?)
            }
        };
        let on_conflict = match policy.object.get("on_conflict") {
            None => OnConflict::Reject,
            Some(value) => {
                let name = json::text(value).unwrap_or_default();
                let known = OnConflict::NAMES.iter().find(|(known, _)| *known == name);
                known
                    .map(|(_, choice)| *choice)
                    .ok_or_else(|| policy.refuse("on_conflict", CONFLICT_EXPECTED, value))?
            }
        };
        let (subject, tenant_at) = policy.subject(subject)?;
        Ok(Unique { subject, tenant_at, states, period, on_conflict })
    }

    /// Returns a digest that is equal for duplicates. Jobs of different tenants are never
    /// duplicates.
    pub fn key(&self, tenant: Option<&str>) -> String {
        let mut text = self.subject[..self.tenant_at].to_owned();
        if let Some(tenant) = tenant {
            text.push_str("\"tenant\":");
            canonical::push_text(&mut text, tenant);
            text.push(',');
        }
        text.push_str(&self.subject[self.tenant_at..]);
        Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

struct UniqueReader<'a> {
    path: &'a str,
    object: Object<'a>,
}

impl UniqueReader<'_> {
    fn refuse(&self, name: &str, expected: &str, value: &str) -> Invalid {
        Invalid::field(format!("{}.{name}", self.path), expected, value)
    }

    fn names(&self, name: &str, expected: &str) -> Result<Option<Vec<String>>, Invalid> {
        let Some(value) = self.object.get(name) else { return Ok(None) };
        let names = json::elements(value)
            .filter(|names| (1..=MOST_NAMES).contains(&names.len()))
            .and_then(|names| names.into_iter().map(|name| json::text(name).map(Into::into)).collect());
        names.map(Some).ok_or_else(|| self.refuse(name, expected, value))
    }

    fn states(&self) -> Result<Vec<State>, Invalid> {
        const EXPECTED: &str = "an array of job states";
        let Some(names) = self.names("states", EXPECTED)? else { return Ok(DEFAULT_STATES.to_vec()) };
        let state = |name: &String| State::from_name(name).ok_or_else(|| self.refuse("states", EXPECTED, name));
        names.iter().map(state).collect()
    }

    fn subject(&self, subject: &Subject<'_>) -> Result<(String, usize), Invalid> {
        const NAMES: &str = "an array of 1 to 64 names";
        let meta_keys = self.names("meta_keys", NAMES)?;
        // `key` is an alias of `args_keys` in older specifications, and of `keys` in some clients.
        let key = self.names("key", NAMES)?;
        let is_dimensions = |names: &Vec<String>| names.iter().all(|name| KEYS.contains(&name.as_str()));
        let (dimensions, names) = if key.as_ref().is_some_and(is_dimensions) { (key, None) } else { (None, key) };
        let own_names = self.names("args_keys", NAMES)?;
        let args_field = if own_names.is_some() { "args_keys" } else { "key" };
        let args_keys = own_names.or(names);
        let keys = self.names("keys", KEYS_EXPECTED)?.or(dimensions).unwrap_or_default();
        if let Some(unknown) = keys.iter().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(self.refuse("keys", KEYS_EXPECTED, unknown));
        }
        let has = |name: &str| keys.iter().any(|key| key == name);
        if has("meta") && meta_keys.is_none() {
            return Err(Invalid::missing(
                format!("{}.meta_keys", self.path),
                "names of members of `meta`, because `keys` contains `meta`",
            ));
        }
        // Sorted by name, as canonical JSON requires.
        let mut text = String::from("{");
        if let Some(names) = args_keys {
            text.push_str("\"args\":");
            self.push_args(&mut text, args_field, names, subject.args)?;
            text.push(',');
        } else if has("args") {
            text.push_str("\"args\":");
            canonical::push(&mut text, subject.args);
            text.push(',');
        }
        if let Some(names) = meta_keys {
            text.push_str("\"meta\":");
            push_members(&mut text, names, Object::parse(subject.meta).ok().as_ref());
            text.push(',');
        }
        if has("queue") {
            text.push_str("\"queue\":");
            canonical::push_text(&mut text, subject.queue);
            text.push(',');
        }
        let tenant_at = text.len();
        text.push_str("\"type\":");
        canonical::push_text(&mut text, subject.kind);
        text.push('}');
        Ok((text, tenant_at))
    }

    /// Arguments are an array. Each name is looked up in the objects of the array; the first that
    /// has it counts.
    fn push_args(&self, out: &mut String, field: &str, names: Vec<String>, args: &str) -> Result<(), Invalid> {
        let elements = json::elements(args).unwrap_or_default();
        let objects: Vec<Object<'_>> = elements.into_iter().filter_map(|text| Object::parse(text).ok()).collect();
        let mut members = String::from("{");
        for name in &names {
            let value = objects.iter().find_map(|object| object.get(name));
            let value = value.ok_or_else(|| self.refuse(field, "names of members of objects in `args`", name))?;
            members.push_str(if members.len() == 1 { "" } else { "," });
            json::push_text(&mut members, name);
            members.extend([":", value]);
        }
        members.push('}');
        canonical::push(out, &members);
        Ok(())
    }
}

/// Appends the named members of an object. Missing ones are null.
fn push_members(out: &mut String, names: Vec<String>, object: Option<&Object<'_>>) {
    let member = |name: &String| {
        let value = object.and_then(|object| object.get(name)).unwrap_or("null");
        format!("{}:{value}", json::quoted(name))
    };
    let members: Vec<String> = names.iter().map(member).collect();
    canonical::push(out, &format!("{{{}}}", members.join(",")));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, args: &str, meta: &str) -> Result<Unique, Invalid> {
        Unique::parse("unique", text, &Subject { kind: "a.b", queue: "q", args, meta })
    }

    fn key(text: &str, args: &str, meta: &str) -> String {
        parse(text, args, meta).unwrap_or_else(|problem| panic!("{text}: {problem}")).key(None)
    }

    #[test]
    fn the_key_is_the_digest_of_what_counts() {
        // SHA-256 of {"type":"a.b"}
        assert_eq!(key("{}", "[1]", "{}"), "56b7f878207f01ca3ee1ea2ba921f8027d33cc425dc298704c9a9077d6ce9ef6");
        assert_eq!(key("{}", "[1]", "{}"), key(r#"{"keys":["type"]}"#, "[2]", "{}"));
        let by_args = r#"{"keys":["type","args"]}"#;
        assert_eq!(key(by_args, r#"[{"a":1,"b":2}]"#, "{}"), key(by_args, r#"[ {"b":2.0,"a":1} ]"#, "{}"));
        assert_ne!(key(by_args, "[1]", "{}"), key(by_args, "[2]", "{}"));
        let by_name = r#"{"args_keys":["a"]}"#;
        assert_eq!(key(by_name, r#"[{"a":1,"b":2}]"#, "{}"), key(by_name, r#"["x",{"a":1,"b":3}]"#, "{}"));
        assert_eq!(key(by_name, r#"[{"a":1}]"#, "{}"), key(r#"{"key":["a"]}"#, r#"[{"a":1}]"#, "{}"));
        assert_eq!(key(by_args, "[1]", "{}"), key(r#"{"key":["type","args"]}"#, "[1]", "{}"));
        let by_meta = r#"{"keys":["meta"],"meta_keys":["m"]}"#;
        assert_eq!(key(by_meta, "[1]", r#"{"m":1,"n":1}"#), key(by_meta, "[2]", r#"{"m":1,"n":2}"#));
        assert_ne!(key(by_meta, "[]", r#"{"m":1}"#), key(by_meta, "[]", "{}"));
        assert_ne!(key(r#"{"keys":["queue"]}"#, "[]", "{}"), key("{}", "[]", "{}"));
    }

    #[test]
    fn tenants_have_keys_of_their_own() {
        let of = |tenant| parse("{}", "[]", "{}").unwrap().key(tenant);
        assert_ne!(of(Some("a")), of(Some("b")));
        assert_ne!(of(Some("a")), of(None));
    }

    #[test]
    fn states_and_reaction_are_the_clients_or_the_defaults() {
        let unique = parse("{}", "[]", "{}").unwrap();
        assert_eq!((unique.states.len(), unique.period, unique.on_conflict), (5, None, OnConflict::Reject));
        let text = r#"{"states":["completed","active"],"period":"PT2S","on_conflict":"use_existing"}"#;
        let unique = parse(text, "[]", "{}").unwrap();
        assert_eq!(unique.states, [State::Completed, State::Active]);
        assert_eq!((unique.period, unique.on_conflict), (Some(2000), OnConflict::Ignore));
    }

    #[test]
    fn says_which_field_is_wrong() {
        for (text, field) in [
            ("[]", "unique"),
            (r#"{"keys":["id"]}"#, "unique.keys"),
            (r#"{"keys":[]}"#, "unique.keys"),
            (r#"{"keys":"type"}"#, "unique.keys"),
            (r#"{"keys":["meta"]}"#, "unique.meta_keys"),
            (r#"{"args_keys":["b"]}"#, "unique.args_keys"),
            (r#"{"key":[1]}"#, "unique.key"),
            (r#"{"states":["gone"]}"#, "unique.states"),
            (r#"{"period":"long"}"#, "unique.period"),
            (r#"{"period":5}"#, "unique.period"),
            (r#"{"on_conflict":"fight"}"#, "unique.on_conflict"),
        ] {
            assert_eq!(parse(text, r#"[{"a":1}]"#, "{}").expect_err(text).field, field, "{text}");
        }
    }
}
