//! The configuration: defaults, file, environment and flags, merged into one typed struct.
//!
//! Each layer becomes a tree of values with their origins. The trees are merged (`tree`), converted
//! into structs (`reader`), and all errors are reported at once (`problem`). `default.toml`
//! documents every key with its default.
//!
//! To add a section: write a struct with a `read` function, call it in `Config::read`, and document
//! its keys in `default.toml`. A test checks the latter.

mod access;
mod api_key;
mod convert;
mod describe;
mod env;
mod file;
mod main_queue;
mod noisy;
mod ojs;
mod plan;
mod policy;
mod problem;
mod reader;
mod report;
mod scenario;
mod secret;
mod sections;
mod server;
mod size;
mod store;
mod tenancy;
mod tree;
mod unknown_variable;
mod url;

use std::path::PathBuf;

use crate::auth::ApiKey;
use crate::domain::noisy::NoisyNeighbors;
use crate::domain::plan::Rule;
use crate::domain::pool::Policy;
use crate::domain::tenant::{Isolation, Tenancy, TenantRule};

pub use access::Access;
pub use convert::{Choice, FromValue, Ranged, Refused};
pub use describe::describe;
pub use env::Flag;
pub use main_queue::{FairplayClass, KnownMainQueue, MainQueue, MainQueueKind, Sidekiq, System};
pub use ojs::Ojs;
pub use plan::{PlanDefaults, RuleContext, plan_from_json};
pub use policy::{policy_from_json, pool_from_json, scheduling_from_json};
pub use problem::{Error, Mistakes, Problem};
pub use reader::SettingsReader;
pub use scenario::read_scenario;
pub use secret::{Secret, redact};
pub use sections::{Jobs, Limits, Log, LogFormat, Retention, Workers};
pub use server::{Role, Server};
pub use size::ByteSize;
pub use store::Store;
pub use tenancy::{limits_from_json, tenant_from_json};
pub use tree::{Origin, Table, Value};
pub use url::{Host, StoreUrl, Topology};

use problem::ConfigText;
use report::Findings;
use tree::Kind;

/// The reference of the configuration: every key with its default and documentation.
pub const DEFAULTS: &str = include_str!("default.toml");

/// Sources of the settings. They are parameters, so that tests do not depend on their environment.
#[derive(Clone, Default)]
pub struct Sources {
    /// File that the user requested.
    pub file: Option<PathBuf>,
    /// Directory in which `fairgate.toml` is searched, and base of relative paths.
    pub directory: PathBuf,
    /// Environment variables: settings and secrets.
    pub env: Vec<(String, String)>,
    pub flags: Vec<Flag>,
}

impl Sources {
    /// Returns the sources of this process: working directory, environment and the given flags.
    pub fn of_process(file: Option<PathBuf>, flags: Vec<Flag>) -> Self {
        // Lossy conversion: skipping a variable that is not UTF-8 would ignore it silently.
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        let env = std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect();
        Self { file, directory: PathBuf::new(), env, flags }
    }

    /// Returns true if an environment variable is set and not empty.
    fn is_set(&self, name: &str) -> bool {
        self.env.iter().any(|(set, text)| set == name && !text.is_empty())
    }
}

/// All settings, validated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `[server]`: HTTP server and roles.
    pub server: Server,
    /// `[limits]`: bounds on requests.
    pub limits: Limits,
    /// `[store]`: Redis.
    pub store: Store,
    /// `[jobs]`: defaults of jobs.
    pub jobs: Jobs,
    /// `[workers]`: heartbeats.
    pub workers: Workers,
    /// `[retention]`: lifetime of finished jobs and other records.
    pub retention: Retention,
    /// `[log]`: log output.
    pub log: Log,
    /// `[plan_defaults]`, for plan rules that are created at run time.
    pub plan_defaults: PlanDefaults,
    /// `[[main_queue]]`: main queues of other systems.
    pub main_queues: Vec<MainQueue>,
    /// `[[plan]]`: plan rules, in the order in which they are matched.
    pub plan: Vec<Rule>,
    /// Dispatch policy, until it is changed at run time.
    pub policy: Policy,
    /// `[tenancy]`: sources of tenants, and isolation.
    pub tenancy: Tenancy,
    /// `[[tenant]]`: settings of tenants, until they are changed at run time.
    pub tenant: Vec<TenantRule>,
    /// `[[api_key]]`: API keys, in addition to those created at run time.
    pub api_keys: Vec<ApiKey>,
    /// `[noisy_neighbors]`: detection and throttling of noisy neighbours.
    pub noisy_neighbors: NoisyNeighbors,
}

