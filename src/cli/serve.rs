//! `fairgate serve`.

use super::Settings;
use crate::app::App;
use crate::auth::AuthMode;
use crate::clock::Clock;
use crate::config::Config;
use crate::domain::words::counted;
use crate::telemetry::{self, Repeats, announce};
use clap::Args;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Serve the API until SIGTERM or Ctrl-C.
///
/// When the server accepts requests and Redis answers, it logs "ready" with its address and store
/// on standard error, and GET /ready returns 200 (see `fairgate ready`). /docs shows the API in a
/// browser, /openapi.json is its OpenAPI document.
///
/// Signals: SIGTERM and Ctrl-C turn readiness off, finish the requests in flight (for at most
/// server.shutdown_grace), save and stop the private Redis, and exit. A second signal exits at
/// once.
///
/// Exit status: 0 after a signal; 1 if the server cannot start or receives a second signal; 2 if
/// the command line is invalid; 64 if the configuration is.
#[derive(Args)]
pub(super) struct Serve {
    #[command(flatten)]
    settings: Settings,
}

impl Serve {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let config = match self.settings.load() {
            Ok(loaded) => loaded.config,
            Err(code) => return Ok(code),
        };
        let repeats = telemetry::start_logs(&config.log).map_err(|problem| anyhow::anyhow!(problem))?;
        super::runtime()?.block_on(serve(&config, repeats))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Interval at which a server that waits for Redis checks it.
const LOOK: Duration = Duration::from_millis(200);

async fn serve(config: &Config, repeats: Repeats) -> anyhow::Result<()> {
    let stop_counting = CancellationToken::new();
    let counting = tokio::spawn(repeats.run(stop_counting.clone()));
    // Registered before anything starts, so that an early signal is not lost.
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let app = App::start(config, Clock::System).await?;
    tokio::select! {
        () = run(config, &app) => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    let text = "fairgate is stopping: finishing requests in flight (send a second signal to exit at once)";
    announce(&config.log, text, "INFO", "stopping", &[]);
    tokio::select! {
        () = app.shut_down() => {}
        _ = terminate.recv() => anyhow::bail!("ended by a second signal"),
        _ = interrupt.recv() => anyhow::bail!("ended by a second signal"),
    }
    stop_counting.cancel();
    _ = counting.await;
    announce(&config.log, "fairgate stopped", "INFO", "stopped", &[]);
    Ok(())
}

/// Announces readiness as soon as Redis answers, then never returns.
async fn run(config: &Config, app: &App) {
    let url = format!("http://{}", app.address);
    let mut is_waiting = false;
    while let Err(error) = app.store.ready_within(LOOK).await {
        if !is_waiting {
            is_waiting = true;
            let error = error.to_string();
            let text = format!("waiting for Redis, requests are answered with 503: {error}");
            announce(&config.log, &text, "WARN", "waiting for Redis", &[("url", &url), ("error", &error)]);
        }
        tokio::time::sleep(LOOK).await;
    }
    report_authentication(config, app);
    let store = match app.private_redis() {
        Some(private) => format!("private Redis at {}", private.socket().display()),
        None => config.store.description(),
    };
    let text = format!("fairgate {} ready: {url}  store: {store}", super::VERSION);
    announce(&config.log, &text, "INFO", "ready", &[("url", &url), ("store", &store), ("version", super::VERSION)]);
    std::future::pending().await
}

fn report_authentication(config: &Config, app: &App) {
    let log = &config.log;
    if let Some(key) = &app.generated_key {
        let text = "no API key existed: created an admin key, printed once on standard output";
        announce(log, text, "INFO", "created the first API key", &[]);
        println!("{key}");
    }
    let is_reachable = !config.server.listen.ip().is_loopback();
    match app.keys.mode() {
        AuthMode::Required => {
            let keys = app.keys.keys().len();
            let text = format!("every request needs an API key ({} known)", counted(keys as u64, "key"));
            announce(log, &text, "INFO", "every request needs an API key", &[("keys", &keys.to_string())]);
        }
        AuthMode::Unknown => {
            let text = "API keys are not loaded yet: requests are refused until Redis returns them";
            announce(log, text, "WARN", "API keys are not loaded yet", &[]);
        }
        AuthMode::Disabled if is_reachable => {
            let address = app.address.to_string();
            let text =
                format!("WARNING: NO AUTHENTICATION: any client that reaches {address} can read and change all jobs");
            announce(log, &text, "WARN", "no authentication", &[("address", &address)]);
        }
        AuthMode::Disabled => {
            let text = "NO AUTHENTICATION: any user of this machine can read and change all jobs; create the first key \
                        with `fairgate keys create NAME --role admin`";
            announce(log, text, "WARN", "no authentication", &[("address", &app.address.to_string())]);
        }
    }
}
