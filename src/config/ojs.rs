//! `[[main_queue]]` of kind `ojs`: another OJS server, reached over HTTP.

use super::Sources;
use super::access::named_secret;
use super::convert::{FromValue, Refused};
use super::plan::WebhookUrl;
use super::reader::SettingsReader;
use super::secret::Secret;
use super::tree::Value;
use std::path::PathBuf;
use std::time::Duration;

/// Default timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Settings of another OJS server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ojs {
    /// Base URL, without `/ojs` and without a trailing slash.
    pub url: String,
    /// Bearer token for the `Authorization` header.
    pub token: Option<Secret>,
    /// PEM file of certificates to trust instead of the public ones.
    pub ca_file: Option<PathBuf>,
    /// Timeout of one request.
    pub timeout: Duration,
}

impl Ojs {
    /// Creates the settings of a server without a token.
    pub fn at(url: &str) -> Ojs {
        Ojs { url: url.to_owned(), token: None, ca_file: None, timeout: TIMEOUT }
    }

    pub(super) fn read(reader: &mut SettingsReader<'_>, sources: &Sources) -> Self {
        let BaseUrl(url) = reader.get("url");
        let token = named_secret(reader, sources, ["token_env", "token_file"], "main_queue", "a token");
        if token.as_ref().is_some_and(|token| !is_header(token.expose())) {
            let message = "expected a token of visible ASCII characters, found others";
            reader.conflict(&["token_env", "token_file"], message, None);
        }
        let ca_file: Option<PathBuf> = reader.find("ca_file");
        if ca_file.is_some() && reader.is_sound(&["url"]) && !url.starts_with("https://") {
            let help = "write https:// in url, or remove ca_file";
            reader.conflict(&["ca_file"], "ca_file requires TLS", Some(help));
        }
        let timeouts = Duration::from_millis(10)..=Duration::from_secs(60);
        let timeout = reader.find_in("timeout", timeouts).unwrap_or(TIMEOUT);
        Self { url, token, ca_file, timeout }
    }
}

fn is_header(token: &str) -> bool {
    token.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Base URL of a server. Also accepts the base URL of an SDK, which ends with `/ojs/v1`.
#[derive(Default)]
struct BaseUrl(String);

impl FromValue for BaseUrl {
    fn from_value(value: &Value) -> Result<Self, Refused> {
        let refused = || Refused::new("a URL such as https://jobs.example.com");
        let WebhookUrl(url) = WebhookUrl::from_value(value).map_err(|wrong| match wrong.help {
            Some(help) if help.contains("secret_env") => refused().help("use token_env or token_file instead"),
            Some(help) => refused().help(help),
            None => refused(),
        })?;
        if url.contains(['?', '#']) {
            return Err(refused().help("it takes no ? and no #"));
        }
        let url = url.trim_end_matches('/');
        let url = url.strip_suffix("/v1").filter(|url| url.ends_with("/ojs")).unwrap_or(url);
        Ok(Self(url.strip_suffix("/ojs").unwrap_or(url).trim_end_matches('/').to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{load, mistakes};
    use super::super::{MainQueueKind, describe};
    use super::*;

    const REMOTE: &str = "[[main_queue]]\nname = \"jobs\"\nkind = \"ojs\"\n";

    fn ojs(text: &str, env: &[(&str, &str)]) -> Ojs {
        match load(text, env).config.main_queues.remove(0).kind {
            MainQueueKind::Ojs(ojs) => ojs,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_option_can_be_set() {
        let text = format!(
            "{REMOTE}url = \"https://h:1/queue/\"\ntoken_env = \"T\"\nca_file = \"/ca.pem\"\ntimeout = \"2s\"\n"
        );
        let read = ojs(&text, &[("T", "hunter2")]);
        assert_eq!((read.url.as_str(), read.timeout), ("https://h:1/queue", Duration::from_secs(2)));
        assert_eq!(read.token.as_ref().map(Secret::expose), Some("hunter2"));
        let loaded = load(&text, &[("T", "hunter2")]);
        let shown = describe(&loaded);
        assert!(
            shown.contains("\nmain queue \"jobs\" is the OJS server at https://h:1/queue, with a token\n"),
            "{shown}"
        );
        assert!(!format!("{loaded:?}{shown}").contains("hunter2"));
        for url in ["http://h/ojs/v1", "http://h/ojs/v1/", "http://h/ojs", "http://h/", "http://h"] {
            assert_eq!(ojs(&format!("{REMOTE}url = \"{url}\""), &[]), Ojs::at("http://h"));
        }
    }

    #[test]
    fn each_option_is_checked() {
        for (setting, part) in [
            ("", "main_queue[0].url: expected a value, found none"),
            ("url = \"h:1\"", "url: expected a URL such as https://jobs.example.com"),
            ("url = \"http://u:hunter2@h\"", "use token_env or token_file instead"),
            ("url = \"http://h?key=hunter2\"", "it takes no ? and no #"),
            ("url = \"redis://h\"", "it must start with http:// or https://"),
            ("url = \"http://h\"\ntoken = \"hunter2\"", "unknown key \"token\""),
            ("url = \"http://h\"\ntoken_env = \"NO\"", "token_env: expected the name of an environment variable"),
            ("url = \"http://h\"\ntoken_env = \"ODD\"", "expected a token of visible ASCII characters"),
            ("url = \"http://h\"\ntoken_env = \"T\"\ntoken_file = \"f\"", "are both set"),
            (
                "url = \"http://h\"\ntoken_file = \"/nowhere/t\"",
                "token_file: expected a readable file that holds a token",
            ),
            ("url = \"http://h\"\nca_file = \"f\"", "ca_file requires TLS"),
            ("url = \"http://h\"\ntimeout = \"61s\"", "timeout: expected a duration of at least 10ms and at most 1m"),
            ("url = \"http://h\"\nstaging_queue = \"a\"", "unknown key \"staging_queue\""),
        ] {
            let said = mistakes(&format!("{REMOTE}{setting}"), &[("T", "hunter2"), ("ODD", "hunter2\n")]);
            assert!(said.contains(part) && said.ends_with("1 error in fairgate.toml"), "{setting}\n{said}");
            assert!(!said.contains("hunter2"), "{said}");
        }
    }
}
