//! `fairgate sidekiq inspect`.

use super::classes::{ClassCount, classes, unmatched};
use super::configuration::Configuration;
use super::shares::{Share, shares};
use crate::clock::Clock;
use crate::config::{self, StoreUrl};
use crate::domain::plan::TenantKey;
use crate::domain::words::counted;
use crate::store::{Address, GemClass, Sidekiq, SidekiqProcess, SidekiqQueue, SidekiqTotals};
use crate::telemetry::StoreMetrics;
use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value, json};
use std::fmt::{self, Display, Formatter};
use std::process::ExitCode;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Timeout of one call.
const DEADLINE: Duration = Duration::from_secs(10);
/// Maximum number of tenants in the output.
const MOST_TENANTS: usize = 20;
/// Number of queues whose jobs are sampled, jobs per sample, and maximum number of classes in the
/// output.
const MOST_QUEUES: usize = 100;
const SAMPLE: usize = 100;
const MOST_CLASSES: usize = 10;

/// Report on an existing Sidekiq, without changing anything.
///
/// Shows its queues with depth, latency and job classes, its processes, and classes whose jobs were
/// staged by the gem sidekiq-fairplay. With --queue, also shows the tenants of waiting jobs, and
/// their positions in the queue now and with fair turns. Prints an example configuration that
/// watches this queue, or the longest one, in shadow mode.
///
/// Exit status: 0 on success, 1 if Redis is not reachable or the queue does not exist.
#[derive(Args)]
pub(in crate::cli) struct Inspect {
    /// URL of Sidekiq's Redis, such as redis://10.0.0.5:6379/0. Schemes: redis, rediss (TLS), unix,
    /// redis+sentinel
    #[arg(value_name = "URL", env = "FAIRGATE_SIDEKIQ_URL", hide_env_values = true)]
    url: String,
    /// Environment variable that holds the password of that Redis
    #[arg(long, value_name = "NAME")]
    password_env: Option<String>,
    /// Prefix of its keys by redis-namespace, without the colon
    #[arg(long, value_name = "NS")]
    namespace: Option<String>,
    /// Queue whose jobs to inspect
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// Path of a job's tenant in its arguments, such as args.0.account_id
    #[arg(long, value_name = "KEY", default_value = "args.0")]
    tenant_key: String,
    /// Number of jobs to inspect, from the head of the queue
    #[arg(long, value_name = "JOBS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    jobs: u32,
    /// Print a JSON object instead of text
    #[arg(long)]
    json: bool,
}

struct InspectReport {
    url: String,
    /// Name and version of its server.
    server: String,
    /// The version of Redis that the server is or is compatible with.
    version: String,
    totals: SidekiqTotals,
    now: i64,
    processes: Vec<SidekiqProcess>,
    queues: Vec<(String, SidekiqQueue)>,
    /// Classes of the next jobs of each queue, in the same order as `queues`.
    classes: Vec<Vec<ClassCount>>,
    gem: Vec<GemClass>,
    looked_at: Option<LookedAt>,
    /// Example configuration for the inspected queue, or for the longest one.
    configuration: Option<String>,
}

/// The next jobs of the inspected queue.
struct LookedAt {
    queue: String,
    jobs: usize,
    shares: Vec<Share>,
    tenant_key: String,
    /// Class and shape of the arguments of a job, if the tenant key finds a tenant in none of them.
    unmatched: Option<(String, String)>,
}

impl Inspect {
    pub(in crate::cli) fn run(self) -> anyhow::Result<ExitCode> {
        let report = super::super::runtime()?.block_on(self.report())?;
        match self.json {
            true => println!("{}", report.json()),
            false => print!("{report}"),
        }
        Ok(ExitCode::SUCCESS)
    }

    fn address(&self) -> anyhow::Result<(Address, StoreUrl)> {
        let refused = |refused: config::Refused| {
            let help = refused.help.map(|help| format!("; {help}")).unwrap_or_default();
            anyhow::anyhow!("expected {}{help}", refused.expected)
        };
        let url = StoreUrl::parse(&self.url).map_err(refused)?;
        if matches!(url.topology, config::Topology::Cluster { .. }) {
            bail!("Sidekiq does not support Redis Cluster; pass the URL of the Redis that your workers use");
        }
        let mut password = url.password.as_ref().map(|password| password.expose().to_owned());
        if let Some(name) = &self.password_env {
            password = Some(std::env::var(name).with_context(|| format!("environment variable {name} is not set"))?);
        }
        let (topology, username) = (url.topology.clone(), url.username.clone());
        let address = Address { topology, tls: url.tls, username, password, root_certificates: None };
        Ok((address, url))
    }

