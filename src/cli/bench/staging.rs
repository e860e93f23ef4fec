//! A plan rule with jobs of a shape staged under it, and the planner that promotes them.

use super::ground::Ground;
use super::shape::{KIND, RULE, Shape};
use crate::fairness::Rule;
use crate::main_queue::MainQueues;
use crate::planner::RunnerRegistry;
use anyhow::Context;

/// Where promotion is measured.
pub(super) struct Staging {
    pub(super) ground: Ground,
    pub(super) rule: Rule,
    pub(super) registry: RunnerRegistry,
    fillings: u64,
}

impl Staging {
    /// Makes one plan rule hold, with rounds of so many jobs.
    pub(super) async fn start(round: u64) -> anyhow::Result<Staging> {
        Self::start_with(round, "", &format!("types = [\"{KIND}\"]")).await
    }

    /// The same with other sections before it and other options of the rule.
    pub(super) async fn start_with(round: u64, before: &str, options: &str) -> anyhow::Result<Staging> {
        // The gate stays open, however much was promoted before.
        let gate = "max_depth = 1000000000\nlatency_threshold = \"1000000s\"";
        let config = format!("{before}[[plan]]\nname = \"{RULE}\"\nenqueue_jobs = {round}\n{options}\n{gate}\n");
        let ground = Ground::start(&config).await?;
        let known = ground.rules.known().await?;
        let rule = Rule::clone(known.rules.get(RULE).context("the plan rule does not hold")?);
        let main_queues = MainQueues::builtin(ground.store.clone());
        let registry = RunnerRegistry::new(
            ground.store.clone(),
            ground.rules.clone(),
            main_queues,
            ground.metrics.clone(),
            "bench",
        );
        Ok(Staging { ground, rule, registry, fillings: 0 })
    }

    /// The number of the last filling.
    pub(super) fn filling(&self) -> u64 {
        self.fillings
    }

    /// Stages all jobs of a shape through the enqueue service.
    pub(super) async fn fill(&mut self, shape: Shape) -> anyhow::Result<()> {
        self.fillings += 1;
        let (filling, jobs, store) = (self.fillings, shape.jobs(), &self.ground.store);
        // While a rule is paused nothing passes straight through to the main queue.
        store.pause_rule(RULE, true, "bench").await?;
        self.ground.fill(jobs, |place| shape.job(filling, place)).await?;
        store.pause_rule(RULE, false, "bench").await?;
        let staged = store.rule_status(RULE, None).await?.staged;
        anyhow::ensure!(staged == jobs, "{staged} of {jobs} jobs are staged");
        Ok(())
    }
}
