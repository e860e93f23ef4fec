//! `[[main_queue]]`: queues of other systems into which plan rules can promote.

use super::Sources;
use super::access::Access;
use super::convert::{Choice, FromValue, Label, Refused};
use super::ojs::Ojs;
use super::reader::SettingsReader;
use super::store::Store;
use super::tree::{Kind, Table, Value};
use super::url::Topology;
use crate::domain::job::sidekiq;
use crate::domain::json;
use crate::domain::plan::BUILTIN;

/// A main queue of another system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MainQueue {
    /// Name by which plan rules refer to it.
    pub name: String,
    pub kind: MainQueueKind,
}

/// System of a main queue, with its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MainQueueKind {
    Sidekiq(Box<Sidekiq>),
    Ojs(Ojs),
}

/// Kind of a main queue's system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    Sidekiq,
    Ojs,
}

impl Choice for System {
    const CHOICES: &'static [(&'static str, Self)] = &[("sidekiq", Self::Sidekiq), ("ojs", Self::Ojs)];
}

/// Settings of an existing Sidekiq.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sidekiq {
    /// Access to its Redis. Without a URL, the Redis of `[store]` is used.
    pub access: Access,
    /// Database number, if the Redis is that of `[store]`.
    pub database: Option<u32>,
    /// Prefix of all its keys, without the colon.
    pub namespace: Option<String>,
    /// Queue that no worker reads. Its jobs are imported into staging.
    pub staging_queue: Option<String>,
    /// Classes whose jobs were staged by the gem sidekiq-fairplay.
    pub fairplay_classes: Vec<FairplayClass>,
    /// True to return staged jobs to Sidekiq when the last fairgate process stops.
    pub release_on_exit: bool,
}

/// A class of the gem sidekiq-fairplay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FairplayClass {
    pub class: String,
    /// Name of the class in the gem's Redis keys.
    pub key: String,
    /// Queue in which the gem's planner runs, to which the class is handed back.
    pub planner_queue: String,
    /// Options of the class as members of a payload, as in `sidekiq_options` but without the queue.
    pub options: String,
}

/// The properties of a main queue that checks of plan rules need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownMainQueue {
    pub name: String,
    /// Kind of the system, if it is valid.
    pub system: Option<System>,
    /// Queue of a Sidekiq from which jobs are imported.
    pub staging_queue: Option<String>,
}

/// Returns all main queues in a merged configuration, including invalid ones.
pub(super) fn known_in(values: &Table) -> Vec<KnownMainQueue> {
    let Some(Kind::List(items)) = values.get("main_queue").map(|value| &value.kind) else { return Vec::new() };
    let known = |item: &Value| match &item.kind {
        Kind::Table(table) => {
            let text = |key: &str| table.get(key).and_then(Value::text).map(str::to_owned);
            let system = table.get("kind").and_then(|kind| System::from_value(kind).ok());
            Some(KnownMainQueue { name: text("name")?, system, staging_queue: text("staging_queue") })
        }
        _ => None,
    };
    items.iter().filter_map(known).collect()
}

/// Reads all `[[main_queue]]` tables.
pub(super) fn read(root: &mut SettingsReader<'_>, sources: &Sources, store: &Store) -> Vec<MainQueue> {
    let mut names: Vec<String> = Vec::new();
    let mut index = 0;
    root.each("main_queue", |reader| {
        let Label(name) = reader.get("name");
        if name == BUILTIN {
            reader.refuse("name", Refused::new("another name, because \"builtin\" is fairgate's own"));
        } else if reader.is_sound(&["name"]) && names.contains(&name) {
            reader.refuse("name", Refused::new("a name that no other main queue has"));
        }
        names.push(name.clone());
        let system = reader.find::<System>("kind");
        if system.is_none() && reader.kind("kind").is_none() {
            let help = "write kind = \"sidekiq\" or kind = \"ojs\"";
            reader.blame("expected the key kind, found none", Some(help));
        }
        let kind = match system {
            Some(System::Ojs) => MainQueueKind::Ojs(Ojs::read(reader, sources)),
            _ => MainQueueKind::Sidekiq(Box::new(Sidekiq::read(reader, sources, index, store))),
        };
        index += 1;
        MainQueue { name, kind }
    })
}