    async fn report(&self) -> anyhow::Result<InspectReport> {
        let (address, url) = self.address()?;
        let key = TenantKey::parse(&self.tenant_key);
        let key = key.with_context(|| format!("--tenant-key: expected {}", TenantKey::EXPECTED))?;
        let prefix = self.namespace.as_ref().map(|namespace| format!("{namespace}:")).unwrap_or_default();
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let sidekiq = Sidekiq::open(&address, &prefix, DEADLINE, StoreMetrics::default(), &tasks, stop.clone())?;
        let connected = sidekiq.connected_within(DEADLINE).await;
        connected.with_context(|| format!("cannot reach {url}"))?;
        let names = sidekiq.queue_names().await?;
        let borrowed: Vec<&str> = names.iter().map(String::as_str).collect();
        let seen = sidekiq.queues(&borrowed).await?;
        let processes = sidekiq.processes().await?;
        let is_served = |queue: &String| processes.iter().any(|process| process.queues.contains(queue));
        if let Some(queue) = self.queue.as_ref().filter(|queue| !names.contains(queue) && !is_served(queue)) {
            bail!("there is no queue {queue:?}; queues: {}", names.join(", "));
        }
        let looked_at = match &self.queue {
            None => None,
            Some(queue) => {
                let payloads = sidekiq.next_payloads(queue, 0, self.jobs as usize).await?;
                let (jobs, shares, unmatched) = (payloads.len(), shares(&payloads, &key), unmatched(&payloads, &key));
                let tenant_key = self.tenant_key.clone();
                Some(LookedAt { queue: queue.clone(), jobs, shares, tenant_key, unmatched })
            }
        };
        let mut of_queues = Vec::new();
        for name in names.iter().take(MOST_QUEUES) {
            of_queues.push(classes(&sidekiq.next_payloads(name, 0, SAMPLE).await?));
        }
        of_queues.resize(names.len(), Vec::new());
        let queues: Vec<(String, SidekiqQueue)> = names.into_iter().zip(seen).collect();
        let (server, version) = sidekiq.server().await?;
        let report = InspectReport {
            configuration: self.configuration(&url, &queues, &of_queues),
            url: url.to_string(),
            server,
            version,
            totals: sidekiq.totals().await?,
            now: Clock::System.now_ms(),
            processes,
            queues,
            classes: of_queues,
            gem: sidekiq.gem_classes().await?,
            looked_at,
        };
        stop.cancel();
        Ok(report)
    }

    /// Builds an example configuration for the requested queue, or for the longest one. Returns
    /// `None` if there is no queue.
    fn configuration(
        &self,
        url: &StoreUrl,
        queues: &[(String, SidekiqQueue)],
        of_queues: &[Vec<ClassCount>],
    ) -> Option<String> {
        let longest = || queues.iter().max_by_key(|(_, queue)| queue.depth).map(|(name, _)| name);
        let queue = self.queue.as_ref().or_else(longest)?;
        let place = queues.iter().position(|(name, _)| name == queue);
        let configuration = Configuration {
            url,
            password_env: self.password_env.as_deref(),
            namespace: self.namespace.as_deref(),
            queue,
            classes: place.map_or(&[], |place| of_queues[place].as_slice()),
            tenant_key: &self.tenant_key,
        };
        Some(configuration.to_toml())
    }
}

impl InspectReport {
    fn latency_ms(&self, queue: &SidekiqQueue) -> i64 {
        queue.oldest.map_or(0, |since| (self.now - since).max(0))
    }

    fn serving(&self, queue: &str) -> usize {
        self.processes.iter().filter(|process| process.queues.iter().any(|own| own == queue)).count()
    }

    fn json(&self) -> Value {
        let queue = |((name, queue), classes): (&(String, SidekiqQueue), &Vec<ClassCount>)| {
            let classes: Vec<Value> =
                classes.iter().map(|(class, jobs)| json!({"class": class, "jobs": jobs})).collect();
            json!({"name": name, "depth": queue.depth, "latency_ms": self.latency_ms(queue), "paused": queue.paused,
                "processes": self.serving(name), "classes": classes})
        };
        let process = |process: &SidekiqProcess| {
            json!({"identity": process.identity, "queues": process.queues, "concurrency": process.concurrency,
                "busy": process.busy, "quiet": process.quiet})
        };
        let share = |share: &Share| {
            json!({"tenant_id": share.tenant, "jobs": share.jobs, "first_place": share.first.0,
                "first_place_in_turns": share.first.1, "mean_place": share.mean.0, "mean_place_in_turns": share.mean.1})
        };
        let gem = |class: &GemClass| json!({"key": class.key, "tenants": class.tenants, "jobs": class.jobs});
        let totals = &self.totals;
        json!({
            "url": self.url,
            "redis_version": self.version,
            "processed": totals.processed, "failed": totals.failed,
            "scheduled": totals.scheduled, "retries": totals.retries, "dead": totals.dead,
            "processes": self.processes.iter().map(process).collect::<Vec<_>>(),
            "queues": self.queues.iter().zip(&self.classes).map(queue).collect::<Vec<_>>(),
            "fairplay": self.gem.iter().map(gem).collect::<Vec<_>>(),
            "looked_at": self.looked_at.as_ref().map(|looked| {
                let unmatched = looked.unmatched.as_ref().map(|(class, args)| json!({"class": class, "args": args}));
                json!({"queue": looked.queue, "jobs": looked.jobs, "tenant_key_matches_nothing": unmatched,
                    "tenants": looked.shares.iter().map(share).collect::<Vec<_>>()})
            }),
            "configuration": self.configuration,
        })
    }
}

