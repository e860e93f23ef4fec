//! `fairgate demo`.

mod fairness_switch;
mod producers;
mod scenario;
mod status;
mod waits;
mod weights_webhook;
mod workers;

use crate::app::App;
use crate::cli::{runtime, server};
use crate::clock::Clock;
use crate::config::{Config, Flag, Sources};
use crate::telemetry;
use anyhow::Context;
use clap::Args;
use fairness_switch::FairnessSwitch;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use waits::Waits;

/// Watch fairness at work: a server with simulated tenants and workers.
///
/// Starts a server with a private Redis in a temporary directory, a tenant that floods it, quiet
/// tenants, workers, a weights webhook and a rate limit, and prints each few seconds how long jobs
/// wait. Press Enter to turn fairness off and on again. Ctrl-C stops everything and deletes all
/// data.
///
/// Exit status: 0 after Ctrl-C or SIGTERM; 1 if the server cannot start.
#[derive(Args)]
pub(in crate::cli) struct Demo {
    /// Address and port of the server
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    listen: String,
    /// Start with fairness off
    #[arg(long)]
    without_fairness: bool,
    /// Stop after this many seconds
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
}

/// A directory that is removed when dropped.
struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    fn create() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("fairgate-demo-{}", std::process::id()));
        std::fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(TemporaryDirectory(path))
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Demo {
    pub(in crate::cli) fn run(self) -> anyhow::Result<ExitCode> {
        let directory = TemporaryDirectory::create()?;
        let config = config(&self.listen, &directory.0)?;
        let repeats = telemetry::start_logs(&config.log).map_err(|problem| anyhow::anyhow!(problem))?;
        let runtime = runtime()?;
        runtime.spawn(repeats.run(CancellationToken::new()));
        runtime.block_on(self.serve(&config))?;
        Ok(ExitCode::SUCCESS)
    }

    async fn serve(&self, config: &Config) -> anyhow::Result<()> {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let webhook = weights_webhook::start(&tasks, stop.clone()).await?;
        let app = App::start(config, Clock::System).await?;
        app.store.ready_within(Duration::from_secs(30)).await?;
        let url = format!("http://{}", app.address);
        let client = server::client(&url, None)?;
        let switch = FairnessSwitch::new(client.clone(), webhook);
        if !self.without_fairness {
            switch.turn_on().await?;
        }
        let waits = Arc::new(Waits::default());
        eprintln!("{}", scenario::introduction(&url));
        producers::start(&client, &tasks, &stop).await?;
        workers::start(&client, &waits, &tasks, &stop);
        tasks.spawn(fairness_switch::follow_input(switch.clone(), client.clone(), stop.clone()));
        tasks.spawn(status::print(client, switch, waits, stop.clone()));
        self.wait().await?;
        eprintln!("stopping");
        stop.cancel();
        tasks.close();
        tasks.wait().await;
        app.shut_down().await;
        Ok(())
    }

    /// Waits for a signal, or until the given time is over.
    async fn wait(&self) -> anyhow::Result<()> {
        use tokio::signal::unix::{SignalKind, signal};
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let end = async {
            match self.seconds {
                Some(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = end => {}
        }
        Ok(())
    }
}

/// Returns the configuration of the demo. Files and environment do not affect it.
fn config(listen: &str, directory: &Path) -> anyhow::Result<Config> {
    let file = directory.join("demo.toml");
    std::fs::write(&file, scenario::CONFIG)?;
    let data = directory.join("redis").display().to_string();
    let flag = |path: &str, value: &str, name: &str| Flag {
        path: path.to_owned(),
        value: value.to_owned(),
        name: name.to_owned(),
    };
    let flags = vec![flag("server.listen", listen, "--listen"), flag("store.data_dir", &data, "--data-dir")];
    let sources = Sources { file: Some(file), directory: directory.to_owned(), env: Vec::new(), flags };
    Ok(Config::load(&sources)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_of_the_demo_is_valid() {
        let directory = tempfile::tempdir().unwrap();
        let config = config("127.0.0.1:0", directory.path()).unwrap();
        assert!(config.server.listen.ip().is_loopback());
    }
}
