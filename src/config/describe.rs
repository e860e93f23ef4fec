//! Printed form of a configuration: each key with its value and origin, then a summary in
//! sentences.

use std::fmt::Write;
use std::time::Duration;

use super::convert::{Choice, show_duration as time};
use super::report::{is_within, split};
use super::tree::{Kind, Table, Value};
use super::url::{Host, Topology};
use super::{Config, Loaded, MainQueue, MainQueueKind, noisy, policy, tenancy};
use crate::auth::ApiKey;
use crate::domain::plan::{Pace, Rule};

/// Maximum width of the value column. Longer values shift only their own origin to the right.
const WIDEST_VALUE: usize = 40;

/// Formats the output of `fairgate check`.
pub fn describe(loaded: &Loaded) -> String {
    let rows: Vec<Row<'_>> = loaded.keys.iter().filter_map(|path| Row::new(path, loaded)).collect();
    let keys = widest(rows.iter().map(|row| row.key));
    let values = widest(rows.iter().map(|row| row.value.as_str())).min(WIDEST_VALUE);

    let mut text = String::new();
    let mut section = None;
    for row in &rows {
        if section != Some(row.section) {
            let gap = if section.is_some() { "\n" } else { "" };
            let _ = writeln!(text, "{gap}[{}]", row.section);
            section = Some(row.section);
        }
        let _ = writeln!(text, "  {:keys$}  {:values$}  {}", row.key, row.value, row.origin);
    }
    text.push('\n');
    for sentence in sentences(&loaded.config) {
        let _ = writeln!(text, "{sentence}");
    }
    text
}

fn widest<'a>(texts: impl Iterator<Item = &'a str>) -> usize {
    texts.map(|text| text.chars().count()).max().unwrap_or(0)
}

/// One line of the table: a key, its value and its origin.
struct Row<'a> {
    section: &'a str,
    key: &'a str,
    value: String,
    origin: String,
}

impl<'a> Row<'a> {
    /// Creates the row of a path. Returns `None` for a section, whose keys have rows of their own.
    fn new(path: &'a str, Loaded { values, keys, .. }: &Loaded) -> Option<Self> {
        let (section, key) = split(path);
        let inner = |key: &String| key != path && is_within(key, path);
        if section.is_empty() || keys.iter().any(inner) {
            return None;
        }
        let (value, origin) = match lookup(values, path) {
            Some(value) => (value.to_string(), value.origin.to_string()),
            None => ("-".to_owned(), "not set".to_owned()),
        };
        Some(Self { section, key, value, origin })
    }
}

/// Looks up the value at a path such as `plan[0].name`.
fn lookup<'a>(table: &'a Table, path: &str) -> Option<&'a Value> {
    let (part, rest) = path.split_once('.').map_or((path, None), |(part, rest)| (part, Some(rest)));
    let (key, index) =
        part.strip_suffix(']').and_then(|part| part.split_once('[')).map_or((part, None), |(k, i)| (k, Some(i)));
    let mut value = table.get(key)?;
    if let (Some(index), Kind::List(items)) = (index, &value.kind) {
        value = items.get(index.parse::<usize>().ok()?)?;
    }
    match (rest, &value.kind) {
        (None, _) => Some(value),
        (Some(rest), Kind::Table(table)) => lookup(table, rest),
        _ => None,
    }
}

