//! `fairgate keys`.

use super::{Settings, site};
use crate::auth::{self, ApiKey, Digest, KeyCache, NAME_EXPECTED, Revocation, Role, WEAK};
use crate::config::Config;
use crate::job::{tenant, time};
use crate::store::KeyKept;
use anyhow::Context;
use clap::{Args, Subcommand};
use std::io::Read;
use std::process::ExitCode;

/// Make, list and revoke API keys.
///
/// Keys are kept in Redis, so that all servers on it know them at once: this command needs the Redis, not a server. What it prints
/// on standard output is the key, the list or the hash, and nothing else.
#[derive(Args)]
pub(super) struct Keys {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a key and print it, for the only time
    Create(Create),
    /// List the keys of the configuration and of Redis, without the keys themselves
    List(List),
    /// Revoke a key by its id: it opens nothing from now on
    Revoke(Revoke),
    /// Read a key from standard input and print its hash, for the configuration
    Hash,
}

#[derive(Args)]
struct Create {
    #[command(flatten)]
    settings: Settings,
    /// Whose it is; two keys may share a name, while one takes the place of the other
    #[arg(value_parser = read_name)]
    name: String,
    /// What it is for: producer, worker, operator or admin
    #[arg(long, value_parser = read_role)]
    role: Role,
    /// The only tenant that its holder sees and acts for
    #[arg(long, value_name = "ID", value_parser = read_tenant)]
    tenant: Option<String>,
    /// Touch no Redis: print the key, and on standard error the lines for the configuration
    #[arg(long)]
    offline: bool,
}

#[derive(Args)]
struct List {
    #[command(flatten)]
    settings: Settings,
}

#[derive(Args)]
struct Revoke {
    #[command(flatten)]
    settings: Settings,
    /// The id, as `fairgate keys list` tells it
    id: String,
}

impl Keys {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Create(command) if command.offline => command.run_offline(),
            Command::Create(command) => {
                with_keys(&command.settings.clone(), async |keys, store| command.run(keys, store).await)
            }
            Command::List(command) => with_keys(&command.settings, async |keys, _| list(keys).await),
            Command::Revoke(command) => {
                with_keys(&command.settings, async |keys, store| revoke(keys, &command.id, store).await)
            }
            Command::Hash => hash(),
        }
    }
}

fn with_keys(
    settings: &Settings,
    act: impl AsyncFnOnce(KeyCache, &str) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let config: Config = match settings.load() {
        Ok(loaded) => loaded.config,
        Err(code) => return Ok(code),
    };
    let (address, _private) = site::address(&config)?;
    super::runtime()?.block_on(async {
        let site = site::open(&config, address).await?;
        let keys = KeyCache::new(site.store.clone(), config.api_keys.clone());
        let outcome = act(keys, &config.store.description()).await;
        site.close();
        outcome
    })
}

impl Create {
    fn make(self) -> anyhow::Result<(String, ApiKey)> {
        ApiKey::generate(&self.name, self.role, self.tenant).context("the system gives no random bytes")
    }

    fn run_offline(self) -> anyhow::Result<ExitCode> {
        let (secret, key) = self.make()?;
        eprintln!("[[api_key]]\nname = \"{}\"\nrole = \"{}\"", key.name, key.role.name());
        // A string of JSON is one of TOML.
        key.tenant.iter().for_each(|tenant| eprintln!("tenant = {}", crate::job::json::quoted(tenant)));
        eprintln!("hash = \"{}\"", key.digest.text());
        println!("{secret}");
        Ok(ExitCode::SUCCESS)
    }

    async fn run(self, keys: KeyCache, store: &str) -> anyhow::Result<ExitCode> {
        let (secret, key) = self.make()?;
        match keys.create(&key, "command line").await? {
            KeyKept::Kept => {}
            KeyKept::Full { most } => anyhow::bail!("there are {most} keys already; revoke one that nobody uses"),
            KeyKept::Differs => anyhow::bail!("another key named {:?} has another role or tenant", key.name),
            KeyKept::Many => anyhow::bail!(
                "two keys named {:?} are valid already; revoke the older one when nobody uses it any more",
                key.name
            ),
            KeyKept::NoAdmin => {
                anyhow::bail!("nobody could manage keys then; make one first: fairgate keys create NAME --role admin")
            }
        }
        eprintln!(
            "created {} in {store}; the key is shown only now, and every request needs one from now on:",
            key.id()
        );
        println!("{secret}");
        Ok(ExitCode::SUCCESS)
    }
}

async fn list(keys: KeyCache) -> anyhow::Result<ExitCode> {
    keys.reload().await?;
    println!("{:18}{:24}{:10}{:24}{:8}CREATED", "ID", "NAME", "ROLE", "TENANT", "SOURCE");
    for held in keys.keys() {
        let ApiKey { name, role, tenant, .. } = &held.key;
        let (source, created) = match held.created {
            Some(created) => ("redis", time::rfc3339(created)),
            None => ("config", "-".to_owned()),
        };
        let tenant = tenant.as_deref().unwrap_or("-");
        println!("{:18}{name:24}{:10}{tenant:24}{source:8}{created}", held.key.id(), role.name());
    }
    Ok(ExitCode::SUCCESS)
}

async fn revoke(keys: KeyCache, id: &str, store: &str) -> anyhow::Result<ExitCode> {
    match keys.revoke(id, "command line").await? {
        Revocation::Done => {
            eprintln!("revoked {id} in {store}");
            Ok(ExitCode::SUCCESS)
        }
        Revocation::NotFound => anyhow::bail!("there is no key {id:?} in {store}; `fairgate keys list` shows the ids"),
        Revocation::InConfig => {
            anyhow::bail!("{id} is in the configuration: remove it there and start the servers again")
        }
        Revocation::LastAdmin => {
            anyhow::bail!("{id} is the last key of an admin: nobody could manage keys; make another first")
        }
    }
}

fn hash() -> anyhow::Result<ExitCode> {
    let mut text = String::new();
    std::io::stdin().take(4096).read_to_string(&mut text).context("cannot read the key from standard input")?;
    let key = text.trim_end_matches(['\n', '\r']);
    anyhow::ensure!(auth::is_strong(key), "expected {WEAK}; `fairgate keys create --offline` makes one");
    println!("{}", Digest::of(key).text());
    Ok(ExitCode::SUCCESS)
}

fn read_name(text: &str) -> Result<String, String> {
    if auth::is_name(text) { Ok(text.to_owned()) } else { Err(format!("expected {NAME_EXPECTED}")) }
}

fn read_role(text: &str) -> Result<Role, String> {
    Role::parse(text).ok_or_else(|| format!("expected {}", Role::EXPECTED))
}

fn read_tenant(text: &str) -> Result<String, String> {
    if tenant::is_id(text) { Ok(text.to_owned()) } else { Err(format!("expected {}", tenant::EXPECTED)) }
}
