//! `[server]`: HTTP server and roles of this process.

use std::net::SocketAddr;
use std::time::Duration;

use super::RuleContext;
use super::convert::{Choice, FromValue, Label, Refused};
use super::main_queue::{KnownMainQueue, System};
use super::reader::SettingsReader;
use super::report::nearest;
use super::sections::INSTANT;
use super::tree::{Kind, Table, Value};

/// A task of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Serves the HTTP API.
    Api,
    /// Promotes staged jobs.
    Planner,
    /// Runs timers, expiry and other background tasks.
    Dispatch,
}

impl Choice for Role {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("api", Self::Api), ("planner", Self::Planner), ("dispatch", Self::Dispatch)];
}

/// `[server]`: HTTP server and roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Address of the HTTP API. Must be loopback unless there are API keys or `insecure_no_auth` is
    /// set.
    pub listen: SocketAddr,
    /// Roles of this process: at least one, without duplicates.
    pub roles: Vec<Role>,
    /// Groups of plan rules whose rounds this process runs, if it is a planner: at least one,
    /// without duplicates.
    pub planner_groups: Vec<String>,
    /// True if jobs may request failures, for the conformance suites.
    pub test_directives: bool,
    /// True if requests are served without API keys, because a proxy authenticates them.
    pub insecure_no_auth: bool,
    /// True to create an admin key at startup if there is none.
    pub generate_key: bool,
    /// True if webhooks may use private addresses and plain HTTP.
    pub private_webhooks: bool,
    /// Main queue of kind `ojs` to which all requests that do not concern planning are passed on.
    pub pass_through: Option<String>,
    /// Accepted `Host` names of a server without keys, in addition to those of this machine; lower
    /// case.
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages may use the API, in the notation of browsers.
    pub cors_origins: Vec<String>,
    /// True if `/` serves the dashboard.
    pub dashboard: bool,
    /// Maximum time for the head of a request to arrive.
    pub header_timeout: Duration,
    /// Maximum time that a connection may be idle between requests.
    pub idle_timeout: Duration,
    /// Maximum time that a client may accept no data of a response.
    pub send_timeout: Duration,
    /// Maximum number of open connections per peer; unlimited if absent.
    pub max_connections_per_peer: Option<usize>,
    /// Maximum time for requests in flight to finish after SIGTERM.
    pub shutdown_grace: Duration,
}

/// Returns true if a merged configuration sets `pass_through`, valid or not.
pub(super) fn passes_through(values: &Table) -> bool {
    matches!(values.get("server").map(|server| &server.kind), Some(Kind::Table(server)) if server.contains_key("pass_through"))
}

impl Server {
    /// Reads the section. `has_keys` is true if the configuration contains API keys.
    pub(super) fn read(reader: &mut SettingsReader<'_>, has_keys: bool, scope: RuleContext<'_>) -> Self {
        let server = Self {
            listen: reader.find("listen").unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0))),
            roles: reader.list("roles"),
            planner_groups: reader.list("planner_groups").into_iter().map(|Label(group)| group).collect(),
            test_directives: reader.get("test_directives"),
            insecure_no_auth: reader.get("insecure_no_auth"),
            generate_key: reader.get("generate_key"),
            private_webhooks: reader.get("private_webhooks"),
            pass_through: reader.find("pass_through"),
            allowed_hosts: reader.list("allowed_hosts").into_iter().map(|HostName(name)| name).collect(),
            cors_origins: reader.list("cors_origins").into_iter().map(|WebOrigin(origin)| origin).collect(),
            dashboard: reader.get("dashboard"),
            header_timeout: reader.get_in("header_timeout", INSTANT..),
            idle_timeout: reader.get_in("idle_timeout", INSTANT..),
            send_timeout: reader.get_in("send_timeout", INSTANT..),
            max_connections_per_peer: reader.find_in("max_connections_per_peer", 1..),
            shutdown_grace: reader.get("shutdown_grace"),
        };
        if let Some(name) = &server.pass_through {
            check_pass_through(reader, name, scope.main_queues.unwrap_or_default());
        }
        if reader.is_sound(&["roles"]) && !are_some_and_different(&server.roles) {
            reader.conflict(&["roles"], "expected at least one role, without duplicates", None);
        }
        if reader.is_sound(&["planner_groups"]) && !are_some_and_different(&server.planner_groups) {
            reader.conflict(&["planner_groups"], "expected at least one group, without duplicates", None);
        }
        let asks = server.insecure_no_auth || server.generate_key || has_keys;
        let open = !server.listen.ip().is_loopback() && !asks;
        if reader.is_sound(&["listen", "insecure_no_auth"]) && open {
            let message = format!(
                "serving {} without authentication lets any client that reaches it read and change all jobs",
                server.listen
            );
            let help = "add an [[api_key]], pass --generate-key to create one, listen on loopback, or pass --insecure-no-auth behind a proxy that authenticates";
            reader.conflict(&["listen"], message, Some(help));
        }
        server
    }

    /// Returns true if this process has the role.
    pub fn has(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }
}

