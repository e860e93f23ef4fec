//! The loops: one for each rule that this process plans, as long as there is such a rule.

use super::desk::Desk;
use super::lookout;
use super::pilot::Flight;
use crate::store::{Error, Signal, Why};
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How often an idle rule is looked at although no signal came.
const IDLE: Duration = Duration::from_secs(2);
/// How soon after a failure it is tried again.
const AFTER_FAILURE: Duration = Duration::from_millis(500);
/// Scheduled rounds are looked for at least that often, because the clock that counts is the store's.
pub(super) const LONGEST: Duration = Duration::from_secs(5);

/// What is done for a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Duty {
    Plan,
    /// It is in shadow.
    Watch,
}

/// The component that plans.
pub struct Planner {
    desk: Desk,
    /// Groups of rules that this process plans.
    groups: Vec<String>,
}

impl Planner {
    /// A planner for some groups of rules.
    pub fn new(desk: Desk, groups: Vec<String>) -> Self {
        Planner { desk, groups }
    }

    /// Plans until `stop`; rules come and go meanwhile.
    pub async fn run(self, stop: CancellationToken) {
        let mut changes = self.desk.rules().watch();
        let mut loops: HashMap<(String, Duty), CancellationToken> = HashMap::new();
        let mut tasks = JoinSet::new();
        loop {
            if let Err(error) = self.desk.rules().known().await {
                tracing::debug!(%error, "cannot read the plan rules yet");
            }
            let wanted = self.wanted(&changes.borrow_and_update().clone());
            loops.retain(|task, cancel| {
                let stays = wanted.contains(task);
                if !stays {
                    cancel.cancel();
                }
                stays
            });
            for (name, duty) in wanted {
                loops.entry((name.clone(), duty)).or_insert_with(|| {
                    let (desk, cancel) = (self.desk.clone(), stop.child_token());
                    match duty {
                        Duty::Plan => tasks.spawn(plan(desk, name, cancel.clone())),
                        Duty::Watch => tasks.spawn(lookout::watch(desk, name, cancel.clone())),
                    };
                    cancel
                });
            }
            tokio::select! {
                () = stop.cancelled() => break,
                _ = changes.changed() => {}
            }
        }
        self.desk.stop();
        while tasks.join_next().await.is_some() {}
        self.desk.release().await;
    }

    fn wanted(&self, known: &super::Known) -> Vec<(String, Duty)> {
        let ours = known.rules.iter().filter(|rule| self.groups.contains(&rule.planner_group));
        let watched = ours.clone().filter(|rule| rule.shadow).map(|rule| (rule.name.clone(), Duty::Watch));
        // Who is in shadow may have jobs staged from before.
        let planned = ours.map(|rule| &rule.name).chain(known.draining.iter().map(|(name, _)| name));
        planned.map(|name| (name.clone(), Duty::Plan)).chain(watched).collect()
    }
}

/// Plans one rule until `stop`.
async fn plan(desk: Desk, name: String, stop: CancellationToken) {
    let mut signals = desk.store().signals();
    let mut why = Why::Tick;
    let (mut failing, mut low) = (false, None);
    loop {
        let outcome = fly(&desk, &name, why, low.take()).await;
        let poll = outcome.as_ref().ok().and_then(|(_, poll)| *poll);
        if let (Err(error), false) = (&outcome, failing) {
            tracing::warn!(rule = name, %error, "cannot plan: nothing is promoted until Redis is back");
        }
        failing = outcome.is_err();
        let now = Instant::now();
        // While another process plans, signals are its business.
        let (next, deaf_until) = match outcome.map(|(flight, _)| flight) {
            Ok(Some(Flight::Ran { next_ms, .. } | Flight::Early { in_ms: next_ms })) => {
                (Duration::from_millis(next_ms.max(1)), now)
            }
            Ok(Some(Flight::Elsewhere { left_ms, .. })) => {
                let left = Duration::from_millis(left_ms.max(1));
                (left, now + left)
            }
            Ok(Some(Flight::Paused | Flight::Empty | Flight::Gone) | None) => (IDLE, now),
            Err(_) => (AFTER_FAILURE, now + AFTER_FAILURE),
        };
        let wake_at = now + next.min(LONGEST);
        let mut look_at = now + poll.unwrap_or(LONGEST);
        why = loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep_until(wake_at) => break Why::Tick,
                () = tokio::time::sleep_until(look_at), if poll.is_some() => {
                    if runs_low(&desk, &name).await {
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

/// Runs a round; what became of it, and how often to look from now on whether another one is wanted.
async fn fly(
    desk: &Desk,
    name: &str,
    why: Why,
    low: Option<String>,
) -> Result<(Option<Flight>, Option<Duration>), Error> {
    let Some(pilot) = desk.pilot(name).await? else { return Ok((None, None)) };
    let mut pilot = pilot.lock().await;
    if let Some(queue) = low {
        pilot.prefer(&queue).await?;
    }
    let flight = pilot.round(why).await?;
    let poll = pilot.watch().every();
    drop(pilot);
    if matches!(flight, Flight::Empty) && desk.rules().known().await?.is_draining(name) {
        desk.rules().reload().await?;
    }
    Ok((Some(flight), poll))
}

async fn runs_low(desk: &Desk, name: &str) -> bool {
    match desk.pilot(name).await {
        Ok(Some(pilot)) => pilot.lock().await.runs_low().await,
        _ => false,
    }
}