impl Sidekiq {
    fn read(reader: &mut SettingsReader<'_>, sources: &Sources, index: usize, store: &Store) -> Self {
        let variable = format!("FAIRGATE_MAIN_QUEUE__{index}__URL");
        let mut access = Access::read(reader, sources, "main_queue", &variable);
        if let Some(sentinels) = reader.find_list::<String>("sentinels") {
            let url =
                access.url.take().ok_or_else(|| Refused::new("a url whose host is the service: redis://mymaster/0"));
            match url.and_then(|url| url.behind(&sentinels)) {
                Ok(url) => access.url = Some(url),
                Err(refused) => reader.refuse("sentinels", refused),
            }
        }
        let database = reader.find("database");
        if access.url.is_some() && database.is_some() {
            let help = "put the database into the url: redis://host:6379/3";
            reader.conflict(&["database"], "database is for the Redis of [store], and a url is set", Some(help));
        }
        let own = store.url.as_ref().map(|url| &url.topology);
        let topology = access.url.as_ref().map(|url| &url.topology);
        if matches!(topology.or(own), Some(Topology::Cluster { .. })) {
            let message = "expected a Redis without cluster mode, found a cluster, which Sidekiq does not support";
            let help = "set url to the Redis that your workers use";
            match topology {
                Some(_) => reader.conflict(&["url"], message, Some(help)),
                None => reader.blame(message, Some(help)),
            }
        }
        let is_name = |text: &String| sidekiq::is_name(text);
        let namespace = reader.find_such("namespace", sidekiq::NAME_EXPECTED, is_name);
        let staging_queue = reader.find_such("staging_queue", sidekiq::NAME_EXPECTED, is_name);
        let fairplay_classes: Vec<FairplayClass> = reader.find_list("fairplay_classes").unwrap_or_default();
        let release_on_exit = reader.find("release_on_exit").unwrap_or_default();
        let sources = ["staging_queue", "fairplay_classes"];
        if release_on_exit && sources.iter().all(|source| reader.kind(source).is_none()) {
            let help = "set staging_queue or fairplay_classes";
            reader.conflict(&["release_on_exit"], "there is no source to return jobs to", Some(help));
        }
        Self { access, database, namespace, staging_queue, fairplay_classes, release_on_exit }
    }

    /// Returns the prefix of all keys of this Sidekiq, including the colon.
    pub fn prefix(&self) -> String {
        self.namespace.as_ref().map(|namespace| format!("{namespace}:")).unwrap_or_default()
    }
}

/// Parses `"HeavyJob"`, or `{ class = "HeavyJob", key = "heavy_job", planner_queue = "default",
/// options = { retry = false } }`.
impl FromValue for FairplayClass {
    fn from_value(value: &Value) -> Result<Self, Refused> {
        let refused = || Refused::new("a class such as \"HeavyJob\", or { class = \"HeavyJob\", key = \"heavy_job\" }");
        let read =
            |text: Option<&str>| text.filter(|text| sidekiq::is_class(text)).map(str::to_owned).ok_or_else(refused);
        let (class, key, planner_queue, options) = match &value.kind {
            Kind::Table(table) => {
                let known = ["class", "key", "planner_queue", "options"];
                if let Some(odd) = table.keys().find(|key| !known.contains(&key.as_str())) {
                    return Err(refused()
                        .help(format!("unknown key {odd:?}; the keys are class, key, planner_queue and options")));
                }
                let text = |key: &str| table.get(key).and_then(Value::text).map(str::to_owned);
                let options = table.get("options").map(class_options).transpose()?;
                (read(text("class").as_deref())?, text("key"), text("planner_queue"), options)
            }
            _ => (read(value.text())?, None, None, None),
        };
        let key = key.unwrap_or_else(|| sidekiq::underscore(&class));
        let planner_queue = planner_queue.unwrap_or_else(|| "default".to_owned());
        Ok(FairplayClass { class, key, planner_queue, options: options.unwrap_or_default() })
    }
}