fn sentences(config: &Config) -> Vec<String> {
    let Config { server, limits, store, jobs, workers, retention, .. } = config;
    let roles: Vec<_> = server.roles.iter().map(|role| role.name()).collect();
    let reach = match (server.listen.ip().is_loopback(), config.api_keys.is_empty()) {
        (true, true) => "loopback only",
        (true, false) => "loopback only, with API keys",
        (false, true) => "without authentication",
        (false, false) => "with API keys",
    };
    let mut sentences = vec![
        format!("serves {}, {reach}, as {}", server.listen, roles.join(", ")),
        format!("store: {}, namespace {}", describe_store(config), store.namespace),
        format!(
            "requests: at most {}, {} jobs per batch, {}",
            limits.max_body,
            limits.max_batch,
            time(limits.request_timeout)
        ),
        format!(
            "attempts run for at most {}; workers without a heartbeat for {} are dead",
            time(jobs.timeout),
            time(workers.dead_after)
        ),
        format!(
            "completed jobs are kept for {} (at most {}), cancelled for {}, discarded for {}, dead letters for {} (at most {})",
            time(retention.completed),
            retention.max_completed,
            time(retention.cancelled),
            time(retention.discarded),
            time(retention.dead_letter),
            retention.max_dead_letters,
        ),
    ];
    sentences.extend(config.main_queues.iter().map(describe_main_queue));
    sentences.extend(server.pass_through.as_ref().map(|name| {
        format!("requests that do not concern planning pass through to main queue \"{name}\", with its token")
    }));
    sentences.extend(config.plan.iter().map(describe_rule));
    sentences.extend(policy::describe(&config.policy, config.tenancy.isolation));
    sentences.extend(tenancy::describe(&config.tenancy, &config.tenant));
    sentences.extend(config.api_keys.iter().map(describe_key));
    sentences.extend(noisy::describe(&config.noisy_neighbors));
    if server.test_directives {
        sentences.push("test directives are honoured: clients can make jobs fail".to_owned());
    }
    sentences
}

fn describe_rule(rule: &Rule) -> String {
    let pace = match &rule.pace {
        Pace::Every(ms) => format!("every {}", time(Duration::from_millis(*ms))),
        Pace::Cron { expression, timezone } => format!("at {expression} in {timezone}"),
    };
    let shadow = if rule.shadow { ", in shadow: only watches the queue" } else { "" };
    let into = if rule.is_builtin() { String::new() } else { format!(" into main queue \"{}\"", rule.main_queue) };
    format!("rule \"{}\" plans {} {pace}{into}{shadow}", rule.name, rule.types.join(", "))
}

fn describe_main_queue(main_queue: &MainQueue) -> String {
    let sidekiq = match &main_queue.kind {
        MainQueueKind::Sidekiq(sidekiq) => sidekiq,
        MainQueueKind::Ojs(ojs) => {
            let token = if ojs.token.is_some() { ", with a token" } else { "" };
            return format!("main queue \"{}\" is the OJS server at {}{token}", main_queue.name, ojs.url);
        }
    };
    let place = match (&sidekiq.access.url, sidekiq.database) {
        (Some(url), _) => format!("at {url}"),
        (None, Some(database)) => format!("in database {database} of the store's Redis"),
        (None, None) => "in the store's Redis".to_owned(),
    };
    let mut text = format!("main queue \"{}\" is a Sidekiq {place}", main_queue.name);
    if let Some(queue) = &sidekiq.staging_queue {
        text.push_str(&format!("; jobs in its queue {queue} are staged"));
    }
    if !sidekiq.fairplay_classes.is_empty() {
        let classes: Vec<_> = sidekiq.fairplay_classes.iter().map(|one| one.class.as_str()).collect();
        text.push_str(&format!("; replaces sidekiq-fairplay for {}", classes.join(", ")));
    }
    if sidekiq.release_on_exit {
        text.push_str("; staged jobs are returned when the last process stops");
    }
    text
}

fn describe_key(key: &ApiKey) -> String {
    let tenant = key.tenant.as_ref().map(|tenant| format!(", bound to tenant \"{tenant}\"")).unwrap_or_default();
    format!("{} \"{}\" has the key {}{tenant}", key.role.name(), key.name, key.id())
}

fn describe_store(config: &Config) -> String {
    let store = &config.store;
    let Some(url) = &store.url else {
        return format!("a private redis-server in {}", store.data_dir.display());
    };
    let mut text = match &url.topology {
        Topology::Server { host, database } => {
            format!("the Redis at {}, database {database}", list(std::slice::from_ref(host)))
        }
        Topology::Socket { path, database } => format!("the Redis at {}, database {database}", path.display()),
        Topology::Sentinel { hosts, service, database } => {
            format!("the Redis {service} behind the sentinels at {}, database {database}", list(hosts))
        }
        Topology::Cluster { hosts } => format!("the Redis cluster at {}", list(hosts)),
    };
    if url.tls {
        text.push_str(" over TLS");
    }
    match (&store.username, &store.password) {
        (Some(name), _) => text + " as user " + name,
        (None, Some(_)) => text + " with a password",
        (None, None) => text,
    }
}