/// A host name without a port.
struct HostName(String);

impl FromValue for HostName {
    fn from_value(value: &Value) -> Result<Self, Refused> {
        let name = value.text().unwrap_or_default().to_ascii_lowercase();
        let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
        match ::url::Host::parse(&name) {
            Ok(host) if host.to_string() == name && is_plain => Ok(HostName(name)),
            _ => Err(Refused::new("a host name without a port, such as jobs.example.com")),
        }
    }
}

/// The origin of a web page, as browsers send it: scheme, host, and the port if it is not the
/// default one.
struct WebOrigin(String);

impl FromValue for WebOrigin {
    fn from_value(value: &Value) -> Result<Self, Refused> {
        let text = value.text().unwrap_or_default();
        let refused = || Refused::new("an origin without a path, such as https://dash.example.com");
        let url = ::url::Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let origin = url.ok_or_else(refused)?.origin().ascii_serialization();
        if origin == text { Ok(WebOrigin(origin)) } else { Err(refused().help(format!("did you mean \"{origin}\"?"))) }
    }
}

fn check_pass_through(reader: &mut SettingsReader<'_>, name: &str, main_queues: &[KnownMainQueue]) {
    match main_queues.iter().find(|known| known.name == name).map(|known| known.system) {
        // An invalid kind is reported at the main queue.
        Some(None | Some(System::Ojs)) => {}
        Some(Some(System::Sidekiq)) => {
            let refused = Refused::new("the name of a [[main_queue]] of kind ojs").help("a Sidekiq has no HTTP API");
            reader.refuse("pass_through", refused);
        }
        None => {
            let names = main_queues.iter().filter(|known| known.system == Some(System::Ojs));
            let refused = Refused::new("the name of a [[main_queue]] of kind ojs");
            reader.refuse(
                "pass_through",
                match nearest(name, names.map(|known| known.name.as_str())) {
                    Some(meant) => refused.help(format!("did you mean \"{meant}\"?")),
                    None => refused,
                },
            );
        }
    }
}

