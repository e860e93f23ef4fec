//! `fairgate debug`.

use super::{Settings, site};
use crate::store::Stored;
use clap::{Args, Subcommand};
use std::process::ExitCode;

/// Print the stored state of one thing, decoded.
///
/// Reads the keys in Redis that belong to a job, queue, tenant, limit or plan rule and prints them
/// as one JSON object: each key with its type, its content, its size and its remaining time to
/// live. At most 100 members of a key are shown. Changes nothing. docs/storage.md describes the
/// keys.
///
/// Exit status: 0 if something is stored, 1 if nothing is, 64 if the configuration is invalid.
#[derive(Args)]
pub(super) struct Debug {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// A job by its id, such as 019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f
    Job(Named),
    /// A queue by its name; with isolation `namespace`, TENANT/QUEUE
    Queue(Named),
    /// A tenant by its id, or _default
    Tenant(Named),
    /// A rate limit by its key; #QUEUE and ~TYPE are the limits of a queue and a type
    Limit(Named),
    /// A plan rule by its name, with its fair queues
    Rule(Named),
}

#[derive(Args)]
struct Named {
    /// Id, name or key
    name: String,
    #[command(flatten)]
    settings: Settings,
}

impl Debug {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let (what, noun, named) = match self.what {
            What::Job(named) => (Stored::Job, "job", named),
            What::Queue(named) => (Stored::Queue, "queue", named),
            What::Tenant(named) => (Stored::Tenant, "tenant", named),
            What::Limit(named) => (Stored::Limit, "limit", named),
            What::Rule(named) => (Stored::Rule, "rule", named),
        };
        let config = match named.settings.load() {
            Ok(loaded) => loaded.config,
            Err(code) => return Ok(code),
        };
        let (address, _private) = site::address(&config)?;
        let stored = super::runtime()?.block_on(async {
            let site = site::open(&config, address).await?;
            let stored = site.store.stored(what, &named.name).await;
            site.close();
            anyhow::Ok(stored?)
        })?;
        if stored.is_empty() {
            anyhow::bail!("nothing is stored of {noun} {:?} in namespace {:?}", named.name, config.store.namespace);
        }
        println!("{}", serde_json::to_string_pretty(&stored)?);
        Ok(ExitCode::SUCCESS)
    }
}
