//! `[store]`: the Redis that stores jobs.

use std::path::PathBuf;
use std::time::Duration;

use super::Sources;
use super::access::Access;
use super::convert::{Label, show_duration};
use super::reader::SettingsReader;
use super::secret::Secret;
use super::sections::INSTANT;
use super::url::StoreUrl;

/// Upper bound of `wait_replicas`, more than any primary has.
const MOST_REPLICAS: usize = 100;

/// `[store]`: the Redis that stores jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// Redis to use. Without it, fairgate runs a private redis-server in `data_dir`.
    pub url: Option<StoreUrl>,
    /// User, from its own key or from the URL.
    pub username: Option<String>,
    /// Password, from a variable, a file or the URL.
    pub password: Option<Secret>,
    /// PEM file of certificates to trust instead of the public ones.
    pub ca_file: Option<PathBuf>,
    /// Prefix of all keys.
    pub namespace: String,
    /// Directory of the private redis-server.
    pub data_dir: PathBuf,
    /// Timeout of a call to Redis.
    pub call_timeout: Duration,
    /// Number of replicas that must confirm a write before clients receive an answer; 0 for none.
    pub wait_replicas: usize,
    /// Timeout of these confirmations; less than `call_timeout`.
    pub wait_replicas_timeout: Duration,
}

impl Store {
    /// Returns the URL without its password.
    pub fn redacted_url(&self) -> Option<String> {
        self.url.as_ref().map(ToString::to_string)
    }

    /// Describes the Redis for messages, without a password.
    pub fn description(&self) -> String {
        self.redacted_url().unwrap_or_else(|| format!("the private Redis in {}", self.data_dir.display()))
    }

    pub(super) fn read(reader: &mut SettingsReader<'_>, sources: &Sources) -> Self {
        let Access { url, username, password, ca_file } = Access::read(reader, sources, "store", "FAIRGATE_STORE__URL");
        let namespace = reader.get::<Label>("namespace").0;
        let data_dir = reader.get("data_dir");
        let call_timeout = reader.get_in("call_timeout", Duration::from_millis(100)..);
        let wait_replicas = reader.get_in("wait_replicas", 0..=MOST_REPLICAS);
        let wait_replicas_timeout = reader.get_in("wait_replicas_timeout", INSTANT..);
        let keys = ["wait_replicas_timeout", "call_timeout"];
        if reader.is_sound(&keys) && wait_replicas > 0 && wait_replicas_timeout >= call_timeout {
            let message = format!(
                "store.wait_replicas_timeout ({}) is not below store.call_timeout ({})",
                show_duration(wait_replicas_timeout),
                show_duration(call_timeout)
            );
            reader.conflict(&keys, message, Some("raise call_timeout or lower wait_replicas_timeout"));
        }
        Self {
            url,
            username,
            password,
            ca_file,
            namespace,
            data_dir,
            call_timeout,
            wait_replicas,
            wait_replicas_timeout,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{load, mistakes};
    use super::*;
    use std::fs;

    fn password(text: &str, env: &[(&str, &str)]) -> Option<String> {
        load(text, env).config.store.password.map(|password| password.expose().to_owned())
    }

    #[test]
    fn the_password_comes_from_a_variable_a_file_or_a_url_of_the_environment() {
        assert_eq!(password("[store]\npassword_env = \"PW\"", &[("PW", "hunter2")]).as_deref(), Some("hunter2"));
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("secret");
        fs::write(&path, "hunter2\n").expect("a file");
        assert_eq!(password(&format!("[store]\npassword_file = {path:?}"), &[]).as_deref(), Some("hunter2"));
        let url = "redis://app:hunter2@h/0";
        let store = load("", &[("FAIRGATE_STORE__URL", url)]).config.store;
        assert_eq!(store.password.as_ref().map(Secret::expose), Some("hunter2"));
        assert_eq!(store.username.as_deref(), Some("app"));
        assert_eq!(store.redacted_url().as_deref(), Some("redis://app:***@h/0"));
        assert_eq!(store.url.as_ref().map(StoreUrl::expose), Some(url));
    }

    #[test]
    fn a_password_in_a_file_is_refused_and_not_repeated() {
        for url in ["redis://:hunter2@h", "nonsense://:hunter2@h", "redis://:hun/ter2@h:x"] {
            let text = mistakes(&format!("[store]\nurl = \"{url}\""), &[]);
            assert!(text.contains("or the environment variable FAIRGATE_STORE__URL"), "{text}");
            assert!(!text.contains("ter2"), "{text}");
        }
        let text = mistakes("[store]\npassword = \"hunter2\"", &[("FAIRGATE_STORE__TOKEN", "hunter2")]);
        assert!(text.contains("did you mean \"password_env\"?") && !text.contains("hunter2"), "{text}");
    }

    #[test]
    fn a_password_that_is_not_there_is_a_problem() {
        let text = mistakes("[store]\npassword_env = \"PW\"", &[("PW", "")]);
        assert!(
            text.contains("store.password_env: expected the name of an environment variable that is set"),
            "{text}"
        );
        let text = mistakes("[store]\npassword_file = \"/nowhere/secret\"", &[]);
        assert!(text.contains("cannot read /nowhere/secret: "), "{text}");
    }

    #[test]
    fn one_password_is_enough() {
        let text = mistakes("[store]\npassword_env = \"PW\"\npassword_file = \"x\"", &[("PW", "x")]);
        assert!(text.contains("store.password_env and store.password_file are both set"), "{text}");
        let env = [("PW", "x"), ("FAIRGATE_STORE__URL", "redis://:y@h")];
        let text = mistakes("[store]\npassword_env = \"PW\"", &env);
        assert!(text.contains("store.url already holds a password") && text.contains("fairgate.toml:2"), "{text}");
    }

    #[test]
    fn replicas_have_less_time_than_a_call() {
        let text = mistakes("[store]\ncall_timeout = \"500ms\"\nwait_replicas = 1", &[]);
        assert!(text.contains("store.wait_replicas_timeout (1s) is not below store.call_timeout (500ms)"), "{text}");
        assert_eq!(load("[store]\ncall_timeout = \"500ms\"", &[]).config.store.wait_replicas, 0, "which asks for none");
        let store = load("[store]\nwait_replicas = 2\nwait_replicas_timeout = \"200ms\"", &[]).config.store;
        assert_eq!((store.wait_replicas, store.wait_replicas_timeout), (2, Duration::from_millis(200)));
    }
}
