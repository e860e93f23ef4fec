//! `[[main_queue]]`: queues of other systems that plan rules can promote into.

use super::Sources;
use super::access::Access;
use super::convert::{Choice, FromValue, Label, Refused};
use super::ojs::Ojs;
use super::reader::Reader;
use super::store::Store;
use super::tree::{Kind, Table, Value};
use super::url::Topology;
use crate::fair::BUILTIN;
use crate::job::sidekiq;

/// A main queue that is not fairgate's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MainQueue {
    /// What plan rules call it.
    pub name: String,
    pub kind: MainQueueKind,
}

/// What stands behind a main queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MainQueueKind {
    Sidekiq(Sidekiq),
    Ojs(Ojs),
}

/// What kind of system a main queue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    Sidekiq,
    Ojs,
}

impl Choice for System {
    const CHOICES: &'static [(&'static str, Self)] = &[("sidekiq", Self::Sidekiq), ("ojs", Self::Ojs)];
}

/// An existing Sidekiq.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sidekiq {
    /// Its Redis; without a URL, the one of `[store]`.
    pub access: Access,
    /// Its database, where the Redis is that of `[store]`.
    pub database: Option<u32>,
    /// What all its keys start with, without the colon.
    pub namespace: Option<String>,
    /// A queue that no worker reads: what lies there is staged.
    pub staging_queue: Option<String>,
    /// Classes whose jobs the gem sidekiq-fairplay has staged.
    pub fairplay_classes: Vec<FairplayClass>,
}

/// A class of the gem sidekiq-fairplay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FairplayClass {
    pub class: String,
    /// How its keys name it.
    pub key: String,
    /// Where the gem's own planner runs, to which the class is handed back.
    pub planner_queue: String,
}

/// Names of all main queues that a merged configuration has, whether or not they are sound, and their kind if it is.
pub(super) fn names_of(values: &Table) -> Vec<(String, Option<System>)> {
    let Some(Kind::List(items)) = values.get("main_queue").map(|value| &value.kind) else { return Vec::new() };
    let name = |item: &Value| match &item.kind {
        Kind::Table(table) => {
            let system = table.get("kind").and_then(|kind| System::from_value(kind).ok());
            Some((table.get("name").and_then(Value::text)?.to_owned(), system))
        }
        _ => None,
    };
    items.iter().filter_map(name).collect()
}

/// Reads every `[[main_queue]]`.
pub(super) fn read(root: &mut Reader<'_>, sources: &Sources, store: &Store) -> Vec<MainQueue> {
    let mut names: Vec<String> = Vec::new();
    let mut index = 0;
    root.each("main_queue", |reader| {
        let Label(name) = reader.get("name");
        if name == BUILTIN {
            reader.refuse("name", Refused::new("another name, as this one means fairgate's own queues"));
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
            _ => MainQueueKind::Sidekiq(Sidekiq::read(reader, sources, index, store)),
        };
        index += 1;
        MainQueue { name, kind }
    })
}

impl Sidekiq {
    fn read(reader: &mut Reader<'_>, sources: &Sources, index: usize, store: &Store) -> Self {
        let variable = format!("FAIRGATE_MAIN_QUEUE__{index}__URL");
        let mut access = Access::read(reader, sources, "main_queue", &variable);
        if let Some(sentinels) = reader.find_list::<String>("sentinels") {
            let url = access.url.take().ok_or_else(|| Refused::new("a url that names the service: redis://mymaster/0"));
            match url.and_then(|url| url.behind(&sentinels)) {
                Ok(url) => access.url = Some(url),
                Err(refused) => reader.refuse("sentinels", refused),
            }
        }
        let database = reader.find("database");
        if access.url.is_some() && database.is_some() {
            let help = "the url names the database: redis://host:6379/3";
            reader.conflict(&["database"], "a database goes with the Redis of [store], and a url is set", Some(help));
        }
        let own = store.url.as_ref().map(|url| &url.topology);
        let topology = access.url.as_ref().map(|url| &url.topology);
        if matches!(topology.or(own), Some(Topology::Cluster { .. })) {
            let message = "expected a Redis that is no cluster, found one: the keys of Sidekiq lie in different slots";
            let help = "Sidekiq does not run on a cluster: name the Redis that your workers use in url";
            match topology {
                Some(_) => reader.conflict(&["url"], message, Some(help)),
                None => reader.blame(message, Some(help)),
            }
        }
        let is_name = |text: &String| sidekiq::is_name(text);
        Self {
            access,
            database,
            namespace: reader.find_such("namespace", sidekiq::NAME_EXPECTED, is_name),
            staging_queue: reader.find_such("staging_queue", sidekiq::NAME_EXPECTED, is_name),
            fairplay_classes: reader.find_list("fairplay_classes").unwrap_or_default(),
        }
    }

