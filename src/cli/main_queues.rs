//! Health checks of main queues in other systems, for `fairgate doctor`.

use crate::app;
use crate::clock::Clock;
use crate::config::{self, Config, MainQueue, MainQueueKind};
use crate::domain::job::id;
use crate::domain::words::counted;
use crate::remote::{ErrorKind, Manifest, Remote};
use crate::store::{Address, CheckFinding, Severity, Sidekiq, SidekiqProcess};
use crate::telemetry::StoreMetrics;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Timeout of one call to a Sidekiq.
const DEADLINE: Duration = Duration::from_secs(5);
/// Tolerated difference between the clocks, in milliseconds. The server's `Date` header has a
/// resolution of one second.
const TOLERATED_SKEW_MS: i64 = 3_000;
/// OJS conformance level that includes batches and queue statistics.
const WANTED_LEVEL: u64 = 4;

/// Checks all main queues. Returns a heading and the findings for each.
pub(super) async fn look(config: &Config, ours: &Address) -> Vec<(String, Vec<CheckFinding>)> {
    let mut found = Vec::new();
    for MainQueue { name, kind } in &config.main_queues {
        let (heading, findings) = match kind {
            MainQueueKind::Sidekiq(sidekiq) => {
                let address = app::sidekiq_address(name, sidekiq, ours);
                let findings = match address {
                    Ok(address) => look_at_sidekiq(&address, sidekiq).await,
                    Err(error) => vec![bad(error.to_string(), "check its section of the configuration")],
                };
                (format!("main queue {name}, a Sidekiq"), findings)
            }
            MainQueueKind::Ojs(ojs) => {
                let findings = match app::remote(name, ojs) {
                    Ok(remote) => look_at_server(&remote).await,
                    Err(error) => vec![bad(error.to_string(), "check its section of the configuration")],
                };
                (format!("main queue {name}, the OJS server at {}", ojs.url), findings)
            }
        };
        found.push((heading, findings));
    }
    found
}

fn good(what: impl Into<String>) -> CheckFinding {
    CheckFinding { severity: Severity::Good, what: what.into(), advice: None }
}

fn warning(what: impl Into<String>, advice: &str) -> CheckFinding {
    CheckFinding { severity: Severity::Warning, what: what.into(), advice: Some(advice.to_owned()) }
}

fn bad(what: impl Into<String>, advice: &str) -> CheckFinding {
    CheckFinding { severity: Severity::Bad, what: what.into(), advice: Some(advice.to_owned()) }
}

async fn look_at_sidekiq(address: &Address, config: &config::Sidekiq) -> Vec<CheckFinding> {
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    let look = async {
        let sidekiq =
            Sidekiq::open(address, &config.prefix(), DEADLINE, StoreMetrics::default(), &tasks, stop.clone())?;
        sidekiq.connected_within(DEADLINE).await?;
        Ok::<_, crate::store::Error>((sidekiq.queue_names().await?, sidekiq.processes().await?))
    };
    let looked = look.await;
    stop.cancel();
    match looked {
        Err(error) => vec![bad(format!("its Redis cannot be used: {error}"), "check its url and password")],
        Ok((queues, processes)) => {
            let (queues, running) = (counted(queues.len() as u64, "queue"), counted(processes.len() as u64, "process"));
            let reachable = good(format!("reachable: {queues}, {running}"));
            let idle =
                warning("no Sidekiq process is running", "promoted jobs wait until one is; also check namespace");
            let readers = config.staging_queue.as_deref().and_then(|queue| staging_readers(queue, &processes));
            [reachable].into_iter().chain(processes.is_empty().then_some(idle)).chain(readers).collect()
        }
    }
}

/// Warns about processes that read the staging queue, which only fairgate should read.
fn staging_readers(queue: &str, processes: &[SidekiqProcess]) -> Option<CheckFinding> {
    let reads = |process: &&SidekiqProcess| process.queues.iter().any(|own| own == queue);
    let readers: Vec<&str> = processes.iter().filter(reads).map(|process| process.identity.as_str()).collect();
    let advice = "its workers bypass fairness; remove the queue from its configuration";
    let what = format!("a process reads the staging queue {queue}: {}", readers.join(", "));
    (!readers.is_empty()).then(|| warning(what, advice))
}

async fn look_at_server(remote: &Remote) -> Vec<CheckFinding> {
    let started = Instant::now();
    let Manifest { name, version, level, date } = match remote.manifest().await {
        Ok(manifest) => manifest,
        Err(error) => {
            return vec![bad(error.text, "check its url, and that the server is running and reachable from here")];
        }
    };
    let took = started.elapsed().as_secs_f64() * 1e3;
    let mut found = vec![good(format!("{name}, OJS {version}, conformance level {level}, round trip {took:.2} ms"))];
    if level < WANTED_LEVEL {
        let advice = "jobs are posted one by one, and queue statistics may be missing";
        found.push(warning(format!("its conformance level is {level}, expected {WANTED_LEVEL}"), advice));
    }
    let skew = date.map(|date| date - Clock::System.now_ms()).filter(|skew| skew.abs() > TOLERATED_SKEW_MS);
    found.extend(skew.map(|skew| {
        let advice = "expiry times of jobs will be wrong; synchronize both clocks";
        warning(format!("its clock differs from the local clock by {:.1} s", skew as f64 / 1e3), advice)
    }));
    // A server refuses an empty batch as invalid, unless the token may not post jobs at all.
    let may_post = remote.enqueue_batch(&[]).await.map(drop);
    let may_look_up = remote.has(&id::generate()).await.map(drop);
    let may_read_queues = remote.queue("default", level, Clock::System.now_ms()).await.map(drop);
    for (what, outcome) in
        [("post jobs", may_post), ("look up jobs", may_look_up), ("read its queues", may_read_queues)]
    {
        found.push(match outcome {
            Ok(()) => good(format!("the token may {what}")),
            Err(error) if error.kind == ErrorKind::Unauthorized => bad(
                format!("the token may not {what}: {error}"),
                "check its token_env or token_file, and the permissions of that token",
            ),
            Err(error) => {
                bad(format!("cannot {what}: {error}"), "docs/ojs-main-queue.md lists what the server must support")
            }
        });
    }
    found
}