impl Display for InspectReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let totals = &self.totals;
        writeln!(f, "Sidekiq at {}, {}", self.url, self.server)?;
        writeln!(
            f,
            "  {} processed, {} failed; {} scheduled, {} to retry, {} dead",
            totals.processed, totals.failed, totals.scheduled, totals.retries, totals.dead
        )?;
        let (threads, busy) = self
            .processes
            .iter()
            .fold((0, 0), |(threads, busy), process| (threads + process.concurrency, busy + process.busy));
        let processes = counted(self.processes.len() as u64, "process");
        writeln!(f, "\n{processes}, {}, {busy} busy", counted(threads, "thread"))?;
        for process in &self.processes {
            let quiet = if process.quiet { ", quiet" } else { "" };
            let queues = process.queues.join(", ");
            writeln!(
                f,
                "  {}: {}, {} busy{quiet}; queues {queues}",
                process.identity,
                counted(process.concurrency, "thread"),
                process.busy
            )?;
        }
        writeln!(f, "\n{}", counted(self.queues.len() as u64, "queue"))?;
        for ((name, queue), classes) in self.queues.iter().zip(&self.classes) {
            let wait = self.latency_ms(queue) as f64 / 1e3;
            let paused = if queue.paused { ", paused" } else { "" };
            let served = match self.serving(name) {
                0 => "not served by any process".to_owned(),
                some => format!("served by {}", counted(some as u64, "process")),
            };
            let jobs = counted(queue.depth, "job");
            writeln!(f, "  {name}: {jobs}, latency {wait:.1} s{paused}; {served}")?;
            if !classes.is_empty() {
                let named: Vec<String> =
                    classes.iter().take(MOST_CLASSES).map(|(class, jobs)| format!("{class} {jobs}")).collect();
                let more = if classes.len() > MOST_CLASSES { ", …" } else { "" };
                writeln!(f, "    classes of the next jobs: {}{more}", named.join(", "))?;
            }
        }
        if !self.gem.is_empty() {
            writeln!(f, "\nstaged by the gem sidekiq-fairplay; set fairplay_classes to let fairgate take over")?;
        }
        for class in &self.gem {
            let (jobs, tenants) = (counted(class.jobs, "job"), counted(class.tenants as u64, "tenant"));
            writeln!(f, "  {}: {jobs} of {tenants}", class.key)?;
        }
        if let Some(LookedAt { queue, jobs, shares, tenant_key, unmatched }) = &self.looked_at {
            let tenants = counted(shares.len() as u64, "tenant");
            writeln!(f, "\nnext in queue {queue}: {} of {tenants}", counted(*jobs as u64, "job"))?;
            writeln!(
                f,
                "  {:<24} {:>6} {:>7}  {:>16}  {:>16}",
                "tenant", "jobs", "share", "first: now→fair", "mean: now→fair"
            )?;
            for share in shares.iter().take(MOST_TENANTS) {
                let percent = share.jobs as f64 * 100.0 / (*jobs).max(1) as f64;
                let first = format!("{}→{}", share.first.0, share.first.1);
                let mean = format!("{:.0}→{:.0}", share.mean.0, share.mean.1);
                writeln!(f, "  {:<24} {:>6} {percent:>6.1}%  {first:>16}  {mean:>16}", share.tenant, share.jobs)?;
            }
            if shares.len() > MOST_TENANTS {
                writeln!(f, "  … and {} more", shares.len() - MOST_TENANTS)?;
            }
            writeln!(
                f,
                "  positions in the queue: now, and if tenants of equal weight take turns, as fairgate promotes"
            )?;
            if let Some((class, args)) = unmatched {
                writeln!(f, "  no job has a tenant at {tenant_key}; the arguments of {class} are {args}")?;
            }
        }
        match &self.configuration {
            Some(configuration) => write!(f, "\nexample fairgate.toml\n\n{configuration}"),
            None => writeln!(f, "\nno example configuration, because there is no queue yet"),
        }
    }
}