fn are_some_and_different<T: PartialEq>(items: &[T]) -> bool {
    !items.is_empty() && !items.iter().enumerate().any(|(index, item)| items[..index].contains(item))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{load, mistakes};
    use super::*;

    #[test]
    fn an_open_address_needs_a_deliberate_choice() {
        let text = mistakes("[server]\nlisten = \"0.0.0.0:80\"", &[]);
        assert!(text.contains("serving 0.0.0.0:80 without authentication lets any client"), "{text}");
        assert!(text.contains("help: add an [[api_key]], pass --generate-key"), "{text}");
        assert!(load("[server]\nlisten = \"0.0.0.0:80\"\ninsecure_no_auth = true", &[]).config.server.insecure_no_auth);
        assert!(load("[server]\nlisten = \"[::1]:80\"", &[]).config.server.listen.is_ipv6());
    }

    #[test]
    fn roles_are_some_and_different() {
        let roles = |list: &str| load("", &[("FAIRGATE_SERVER__ROLES", list)]).config.server.roles;
        assert_eq!(roles("api, planner"), [Role::Api, Role::Planner]);
        assert_eq!(roles(r#"["dispatch"]"#), [Role::Dispatch]);
        for list in ["[]", "[\"api\", \"api\"]"] {
            let text = mistakes(&format!("[server]\nroles = {list}"), &[]);
            assert!(text.contains("expected at least one role, without duplicates"), "{text}");
        }
        let text = mistakes("[server]\nroles = [\"api\", \"planer\"]", &[]);
        assert!(text.contains("server.roles[1]: expected one of api, planner, dispatch, found \"planer\""), "{text}");
        assert!(text.contains("did you mean \"planner\"?") && text.ends_with("1 error in fairgate.toml"), "{text}");
    }

    #[test]
    fn requests_pass_through_to_a_server_that_there_is() {
        const REMOTE: &str = "[[main_queue]]\nname = \"jobs\"\nkind = \"ojs\"\nurl = \"http://h\"\n";
        const LEGACY: &str = "[[main_queue]]\nname = \"legacy\"\nkind = \"sidekiq\"\n";
        let with = |name: &str, more: &str| format!("[server]\npass_through = \"{name}\"\n{REMOTE}{LEGACY}{more}");
        assert_eq!(load(&with("jobs", ""), &[]).config.server.pass_through.as_deref(), Some("jobs"));
        assert_eq!(load(REMOTE, &[]).config.server.pass_through, None);
        let rule = "[[plan]]\nname = \"a\"\ntypes = [\"x\"]\n";
        assert_eq!(load(&with("jobs", &format!("{rule}main_queue = \"jobs\"")), &[]).config.plan[0].main_queue, "jobs");
        for (text, part) in [
            (with("jbos", ""), "pass_through: expected the name of a [[main_queue]] of kind ojs, found \"jbos\""),
            (with("jbos", ""), "did you mean \"jobs\"?"),
            (with("legacy", ""), "a Sidekiq has no HTTP API"),
            (with("jobs", rule), "no worker reads fairgate's own queues"),
            (
                with("jobs", &format!("{rule}main_queue = \"jobs\"\nclass = \"A\"")),
                "class requires a main queue of kind sidekiq",
            ),
            (with("jobs", &format!("{rule}main_queue = \"jobs\"\nqueue = \"A_b\"")), "queue: expected 1 to 128"),
        ] {
            let said = mistakes(&text, &[]);
            assert!(said.contains(part) && said.ends_with("1 error in fairgate.toml"), "{text}\n{said}");
        }
    }

    #[test]
    fn hosts_and_origins_are_as_browsers_write_them() {
        let server = load(
            "[server]\nallowed_hosts = [\"Jobs.example.com\"]\ncors_origins = [\"https://a.example\", \"http://localhost:3000\"]",
            &[],
        )
        .config
        .server;
        assert_eq!(server.allowed_hosts, ["jobs.example.com"]);
        assert_eq!(server.cors_origins, ["https://a.example", "http://localhost:3000"]);
        for (list, part) in [
            ("allowed_hosts = [\"a.example:80\"]", "expected a host name without a port"),
            ("allowed_hosts = [\"*\"]", "expected a host name without a port"),
            ("cors_origins = [\"*\"]", "expected an origin without a path"),
            ("cors_origins = [\"null\"]", "expected an origin without a path"),
            ("cors_origins = [\"file:///x\"]", "expected an origin without a path"),
            ("cors_origins = [\"https://a.example/\"]", "did you mean \"https://a.example\"?"),
            ("cors_origins = [\"https://A.example:443/x\"]", "did you mean \"https://a.example\"?"),
        ] {
            let text = mistakes(&format!("[server]\n{list}"), &[]);
            assert!(text.contains(part) && text.ends_with("1 error in fairgate.toml"), "{list}: {text}");
        }
    }

    #[test]
    fn planner_groups_are_labels() {
        let groups = |file: &str| load(file, &[]).config.server.planner_groups;
        assert_eq!(groups(""), ["default"]);
        assert_eq!(groups("[server]\nplanner_groups = [\"eu\", \"us\"]"), ["eu", "us"]);
        for (list, part) in [
            ("[]", "expected at least one group, without duplicates"),
            ("[\"a\", \"a\"]", "expected at least one group, without duplicates"),
            ("[\"a\", \"B c\"]", "server.planner_groups[1]: expected 1 to 63 lower-case letters"),
        ] {
            let text = mistakes(&format!("[server]\nplanner_groups = {list}"), &[]);
            assert!(text.contains(part) && text.ends_with("1 error in fairgate.toml"), "{text}");
        }
    }
}
