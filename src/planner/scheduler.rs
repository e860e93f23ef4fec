//! The planning loops: one per rule that this process plans, as long as the rule exists.

use super::RunnerRegistry;
use super::round_attempt::RoundAttempt;
use crate::rules::{KnownRules, run_per_rule};
use crate::store::{Error, Signal, Why};
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Interval at which an idle rule is checked without a signal.
const IDLE: Duration = Duration::from_secs(2);
/// Delay of the next attempt after a failure.
const AFTER_FAILURE: Duration = Duration::from_millis(500);
/// Maximum time between checks for scheduled rounds, because the store's clock decides.
pub(super) const LONGEST: Duration = Duration::from_secs(5);

/// Plans the rules of some planner groups.
pub struct Planner {
    registry: RunnerRegistry,
    /// The planner groups of this process.
    groups: Vec<String>,
}

impl Planner {
    /// Creates a planner for some planner groups.
    pub fn new(registry: RunnerRegistry, groups: Vec<String>) -> Self {
        Planner { registry, groups }
    }

    /// Plans until `stop`, following changes of the rules.
    pub async fn run(self, stop: CancellationToken) {
        let plan = |name, stop| plan(self.registry.clone(), name, stop);
        let mut ending = run_per_rule(self.registry.rules(), |known| self.wanted(known), plan, &stop).await;
        self.registry.stop();
        while ending.join_next().await.is_some() {}
        self.registry.release().await;
    }

    /// Returns the names of the rules to plan. A rule in shadow is one of them, because it may have
    /// jobs that were staged before.
    fn wanted(&self, known: &KnownRules) -> Vec<String> {
        let ours = known.rules.iter().filter(|rule| self.groups.contains(&rule.planner_group));
        ours.map(|rule| &rule.name).chain(known.draining.iter().map(|(name, _)| name)).cloned().collect()
    }
}

/// Plans one rule until `stop`.
async fn plan(registry: RunnerRegistry, name: String, stop: CancellationToken) {
    let mut signals = registry.store().signals();
    let mut why = Why::Tick;
    let (mut failing, mut low) = (false, None);
    loop {
        let outcome = attempt(&registry, &name, why, low.take()).await;
        let poll = outcome.as_ref().ok().and_then(|(_, poll)| *poll);
        if let (Err(error), false) = (&outcome, failing) {
            tracing::warn!(rule = name, %error, "planning failed; nothing is promoted until Redis is back");
        }
        failing = outcome.is_err();
        let now = Instant::now();
        // While another process plans the rule, it handles the signals.
        let (next, deaf_until) = match outcome.map(|(attempt, _)| attempt) {
            Ok(Some(RoundAttempt::Ran { next_ms, .. } | RoundAttempt::Early { in_ms: next_ms })) => {
                (Duration::from_millis(next_ms.max(1)), now)
            }
            Ok(Some(RoundAttempt::Elsewhere { left_ms, .. })) => {
                let left = Duration::from_millis(left_ms.max(1));
                (left, now + left)
            }
            Ok(Some(RoundAttempt::Paused | RoundAttempt::Empty | RoundAttempt::Gone) | None) => (IDLE, now),
            Err(_) => (AFTER_FAILURE, now + AFTER_FAILURE),
        };
        let wake_at = now + next.min(LONGEST);
        let mut look_at = now + poll.unwrap_or(LONGEST);
        why = loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep_until(wake_at) => break Why::Tick,
                () = tokio::time::sleep_until(look_at), if poll.is_some() => {
                    if runs_low(&registry, &name).await {
                        break Why::Wake;
                    }
                    look_at = Instant::now() + poll.unwrap_or(LONGEST);
                }
                signal = signals.recv() => match signal {
                    Ok(Signal::Staged { rule }) if rule == name && Instant::now() >= deaf_until => break Why::Wake,
                    Ok(Signal::Low { queue }) if Instant::now() >= deaf_until => {
                        low = Some(queue);
                        break Why::Wake;
                    }
                    Ok(Signal::Freed { rule }) if rule == name => break Why::Tick,
                    Ok(Signal::Rules | Signal::Missed) | Err(RecvError::Lagged(_)) => break Why::Tick,
                    Ok(_) => {}
                    Err(RecvError::Closed) => return,
                },
            }
        };
    }
}

/// Attempts a round. Returns the result and the interval at which to poll for low main queues.
async fn attempt(
    registry: &RunnerRegistry,
    name: &str,
    why: Why,
    low: Option<String>,
) -> Result<(Option<RoundAttempt>, Option<Duration>), Error> {
    let Some(round_runner) = registry.round_runner(name).await? else { return Ok((None, None)) };
    let mut round_runner = round_runner.lock().await;
    if let Some(queue) = low {
        round_runner.prefer(&queue).await?;
    }
    let attempt = round_runner.round(why).await?;
    let poll = round_runner.watch().every();
    drop(round_runner);
    if matches!(attempt, RoundAttempt::Empty) && registry.rules().known().await?.is_draining(name) {
        registry.rules().reload().await?;
    }
    Ok((Some(attempt), poll))
}

async fn runs_low(registry: &RunnerRegistry, name: &str) -> bool {
    match registry.round_runner(name).await {
        Ok(Some(round_runner)) => round_runner.lock().await.runs_low().await,
        _ => false,
    }
}