/// A configuration together with the origins of its values.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// Merged tree that the settings were read from.
    pub values: Table,
    /// Paths of all known keys, including sections, in the order of the reference.
    pub keys: Vec<String>,
}

impl Config {
    /// Loads the settings, or reports all errors in them.
    pub fn load(sources: &Sources) -> Result<Self, Error> {
        Loaded::load(sources).map(|loaded| loaded.config)
    }

    fn read(
        root: &mut SettingsReader<'_>,
        sources: &Sources,
        plan_defaults: PlanDefaults,
        scope: RuleContext<'_>,
    ) -> Self {
        // Keys with errors count too: they are reported later, and the load fails anyway.
        let has_keys = matches!(root.kind("api_key"), Some(Kind::List(keys)) if !keys.is_empty());
        let server = root.section("server", |reader| Server::read(reader, has_keys, scope));
        let limits = root.section("limits", Limits::read);
        let store = root.section("store", |reader| Store::read(reader, sources));
        let config = Self {
            server,
            limits,
            jobs: root.section("jobs", Jobs::read),
            workers: root.section("workers", Workers::read),
            retention: root.section("retention", Retention::read),
            log: root.section("log", Log::read),
            plan_defaults: root.section("plan_defaults", |reader| plan_defaults.read(reader, scope)),
            main_queues: main_queue::read(root, sources, &store),
            plan: plan::read_rules(root, scope),
            policy: policy::read(root),
            tenancy: root.section("tenancy", tenancy::read_tenancy),
            tenant: tenancy::read_tenants(root),
            noisy_neighbors: root.section("noisy_neighbors", noisy::read),
            api_keys: api_key::read(root, sources),
            store,
        };
        let has_own = config.policy.pools.iter().any(|pool| pool.tenant.is_some());
        if has_own && config.tenancy.isolation != Isolation::Namespace {
            let message = "a pool has a `tenant`, but tenants have no queues of their own";
            root.conflict(&["pool"], message, Some("set tenancy.isolation to \"namespace\", or leave tenant out"));
        }
        config
    }
}

/// The embedded defaults, regardless of files and environment.
impl Default for Config {
    fn default() -> Self {
        let loaded = assemble(None, &Sources::default());
        loaded.expect("default.toml is part of the program, and a test loads it").config
    }
}

impl Loaded {
    /// Loads the settings like [`Config::load`], and keeps the origins of the values.
    pub fn load(sources: &Sources) -> Result<Self, Error> {
        assemble(file::read(&sources.directory, sources.file.as_deref())?, sources)
    }
}

fn assemble(source: Option<ConfigText>, sources: &Sources) -> Result<Loaded, Error> {
    let mut values = file::parse_defaults(DEFAULTS);
    let (file, mut problems) = source.as_ref().map(file::parse).unwrap_or_default();
    let (env, env_problems) = env::layer(&sources.env);
    problems.extend(env_problems);
    for layer in [file, env, env::flag_layer(&sources.flags)] {
        tree::merge(&mut values, layer);
    }
    tree::settle(&mut values, &mut problems);
    let main_queues = main_queue::known_in(&values);
    let passes_through = server::passes_through(&values);
    let scope = RuleContext { is_set: &|name| sources.is_set(name), main_queues: Some(&main_queues), passes_through };
    let plan_defaults = PlanDefaults::of(&values, scope);
    plan_defaults.complete_all(&mut values);

    let mut report = Findings::new(problems);
    let config = SettingsReader::root(&values, &mut report, |root| Config::read(root, sources, plan_defaults, scope));
    let (mut problems, keys) = report.finish();
    problems.extend(unknown_variable::find(&sources.env, &values, &keys));
    if problems.is_empty() { Ok(Loaded { config, values, keys }) } else { Err(Mistakes::new(problems, source).into()) }
}

