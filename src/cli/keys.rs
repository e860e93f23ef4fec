//! `fairgate keys`.

use super::{Settings, site};
use crate::auth::{self, ApiKey, Digest, KeyCache, NAME_EXPECTED, Revocation, Role, WEAK};
use crate::config::Config;
use crate::domain::{tenant_id, time};
use crate::store::AddKeyOutcome;
use anyhow::Context;
use clap::{Args, Subcommand};
use std::io::Read;
use std::process::ExitCode;

/// Create, list and revoke API keys.
///
/// Keys are stored in Redis and take effect on all of its servers at once. The commands need access
/// to Redis, but no running server. Only the key, the list or the hash is printed on standard
/// output.
#[derive(Args)]
pub(super) struct Keys {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Create a key and print it; it cannot be shown again
    Create(Create),
    /// List the ids, names, roles and tenants of all keys in the configuration and in Redis
    List(List),
    /// Revoke a key; requests with it are refused from now on
    Revoke(Revoke),
    /// Read a key from standard input and print its hash for the configuration
    Hash,
}

#[derive(Args)]
struct Create {
    #[command(flatten)]
    settings: Settings,
    /// Name of the holder, such as web; two keys may share a name during rotation
    #[arg(value_parser = read_name)]
    name: String,
    /// Role: producer (enqueues), worker (fetches and answers), operator (reads and pauses) or
    /// admin
    #[arg(long, value_parser = read_role)]
    role: Role,
    /// Bind the key to this tenant [default: access to all tenants]
    #[arg(long, value_name = "ID", value_parser = read_tenant)]
    tenant: Option<String>,
    /// Do not store the key; print it, and its [[api_key]] section on standard error
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
    /// Id of the key, as shown by `fairgate keys list`
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
        ApiKey::generate(&self.name, self.role, self.tenant)
            .context("cannot get random bytes from the operating system")
    }

    fn run_offline(self) -> anyhow::Result<ExitCode> {
        let (secret, key) = self.make()?;
        eprintln!("[[api_key]]\nname = \"{}\"\nrole = \"{}\"", key.name, key.role.name());
        // JSON strings are valid TOML.
        key.tenant.iter().for_each(|tenant| eprintln!("tenant = {}", crate::domain::json::quoted(tenant)));
        eprintln!("hash = \"{}\"", key.digest.text());
        println!("{secret}");
        Ok(ExitCode::SUCCESS)
    }

    async fn run(self, keys: KeyCache, store: &str) -> anyhow::Result<ExitCode> {
        let (secret, key) = self.make()?;
        match keys.create(&key, "command line").await? {
            AddKeyOutcome::Added => {}
            AddKeyOutcome::Full { most } => {
                anyhow::bail!("there are {most} keys already, the maximum; revoke an unused one")
            }
            AddKeyOutcome::Differs => anyhow::bail!("another key named {:?} has another role or tenant", key.name),
            AddKeyOutcome::Many => anyhow::bail!(
                "there are two keys named {:?} already; revoke the older one when it is no longer used",
                key.name
            ),
            AddKeyOutcome::NoAdmin => {
                anyhow::bail!("the first key must be an admin key; run `fairgate keys create NAME --role admin` first")
            }
        }
        eprintln!("created {} in {store}; the key cannot be shown again, and all requests now need a key:", key.id());
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
        Revocation::InConfig => anyhow::bail!("{id} is in the configuration; remove it there and restart the servers"),
        Revocation::LastAdmin => {
            anyhow::bail!("{id} is the last admin key; create another one first")
        }
    }
}

fn hash() -> anyhow::Result<ExitCode> {
    let mut text = String::new();
    std::io::stdin().take(4096).read_to_string(&mut text).context("cannot read the key from standard input")?;
    let key = text.trim_end_matches(['\n', '\r']);
    anyhow::ensure!(auth::is_strong(key), "expected {WEAK}; `fairgate keys create --offline` creates one");
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
    if tenant_id::is_id(text) { Ok(text.to_owned()) } else { Err(format!("expected {}", tenant_id::EXPECTED)) }
}
