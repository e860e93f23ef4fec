//! A plan rule with staged jobs of a shape, and the planner that promotes them.

use crate::fixture::Fixture;
use crate::shape::{KIND, RULE, Shape};
use anyhow::Context;
use fairgate::domain::plan::Rule;
use fairgate::main_queue::MainQueues;
use fairgate::planner::RunnerRegistry;

/// The setup in which promotion is measured.
pub struct Staging {
    pub fixture: Fixture,
    pub rule: Rule,
    pub registry: RunnerRegistry,
    fillings: u64,
}

impl Staging {
    /// Starts a store with one plan rule whose rounds promote `batch` jobs.
    pub async fn start(round: u64) -> anyhow::Result<Staging> {
        Self::start_with(round, "", &format!("types = [\"{KIND}\"]")).await
    }

    /// The same with further configuration sections and options of the rule.
    pub async fn start_with(round: u64, before: &str, options: &str) -> anyhow::Result<Staging> {
        // The gate stays open, no matter how many jobs were promoted before.
        let gate = "max_depth = 1000000000\nlatency_threshold = \"1000000s\"";
        let config = format!("{before}[[plan]]\nname = \"{RULE}\"\nenqueue_jobs = {round}\n{options}\n{gate}\n");
        let fixture = Fixture::start(&config).await?;
        let known = fixture.rules.known().await?;
        let rule = Rule::clone(known.rules.get(RULE).context("the plan rule is not in force")?);
        let main_queues = MainQueues::builtin(fixture.store.clone());
        let registry = RunnerRegistry::new(
            fixture.store.clone(),
            fixture.rules.clone(),
            main_queues,
            fixture.metrics.clone(),
            "bench",
        );
        Ok(Staging { fixture, rule, registry, fillings: 0 })
    }

    /// The number of the last filling.
    pub fn filling(&self) -> u64 {
        self.fillings
    }

    /// Enqueues all jobs of a shape into staging.
    pub async fn fill(&mut self, shape: Shape) -> anyhow::Result<()> {
        self.fillings += 1;
        let (filling, jobs, store) = (self.fillings, shape.jobs(), &self.fixture.store);
        // While a rule is paused, no job passes through to the main queue.
        store.pause_rule(RULE, true, "bench").await?;
        self.fixture.fill(jobs, |place| shape.job(filling, place)).await?;
        store.pause_rule(RULE, false, "bench").await?;
        let staged = store.rule_status(RULE, None).await?.staged;
        anyhow::ensure!(staged == jobs, "{staged} of {jobs} jobs are staged");
        Ok(())
    }
}
