//! Example configuration that watches a Sidekiq queue in shadow mode.

use super::classes::ClassCount;
use crate::config::StoreUrl;
use crate::domain::job::sidekiq;
use crate::domain::{json, names};

/// Maximum number of classes in the configuration.
const MOST_CLASSES: usize = 20;

/// Properties of a queue and its Sidekiq.
pub(super) struct Configuration<'a> {
    pub(super) url: &'a StoreUrl,
    /// Environment variable that holds the password.
    pub(super) password_env: Option<&'a str>,
    pub(super) namespace: Option<&'a str>,
    pub(super) queue: &'a str,
    pub(super) classes: &'a [ClassCount],
    pub(super) tenant_key: &'a str,
}

impl Configuration<'_> {
    /// Formats the text of a `fairgate.toml`.
    pub(super) fn to_toml(&self) -> String {
        // JSON strings are valid TOML, except for characters that names cannot contain.
        let line = |key: &str, value: &str| format!("{key} = {}\n", json::quoted(value));
        let mut text = "[[main_queue]]\nname = \"sidekiq\"\nkind = \"sidekiq\"\n".to_owned();
        text.push_str(&line("url", &self.url.without_user()));
        let has_password = self.url.password.is_some() || self.password_env.is_some();
        text.extend(self.url.username.as_deref().map(|name| line("username", name)));
        if has_password {
            text.push_str(&line("password_env", self.password_env.unwrap_or("SIDEKIQ_REDIS_PASSWORD")));
        }
        text.extend(self.namespace.map(|namespace| line("namespace", namespace)));
        let named = self.classes.iter().map(|(class, _)| class).filter(|class| sidekiq::is_class(class));
        let named: Vec<String> = named.take(MOST_CLASSES).map(|class| json::quoted(class)).collect();
        text.push_str(&format!("\n[[plan]]\n{}", line("name", &label(self.queue))));
        match named.is_empty() {
            true => text.push_str(
                "types = [\"HeavyJob\"]  # no job was found: list your classes, or a glob such as \"Billing::*\"\n",
            ),
            false => text.push_str(&format!("types = [{}]\n", named.join(", "))),
        }
        text.push_str("main_queue = \"sidekiq\"\n");
        text.push_str(&line("queue", self.queue));
        text.push_str(&line("tenant_key", self.tenant_key));
        text.push_str("shadow = true  # only watches the queue; docs/sidekiq.md has the next steps\n");
        text
    }
}

/// Derives the name of a rule from a queue.
fn label(queue: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    let label: String = queue.chars().map(plain).collect();
    let label: String = label.trim_start_matches('-').chars().take(63).collect();
    if names::is_label(&label) { label } else { "heavy".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_left_out_and_names_are_made_valid() {
        let url = StoreUrl::parse("rediss://app:hunter2@h:1/3").expect("a url");
        let classes = [("A::B".to_owned(), 2), ("not a class".to_owned(), 1)];
        let made = |queue, classes| {
            let (password_env, namespace) = (None, Some("shop"));
            Configuration { url: &url, password_env, namespace, queue, classes, tenant_key: "args.0" }.to_toml()
        };
        let text = made("_Heavy_Jobs", &classes[..]);
        for line in [
            "url = \"rediss://h:1/3\"",
            "username = \"app\"",
            "password_env = \"SIDEKIQ_REDIS_PASSWORD\"",
            "namespace = \"shop\"",
            "name = \"heavy-jobs\"",
            "types = [\"A::B\"]",
            "queue = \"_Heavy_Jobs\"",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line} is missing in\n{text}");
        }
        assert!(!text.contains("hunter2"), "{text}");
        assert!(made("__", &[]).contains("name = \"heavy\"\ntypes = [\"HeavyJob\"]  # no job was found"));
        for (url, bare) in [
            ("unix:///r.sock?db=2&user=app&pass=hunter2", "unix:///r.sock?db=2"),
            ("redis+sentinel://:hunter2@a:1,b:2/m/0", "redis+sentinel://a:1,b:2/m/0"),
            ("redis://h", "redis://h"),
        ] {
            assert_eq!(StoreUrl::parse(url).expect(url).without_user(), bare);
        }
    }
}