    /// What all keys of this Sidekiq start with.
    pub fn prefix(&self) -> String {
        self.namespace.as_ref().map(|namespace| format!("{namespace}:")).unwrap_or_default()
    }
}

/// `"HeavyJob"`, or `{ class = "HeavyJob", key = "heavy_job", planner_queue = "default" }`.
impl FromValue for FairplayClass {
    fn from_value(value: &Value) -> Result<Self, Refused> {
        let refused = || Refused::new("a class such as \"HeavyJob\", or { class = \"HeavyJob\", key = \"heavy_job\" }");
        let read =
            |text: Option<&str>| text.filter(|text| sidekiq::is_class(text)).map(str::to_owned).ok_or_else(refused);
        let (class, key, planner_queue) = match &value.kind {
            Kind::Table(table) => {
                let known = ["class", "key", "planner_queue"];
                if let Some(odd) = table.keys().find(|key| !known.contains(&key.as_str())) {
                    return Err(refused().help(format!("it has no {odd:?}, only class, key and planner_queue")));
                }
                let text = |key: &str| table.get(key).and_then(Value::text);
                (read(text("class"))?, text("key").map(str::to_owned), text("planner_queue").map(str::to_owned))
            }
            _ => (read(value.text())?, None, None),
        };
        let key = key.unwrap_or_else(|| sidekiq::underscore(&class));
        Ok(FairplayClass { class, key, planner_queue: planner_queue.unwrap_or_else(|| "default".to_owned()) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{load, mistakes};
    use super::super::url::StoreUrl;
    use super::*;

    const LEGACY: &str = "[[main_queue]]\nname = \"legacy\"\nkind = \"sidekiq\"\n";

    fn sidekiq(text: &str, env: &[(&str, &str)]) -> Sidekiq {
        match load(text, env).config.main_queues.remove(0).kind {
            MainQueueKind::Sidekiq(sidekiq) => sidekiq,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_option_can_be_set() {
        let text = format!(
            "{LEGACY}url = \"redis://h:6380/3\"\nusername = \"app\"\npassword_env = \"PW\"\nnamespace = \"shop\"\n\
             staging_queue = \"to_stage\"\nfairplay_classes = [\"A::HTMLJob\", {{ class = \"B\", key = \"bee\" }}]\n"
        );
        let read = sidekiq(&text, &[("PW", "hunter2")]);
        assert_eq!((read.prefix().as_str(), read.staging_queue.as_deref()), ("shop:", Some("to_stage")));
        let keys: Vec<_> = read.fairplay_classes.iter().map(|one| (one.class.as_str(), one.key.as_str())).collect();
        assert_eq!(keys, [("A::HTMLJob", "a/html_job"), ("B", "bee")]);
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
    fn sentinels_name_the_server_of_a_service() {
        let text = format!("{LEGACY}url = \"rediss://app@mymaster/2\"\nsentinels = [\"a:26380\", \"b\"]");
        let access = sidekiq(&text, &[]).access;
        assert_eq!(access.url, Some(StoreUrl::parse("rediss+sentinel://app@a:26380,b/mymaster/2").unwrap()));
        assert_eq!(access.username.as_deref(), Some("app"));
        for (settings, expected) in [
            ("sentinels = [\"a\"]", "a url that names the service"),
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
                "another name, as this one means fairgate's own",
            ),
            (&format!("{LEGACY}{LEGACY}"), "main_queue[1].name: expected a name that no other main queue has"),
            (
                &format!("{LEGACY}url = \"redis://:hunter2@h\""),
                "or the environment variable FAIRGATE_MAIN_QUEUE__0__URL",
            ),
            (&format!("{LEGACY}url = \"redis+cluster://h:7000\""), "no cluster, found one: the keys of Sidekiq"),
            (&format!("[store]\nurl = \"redis+cluster://h:7000\"\n{LEGACY}"), "no cluster, found one"),
            (&format!("{LEGACY}url = \"redis://h\"\ndatabase = 3"), "the url names the database"),
            (&format!("{LEGACY}stagingqueue = \"a\""), "did you mean \"staging_queue\"?"),
            (&format!("{LEGACY}staging_queue = \"a b\""), "staging_queue: expected 1 to 128 characters"),
            (&format!("{LEGACY}fairplay_classes = [\"heavy\"]"), "fairplay_classes[0]: expected a class such as"),
        ] {
            let said = mistakes(text, &[]);
            assert!(said.contains(part) && said.ends_with("1 mistake in fairgate.toml"), "{text}\n{said}");
            assert!(!said.contains("hunter2"), "{said}");
        }
    }
}
