//! `fairgate serve`.

use super::Settings;
use crate::app::App;
use crate::clock::Clock;
use crate::config::Config;
use crate::keyring::Gate;
use crate::telemetry;
use clap::Args;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

/// Serve the API until SIGTERM or Ctrl-C.
///
/// When it is ready, one line on standard error tells the address and the store, and /ready answers 200. SIGTERM turns
/// readiness off, finishes the requests in flight, saves and stops the private Redis, and exits 0.
///
/// /docs is a page to browse the API, /openapi.json its document.
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
        telemetry::start_logs(&config.log).map_err(|problem| anyhow::anyhow!(problem))?;
        super::runtime()?.block_on(serve(&config))?;
        Ok(ExitCode::SUCCESS)
    }
}

async fn serve(config: &Config) -> anyhow::Result<()> {
    // Asked for before anything is started, so that an early signal is not lost.
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let app = App::start(config, Clock::System).await?;
    let store = match (app.private_redis(), config.store.redacted_url()) {
        (Some(private), _) => format!("private Redis at {}", private.socket().display()),
        (None, url) => url.unwrap_or_default(),
    };
    let is_reachable = !config.server.listen.ip().is_loopback();
    match app.keys.gate() {
        Gate::Closed => eprintln!("every request needs one of {} API keys", app.keys.keys().len()),
        Gate::Unknown => eprintln!("nobody is let in before Redis tells whether there are API keys"),
        Gate::Open if is_reachable => {
            eprintln!("WARNING: NO AUTHENTICATION: anybody who reaches {} can read and change all jobs", app.address);
            tracing::warn!("serving {} without authentication", app.address);
        }
        Gate::Open => eprintln!(
            "NO AUTHENTICATION: anybody on this machine can read and change all jobs; `fairgate keys create NAME --role \
             admin` makes the first key"
        ),
    }
    eprintln!("fairgate {} ready: http://{}  store: {store}", super::VERSION, app.address);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    eprintln!("fairgate stops: finishing what is in flight (a second signal ends it at once)");
    tokio::select! {
        () = app.shut_down() => {}
        _ = terminate.recv() => anyhow::bail!("ended by a second signal"),
        _ = interrupt.recv() => anyhow::bail!("ended by a second signal"),
    }
    Ok(())
}