/// Converts options of a class to members of a payload. Checks Sidekiq's own options and keeps all
/// others unchanged.
fn class_options(value: &Value) -> Result<String, Refused> {
    let Kind::Table(table) = &value.kind else {
        return Err(Refused::new("options as a table such as { retry = false, tags = [\"billing\"] }"));
    };
    let mut members = Vec::new();
    for (name, value) in table {
        let is_count = matches!(value.kind, Kind::Integer(number) if number >= 0);
        let is_flag = matches!(value.kind, Kind::Bool(_));
        let (is_sound, expected) = match name.as_str() {
            "retry" | "backtrace" => (is_flag || is_count, "true, false or a number"),
            "dead" => (is_flag, "true or false"),
            "retry_queue" => (value.text().is_some_and(sidekiq::is_name), "the name of a queue"),
            "tags" => {
                let texts = |items: &Vec<Value>| items.iter().all(|item| item.text().is_some());
                (matches!(&value.kind, Kind::List(items) if texts(items)), "a list of strings")
            }
            name if sidekiq::OWN_MEMBERS.contains(&name) => (false, "left out, because fairgate sets it"),
            _ => (true, ""),
        };
        let json = json_of(value)
            .filter(|_| is_sound)
            .ok_or_else(|| Refused::new(format!("options in which {name} is {expected}")))?;
        members.push(format!("{}:{json}", json::quoted(name)));
    }
    Ok(members.join(","))
}

