//! Access to a Redis: URL, user, password and certificates. `[store]` and `[[main_queue]]` share
//! these keys.

use std::fs;
use std::path::{Path, PathBuf};

use super::Sources;
use super::convert::Refused;
use super::reader::SettingsReader;
use super::secret::{Secret, holds_password};
use super::tree::Origin;
use super::url::StoreUrl;

/// Address and credentials of a Redis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    pub url: Option<StoreUrl>,
    /// User, from its own key or from the URL.
    pub username: Option<String>,
    /// Password, from a variable, a file or the URL.
    pub password: Option<Secret>,
    /// PEM file of certificates to trust instead of the public ones.
    pub ca_file: Option<PathBuf>,
}

impl Access {
    /// Reads the keys of a section. Help texts name the `section` and the environment `variable` of
    /// its URL.
    pub(super) fn read(reader: &mut SettingsReader<'_>, sources: &Sources, section: &str, variable: &str) -> Self {
        let url = read_url(reader, section, variable);
        let username = read_username(reader, section, url.as_ref());
        let password = read_password(reader, sources, section, url.as_ref());
        Self { url, username, password, ca_file: reader.find("ca_file") }
    }
}

fn read_url(reader: &mut SettingsReader<'_>, section: &str, variable: &str) -> Option<StoreUrl> {
    let url = reader.find("url");
    let from_outside = matches!(reader.origin("url"), Some(Origin::Env { .. }));
    // Checked on the text, so that a URL that does not parse is reported as well.
    if !from_outside && reader.text("url").is_some_and(holds_password) {
        let help =
            format!("use {section}.password_env, {section}.password_file or the environment variable {variable}");
        reader.conflict(
            &["url"],
            "expected a URL without a password, because files and flags are visible to others",
            Some(&help),
        );
    }
    url
}

fn read_username(reader: &mut SettingsReader<'_>, section: &str, url: Option<&StoreUrl>) -> Option<String> {
    let username: Option<String> = reader.find("username");
    let from_url = url.and_then(|url| url.username.clone());
    if username.is_some() && from_url.is_some() {
        let message = format!("{section}.url already names a user");
        reader.conflict(&["username", "url"], message, Some("keep one of the two"));
    }
    username.or(from_url)
}

fn read_password(
    reader: &mut SettingsReader<'_>,
    sources: &Sources,
    section: &str,
    url: Option<&StoreUrl>,
) -> Option<Secret> {
    let keys = ["password_env", "password_file"];
    let named = named_secret(reader, sources, keys, section, "a password");
    let from_url = url.and_then(|url| url.password.clone());
    match (named, from_url) {
        (Some(_), Some(_)) => {
            let message = format!("{section}.url already holds a password");
            reader.conflict(&keys, message, Some("keep one of the two"));
            None
        }
        (named, from_url) => named.or(from_url),
    }
}

/// Reads a secret from an environment variable or a file, whichever of the two `keys` is set.
pub(super) fn named_secret(
    reader: &mut SettingsReader<'_>,
    sources: &Sources,
    keys: [&str; 2],
    section: &str,
    what: &str,
) -> Option<Secret> {
    let [in_env, in_file] = keys;
    let variable: Option<String> = reader.find(in_env);
    let path: Option<PathBuf> = reader.find(in_file);
    match (variable, path) {
        (None, None) => None,
        (Some(_), Some(_)) => {
            let message = format!("{section}.{in_env} and {section}.{in_file} are both set");
            reader.conflict(&[in_file, in_env], message, Some("keep one of the two"));
            None
        }
        (Some(variable), None) => {
            let set = sources.env.iter().find(|(name, text)| *name == variable && !text.is_empty());
            if set.is_none() {
                reader.refuse(in_env, Refused::new("the name of an environment variable that is set and not empty"));
            }
            set.map(|(_, secret)| Secret::new(secret))
        }
        (None, Some(path)) => read_secret(&sources.directory.join(path)).map_or_else(
            |reason| {
                let refused = Refused::new(format!("a readable file that holds {what}")).help(reason);
                reader.refuse(in_file, refused);
                None
            },
            Some,
        ),
    }
}

/// Reads a secret from a file, without the trailing newline that editors add.
fn read_secret(path: &Path) -> Result<Secret, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let password = text.strip_suffix('\n').map_or(&*text, |line| line.strip_suffix('\r').unwrap_or(line));
    if password.is_empty() { Err(format!("{} is empty", path.display())) } else { Ok(Secret::new(password)) }
}