fn list(hosts: &[Host]) -> String {
    hosts.iter().map(Host::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{load, try_load};
    use super::*;

    #[test]
    fn shows_each_key_with_its_value_and_who_set_it() {
        let env = [("FAIRGATE_STORE__URL", "rediss://:hunter2@h/1"), ("FAIRGATE_SERVER__ROLES__0", "api")];
        let flags = [["server.listen", "[::1]:9000", "--listen"]];
        let text = describe(&try_load("\n[limits]\nmax_batch = 5\n", &env, &flags).expect("all is well"));
        for line in [
            "[server]",
            "  listen                    \"[::1]:9000\"                   flag --listen",
            "  roles                     [\"api\"]                        environment FAIRGATE_SERVER__ROLES__0",
            "  max_batch                 5                              fairgate.toml:3",
            "  max_body                  \"16MiB\"                        default",
            "  url                       \"rediss://:***@h/1\"            environment FAIRGATE_STORE__URL",
            "  username                  -                              not set",
            "store: the Redis at h:6379, database 1 over TLS with a password, namespace default",
            "serves [::1]:9000, loopback only, as api",
        ] {
            assert!(text.lines().any(|shown| shown == line), "no line {line:?} in\n{text}");
        }
    }

    #[test]
    fn says_what_the_defaults_mean() {
        let text = describe(&load("", &[]));
        assert!(text.contains("\nserves 127.0.0.1:8080, loopback only, as api, planner, dispatch\n"), "{text}");
        assert!(text.contains("\nstore: a private redis-server in fairgate-data, namespace default\n"), "{text}");
        assert!(text.contains("\ncompleted jobs are kept for 24h (at most 100000), "), "{text}");
        let shares = "jobs that name a tenant share queues by fair-share (isolation \"sharded\"); planned jobs keep the order of";
        assert!(text.contains(&format!("\n{shares} their rule\n")), "{text}");
        for (file, expected) in [
            ("[tenancy]\nisolation = \"shared\"", "a queue are first in, first out (isolation \"shared\")"),
            ("[tenant_fairness]\nenabled = false", "all tenants are first in, first out (tenant_fairness is off)"),
        ] {
            let text = describe(&load(file, &[]));
            assert!(text.contains(&format!("\njobs of {expected}\n")), "{text}");
        }
    }

    #[test]
    fn rules_show_what_they_inherit_and_from_where() {
        let file = "\
[plan_defaults]
max_depth = 5
weights.static = { acme = 3 }

[[plan]]
name = \"a\"
types = [\"x.*\"]
[[plan]]
name = \"b\"
types = [\"y\"]
schedule = \"@daily\"
weights = { default_weight = 2, webhook = { url = \"http://h\" } }
";
        let loaded = load(file, &[]);
        let text = describe(&loaded);
        let squeezed: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        for (section, row) in [
            ("[plan_defaults]", "max_depth 5 fairgate.toml:2"),
            ("[plan[0]]", "name \"a\" fairgate.toml:6"),
            ("[plan[0]]", "max_depth 5 fairgate.toml:2"),
            ("[plan[0]]", "max_blocked 100 default"),
            ("[plan[0]]", "schedule - not set"),
            ("[plan[0]]", "timezone - not set"),
            ("[plan[0].weights]", "static { acme = 3 } fairgate.toml:3"),
            ("[plan[0].weights]", "webhook - not set"),
            ("[plan[1]]", "enqueue_interval - not set"),
            ("[plan[1]]", "timezone \"UTC\" default"),
            ("[plan[1].weights]", "default_weight 2 fairgate.toml:12"),
            ("[plan[1].weights.webhook]", "url \"http://h\" fairgate.toml:12"),
        ] {
            let mut rows = squeezed.iter().skip_while(|line| *line != section).take_while(|line| !line.is_empty());
            let found = rows.any(|line| line == row);
            assert!(found, "no {row:?} in {section} of\n{text}");
        }
        assert!(text.contains("\nrule \"a\" plans x.* every 1s\n"), "{text}");
        assert!(text.contains("\nrule \"b\" plans y at @daily in UTC\n"), "{text}");
        assert_eq!(lookup(&loaded.values, "plan[2].name"), None);
    }
}
