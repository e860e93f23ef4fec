//! The running server that a command talks to.

use crate::config::Secret;
use crate::remote::{Options, Remote};
use anyhow::Context;
use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::path::PathBuf;
use std::time::Duration;

/// Timeout of a request. The server may wait for a main queue that does not answer.
const TIMEOUT: Duration = Duration::from_secs(30);
const KEY_VARIABLE: &str = "FAIRGATE_API_KEY";

/// Options of commands that talk to a running server.
#[derive(Args, Clone)]
pub(super) struct Server {
    /// URL of the server, the part before /ojs
    #[arg(long, value_name = "URL", env = "FAIRGATE_URL", default_value = "http://127.0.0.1:8080")]
    server: String,
    #[command(flatten)]
    key: KeyFile,
}

impl Server {
    /// Returns a client of the server.
    pub(super) fn client(&self) -> anyhow::Result<Remote> {
        client(&self.server, self.key.read()?)
    }
}

/// The origin of the API key. Keys are not taken from the command line, where other users of the
/// machine could read them.
#[derive(Args, Clone)]
pub(super) struct KeyFile {
    /// File that contains the API key [default: the environment variable FAIRGATE_API_KEY]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

impl KeyFile {
    /// Returns the key, if there is one.
    pub(super) fn read(&self) -> anyhow::Result<Option<Secret>> {
        let key = match &self.key_file {
            Some(file) => Some(
                std::fs::read_to_string(file)
                    .with_context(|| format!("cannot read the API key from {}", file.display()))?,
            ),
            None => std::env::var(KEY_VARIABLE).ok(),
        };
        Ok(key.map(|key| key.trim().to_owned()).filter(|key| !key.is_empty()).map(Secret::new))
    }
}

/// Returns a client of the server at a URL.
pub(super) fn client(url: &str, token: Option<Secret>) -> anyhow::Result<Remote> {
    anyhow::ensure!(
        ["http://", "https://"].iter().any(|scheme| url.starts_with(scheme)),
        "the URL of the server must begin with http:// or https://, and {url:?} does not"
    );
    let options = Options { url: url.trim_end_matches('/').to_owned(), token, certificates: None, timeout: TIMEOUT };
    Remote::new(&options).map_err(|error| anyhow::anyhow!("cannot use the server {url:?}: {error}"))
}

/// Returns a name as a segment of a path: a slash in it does not lead to another path.
pub(super) fn segment(name: &str) -> String {
    utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()
}