#[cfg(test)]
mod testing {
    use super::*;

    /// Loads a `fairgate.toml` with this content.
    pub fn try_load(text: &str, env: &[(&str, &str)], flags: &[[&str; 3]]) -> Result<Loaded, Error> {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let flag = |flag: &[&str; 3]| {
            let [path, value, name] = flag.map(str::to_owned);
            Flag { path, value, name }
        };
        let flags = flags.iter().map(flag).collect();
        let source = ConfigText { path: std::path::Path::new(file::NAME).into(), text: text.to_owned() };
        assemble(Some(source), &Sources { env, flags, ..Sources::default() })
    }

    /// Like `try_load`, for a configuration without errors.
    pub fn load(text: &str, env: &[(&str, &str)]) -> Loaded {
        try_load(text, env, &[]).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns the error text of an invalid configuration.
    pub fn mistakes(text: &str, env: &[(&str, &str)]) -> String {
        try_load(text, env, &[]).expect_err("it has mistakes").to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::testing::{load, mistakes, try_load};
    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        let config = Config::default();
        assert_eq!(config, load("", &[]).config);
        assert_eq!(config.server.listen.to_string(), "127.0.0.1:8080");
        assert!(config.server.has(Role::Dispatch) && config.store.url.is_none());
        assert_eq!(config.limits.max_body.bytes(), 16 << 20);
        assert_eq!(config.retention.dead_letter, Duration::from_secs(180 * 86_400));
    }

    #[test]
    fn the_reference_explains_every_key_and_nothing_else() {
        let mut documented = Vec::new();
        let (mut section, mut previous) = ("", "");
        for line in DEFAULTS.lines() {
            let setting = line.trim_start_matches("# ").split_once(" = ").map(|(key, _)| key);
            // Lists of tables have no defaults, so they are documented in comments.
            match (line.strip_prefix('[').or(line.strip_prefix("# [[")), setting) {
                (Some(name), _) => section = name.trim_end_matches(']'),
                (None, Some(key)) if !key.contains(' ') => {
                    // A blank line or a header above is no documentation; another setting shares
                    // its comment.
                    assert!(!previous.is_empty() && !previous.starts_with('['), "{section}.{key} has no comment");
                    documented.push(format!("{section}.{key}"));
                }
                _ => {}
            }
            previous = line;
        }
        let lists = "[[main_queue]]\nname = \"a\"\nkind = \"sidekiq\"\n\
            [[main_queue]]\nname = \"b\"\nkind = \"ojs\"\nurl = \"http://h\"\n[[plan]]\nname = \"a\"\ntypes = [\"a\"]\n[[pool]]\nname = \"a\"\nqueues = [\"a\"]\n\
            [[limit]]\nqueue = \"a\"\nconcurrency = 1\n[[tenant]]\nid = \"a\"\n\
            [[api_key]]\nname = \"a\"\nrole = \"admin\"\nkey_env = \"K\"\n";
        let keys = load(lists, &[("K", "0123456789abcdef0123456789abcdef")]).keys;
        let is_section = |key: &&String| keys.iter().any(|inner| inner != *key && report::is_within(inner, key));
        let mut known: Vec<_> =
            keys.iter().filter(|key| !is_section(key)).map(|key| key.replace("[0]", "").replace("[1]", "")).collect();
        // Options that a rule inherits are documented in [plan_defaults].
        let inherited = |rest: &str| documented.contains(&format!("plan_defaults.{rest}"));
        known.retain(|key| !key.strip_prefix("plan.").is_some_and(inherited));
        assert_eq!(documented, known);
    }

    #[test]
    fn later_layers_win() {
        let file = "[limits]\nmax_batch = 1\nmax_nesting = 1\nmax_connections = 1\n";
        let env = [("FAIRGATE_LIMITS__MAX_NESTING", "2"), ("FAIRGATE_LIMITS__MAX_CONNECTIONS", "2")];
        let loaded = try_load(file, &env, &[["limits.max_connections", "3", "--max-connections"]]);
        let limits = loaded.expect("all is well").config.limits;
        assert_eq!((limits.max_batch, limits.max_nesting, limits.max_connections), (1, 2, 3));
        assert_eq!(limits.max_header, ByteSize::kib(32));
    }

    #[test]
    fn all_mistakes_come_at_once_in_the_order_of_the_file() {
        let file = "\
[sevrer]
listen = 1

[limits]
max_batch = 0
max_nesting = = 1

[log]
format = \"jsn\"
namespace = \"x\"
";
        let text = mistakes(file, &[("FAIRGATE_JOBS__TIMEOUT", "30")]);
        let expected = "\
error: sevrer: unknown key \"sevrer\" at the top of the file
 --> fairgate.toml:1:2
  |
1 | [sevrer]
  |  ^^^^^^
  = help: did you mean \"server\"?

error: limits.max_batch: expected a whole number of at least 1 and at most 10000, found 0
 --> fairgate.toml:5:13
  |
5 | max_batch = 0
  |             ^
";
        assert!(text.starts_with(expected), "{text}");
        let places: Vec<_> = text.lines().filter_map(|line| line.split_once("--> ")).map(|(_, place)| place).collect();
        let environment = "environment FAIRGATE_JOBS__TIMEOUT";
        let lines = ["1:2", "5:13", "6:15", "9:10", "10:1"].map(|place| format!("fairgate.toml:{place}"));
        assert_eq!(places, [&lines[..], &[environment.to_owned()]].concat(), "{text}");
        assert!(text.contains("= help: did you mean [store] namespace?"), "{text}");
        assert!(text.ends_with("6 errors in fairgate.toml and the environment"), "{text}");
    }

    #[test]
    fn a_broken_file_raises_no_doubts_about_what_it_did_not_say() {
        let text = mistakes("[server]\nlisten = \"0.0.0.0:80\"\ninsecure_no_auth = yes\n", &[]);
        assert!(text.ends_with("1 error in fairgate.toml") && text.contains("fairgate.toml:3"), "{text}");
    }

    #[test]
    fn files_are_found_by_name_or_by_flag() {
        let home = tempfile::tempdir().expect("a directory");
        let sources = |file: Option<&str>| Sources {
            file: file.map(PathBuf::from),
            directory: home.path().to_owned(),
            ..Sources::default()
        };
        assert_eq!(Config::load(&sources(None)).expect("no file is fine"), Config::default());
        assert!(matches!(Config::load(&sources(Some("my.toml"))), Err(Error::Unreadable { .. })));
        std::fs::write(home.path().join("my.toml"), "[log]\nlevel = \"debug\"\n").expect("a file");
        assert_eq!(Config::load(&sources(Some("my.toml"))).expect("it is there").log.level, "debug");
    }

    #[test]
    fn nothing_that_can_be_printed_holds_a_secret() {
        let env = [("FAIRGATE_STORE__URL", "redis://app:hunter2@h"), ("PW", "hunter2")];
        let loaded = load("", &env);
        assert!(!format!("{loaded:?} {}", describe(&loaded)).contains("hunter2"));
    }

    proptest::proptest! {
        #[test]
        fn no_file_makes_it_panic(cut in 0..DEFAULTS.len(), length in 0..200_usize, junk in "[a-z=\"'\\[\\]{}.,#:/@ \n\tä0-9]{0,40}") {
            // The reference with a piece replaced by junk: close enough to valid to reach every
            // reader.
            let head: String = DEFAULTS.chars().take(cut).collect();
            let tail: String = DEFAULTS.chars().skip(cut + length).collect();
            if let Err(error) = try_load(&format!("{head}{junk}{tail}"), &[("FAIRGATE_A__B", &junk)], &[]) {
                proptest::prop_assert!(error.to_string().contains(" error"));
            }
        }
    }
}