/// Formats a value as JSON; `None` for values that JSON cannot express.
fn json_of(value: &Value) -> Option<String> {
    let all = |items: Vec<Option<String>>| items.into_iter().collect::<Option<Vec<_>>>().map(|items| items.join(","));
    Some(match &value.kind {
        Kind::Null => "null".to_owned(),
        Kind::Bool(flag) => flag.to_string(),
        Kind::Integer(number) => number.to_string(),
        Kind::Float(number) => serde_json::Number::from_f64(*number)?.to_string(),
        Kind::Text(text) | Kind::Raw(text) | Kind::Date(text) => json::quoted(text),
        Kind::List(items) => format!("[{}]", all(items.iter().map(json_of).collect())?),
        Kind::Table(table) => {
            let member = |(name, value): (&String, &Value)| Some(format!("{}:{}", json::quoted(name), json_of(value)?));
            format!("{{{}}}", all(table.iter().map(member).collect())?)
        }
        Kind::Indexed(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{load, mistakes};
    use super::super::url::StoreUrl;
    use super::*;

    const LEGACY: &str = "[[main_queue]]\nname = \"legacy\"\nkind = \"sidekiq\"\n";

    fn sidekiq(text: &str, env: &[(&str, &str)]) -> Sidekiq {
        match load(text, env).config.main_queues.remove(0).kind {
            MainQueueKind::Sidekiq(sidekiq) => *sidekiq,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_option_can_be_set() {
        let text = format!(
            "{LEGACY}url = \"redis://h:6380/3\"\nusername = \"app\"\npassword_env = \"PW\"\nnamespace = \"shop\"\n\
             staging_queue = \"to_stage\"\nrelease_on_exit = true\nfairplay_classes = [\"A::HTMLJob\", {{ class = \"B\", key = \"bee\" }}]\n"
        );
        let read = sidekiq(&text, &[("PW", "hunter2")]);
        assert_eq!((read.prefix().as_str(), read.staging_queue.as_deref()), ("shop:", Some("to_stage")));
        assert!(read.release_on_exit);
        let keys: Vec<_> = read.fairplay_classes.iter().map(|one| (one.class.as_str(), one.key.as_str())).collect();
        assert_eq!(keys, [("A::HTMLJob", "a/html_job"), ("B", "bee")]);
        let options = "{ class = \"A\", options = { retry = false, tags = [\"x\", \"y\"], lock = { ttl = 1.5 } } }";
        let read_options =
            sidekiq(&format!("{LEGACY}fairplay_classes = [{options}]"), &[]).fairplay_classes.remove(0).options;
        assert_eq!(read_options, r#""lock":{"ttl":1.5},"retry":false,"tags":["x","y"]"#);
        assert_eq!(read.access.password.as_ref().map(|password| password.expose()), Some("hunter2"));
        assert!(!format!("{read:?}").contains("hunter2"));
        assert_eq!(sidekiq(LEGACY, &[]), Sidekiq::default());
        let env = [("FAIRGATE_MAIN_QUEUE__0__URL", "redis://:hunter2@h/3")];
        assert_eq!(
            sidekiq(LEGACY, &env).access.password.map(|password| password.expose().to_owned()).as_deref(),
            Some("hunter2")
        );
    }

    #[test]
    fn a_rule_does_not_promote_into_the_queue_that_its_jobs_come_from() {
        let main_queues = format!("{LEGACY}staging_queue = \"stage\"\n{}", LEGACY.replace("legacy", "other"));
        let rule = |main_queue: &str, queue: &str| {
            format!("{main_queues}[[plan]]\nname = \"r\"\ntypes = [\"A\"]\nmain_queue = \"{main_queue}\"\n{queue}")
        };
        let told = mistakes(&rule("legacy", "queue = \"stage\""), &[]);
        assert!(told.contains("plan[0].queue: expected a queue that workers read, found the staging_queue"), "{told}");
        let inherited = format!("{}\n[plan_defaults]\nqueue = \"stage\"", rule("legacy", ""));
        assert!(mistakes(&inherited, &[]).contains("the staging_queue of main queue \"legacy\""));
        for sound in [rule("legacy", "queue = \"heavy\""), rule("legacy", ""), rule("other", "queue = \"stage\"")] {
            load(&sound, &[]);
        }
    }

    #[test]
    fn sentinels_name_the_server_of_a_service() {
        let text = format!("{LEGACY}url = \"rediss://app@mymaster/2\"\nsentinels = [\"a:26380\", \"b\"]");
        let access = sidekiq(&text, &[]).access;
        assert_eq!(access.url, Some(StoreUrl::parse("rediss+sentinel://app@a:26380,b/mymaster/2").unwrap()));
        assert_eq!(access.username.as_deref(), Some("app"));
        for (settings, expected) in [
            ("sentinels = [\"a\"]", "a url whose host is the service"),
            ("url = \"unix:///run/redis.sock\"\nsentinels = [\"a\"]", "a URL whose host is the service"),
            ("url = \"redis://mymaster\"\nsentinels = [\"a b\"]", "a URL such as redis+sentinel://"),
            ("url = \"redis://mymaster\"\nsentinels = [\"a\", \"me@b\"]", "hosts such as 10.0.0.1:26379"),
        ] {
            let told = mistakes(&format!("{LEGACY}{settings}"), &[]);
            assert!(told.contains("main_queue[0].sentinels") && told.contains(expected), "{told}");
        }
    }

    #[test]
    fn each_option_is_checked() {
        for (text, part) in [
            ("[[main_queue]]\nname = \"a\"", "main_queue[0]: expected the key kind, found none"),
            ("[[main_queue]]\nname = \"a\"\nkind = \"sidekik\"", "did you mean \"sidekiq\"?"),
            (
                "[[main_queue]]\nname = \"builtin\"\nkind = \"sidekiq\"",
                "another name, because \"builtin\" is fairgate's own",
            ),
            (&format!("{LEGACY}{LEGACY}"), "main_queue[1].name: expected a name that no other main queue has"),
            (
                &format!("{LEGACY}url = \"redis://:hunter2@h\""),
                "or the environment variable FAIRGATE_MAIN_QUEUE__0__URL",
            ),
            (&format!("{LEGACY}url = \"redis+cluster://h:7000\""), "without cluster mode, found a cluster"),
            (&format!("[store]\nurl = \"redis+cluster://h:7000\"\n{LEGACY}"), "without cluster mode, found a cluster"),
            (&format!("{LEGACY}url = \"redis://h\"\ndatabase = 3"), "put the database into the url"),
            (&format!("{LEGACY}stagingqueue = \"a\""), "did you mean \"staging_queue\"?"),
            (&format!("{LEGACY}release_on_exit = true"), "release_on_exit: there is no source to return jobs to"),
            (&format!("{LEGACY}staging_queue = \"a b\""), "staging_queue: expected 1 to 128 characters"),
            (&format!("{LEGACY}fairplay_classes = [\"heavy\"]"), "fairplay_classes[0]: expected a class such as"),
            (
                &format!("{LEGACY}fairplay_classes = [{{ class = \"A\", options = {{ retry = \"no\" }} }}]"),
                "fairplay_classes[0]: expected options in which retry is true, false or a number",
            ),
            (
                &format!("{LEGACY}fairplay_classes = [{{ class = \"A\", options = {{ jid = \"x\" }} }}]"),
                "in which jid is left out, because fairgate sets it",
            ),
        ] {
            let said = mistakes(text, &[]);
            assert!(said.contains(part) && said.ends_with("1 error in fairgate.toml"), "{text}\n{said}");
            assert!(!said.contains("hunter2"), "{said}");
        }
    }
}
