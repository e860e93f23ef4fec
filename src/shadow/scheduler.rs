//! The loops that watch: one per rule in shadow of this process, as long as the rule exists.

use super::watcher::{KEEP, ShadowWatcher};
use crate::planner::RunnerRegistry;
use crate::rules::{KnownRules, run_per_rule};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Delay of the next attempt after a failure.
const AFTER_FAILURE: Duration = Duration::from_millis(500);

/// Watches the rules in shadow of some planner groups.
pub struct ShadowScheduler {
    registry: RunnerRegistry,
    /// The planner groups of this process.
    groups: Vec<String>,
}

impl ShadowScheduler {
    /// Creates a scheduler for some planner groups.
    pub fn new(registry: RunnerRegistry, groups: Vec<String>) -> Self {
        ShadowScheduler { registry, groups }
    }

    /// Watches until `stop`, following changes of the rules.
    pub async fn run(self, stop: CancellationToken) {
        let watch = |name, stop| watch(self.registry.clone(), name, stop);
        let mut ending = run_per_rule(self.registry.rules(), |known| self.wanted(known), watch, &stop).await;
        while ending.join_next().await.is_some() {}
    }

    fn wanted(&self, known: &KnownRules) -> Vec<String> {
        let ours = known.rules.iter().filter(|rule| rule.shadow && self.groups.contains(&rule.planner_group));
        ours.map(|rule| rule.name.clone()).collect()
    }
}

/// Watches one rule until `stop`, unless another process does.
async fn watch(registry: RunnerRegistry, name: String, stop: CancellationToken) {
    let mut failing = false;
    loop {
        let pause = match ShadowWatcher::begin(&registry, &name).await {
            Ok(None) => KEEP,
            Ok(Some(mut shadow_watcher)) => {
                failing = false;
                let pause = tokio::select! {
                    () = stop.cancelled() => None,
                    pause = shadow_watcher.run() => Some(pause),
                };
                registry.shadow_metrics().forget(&name);
                let Some(pause) = pause else { return };
                pause
            }
            Err(error) => {
                if !failing {
                    tracing::warn!(rule = name, %error, "cannot watch a rule in shadow");
                }
                failing = true;
                AFTER_FAILURE
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}
