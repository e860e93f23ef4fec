//! Simulation of a queue under a plan rule, beside the queue as it is: the same jobs arrive, and
//! workers take as many jobs at the same times, but the rule decides whose jobs they get.

use super::round::{ServedTenant, ShadowRound, SimulatedTenant};
use super::wait_stats::{WaitStats, WaitStatsByTenant};
use crate::domain::fairness::FairQueue;
use crate::domain::plan::{Batch, DrainRate, Gate, LatencyGoal, QueueReading, Rule};
use crate::domain::tenant::Weight;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Maximum number of jobs that are remembered; of a longer queue, only the front is.
pub const MOST_JOBS: usize = 100_000;

/// A job of the queue.
#[derive(Clone, Debug)]
pub struct WatchedJob {
    /// Identifies the job.
    pub mark: u64,
    /// The tenant; `None` if the rule does not plan the job, which would go straight to the main
    /// queue.
    pub tenant: Option<Arc<str>>,
    /// The time since which it waits, in epoch milliseconds.
    pub since: i64,
}

/// A tenant with jobs in simulated staging.
#[derive(Clone, Debug)]
struct Lane {
    weight: Weight,
    /// For each job, the time since which it waits.
    jobs: VecDeque<i64>,
}

/// A job in the simulated main queue.
#[derive(Clone, Debug)]
struct Ready {
    tenant: Option<Arc<str>>,
    since: i64,
    /// The time since which it is in the main queue.
    at: i64,
}

/// A queue and its simulation under a rule. Nothing changes in Redis.
#[derive(Clone, Debug, Default)]
pub struct Shadow {
    /// The actual queue, the next job first.
    line: VecDeque<WatchedJob>,
    staging: FairQueue,
    lanes: HashMap<Arc<str>, Lane>,
    staged: u64,
    main: VecDeque<Ready>,
    /// Times at which workers took jobs while the simulated main queue was empty.
    owed: VecDeque<i64>,
    drain: DrainRate,
    taken: u64,
    /// The depth below which a round starts; `None` before the first round.
    low: Option<u64>,
    /// Number of jobs that the current interval may still promote, if the batch size is fixed.
    room: u64,
    met: WaitStatsByTenant,
}

impl Shadow {
    /// Returns the number of remembered jobs in the actual queue.
    pub fn len(&self) -> usize {
        self.line.len()
    }

    /// Returns true if no job waits in the actual queue.
    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// Returns the mark of the job that arrived last.
    pub fn newest(&self) -> Option<u64> {
        self.line.back().map(|seen| seen.mark)
    }

    /// Returns the number of jobs in front of a job.
    pub fn place(&self, mark: u64) -> Option<usize> {
        self.line.iter().position(|seen| seen.mark == mark)
    }

    /// Returns the jobs of the actual queue, the next one first.
    pub fn line(&self) -> impl Iterator<Item = &WatchedJob> {
        self.line.iter()
    }

    /// Returns the numbers of jobs and tenants in simulated staging.
    pub fn staged(&self) -> (u64, usize) {
        (self.staged, self.lanes.len())
    }

    /// Returns the tenants in simulated staging.
    pub fn waiting(&self) -> impl Iterator<Item = SimulatedTenant<'_>> {
        self.lanes.iter().map(|(tenant, lane)| SimulatedTenant {
            tenant,
            weight: lane.weight,
            jobs: lane.jobs.len() as u64,
            oldest: lane.jobs.front().copied(),
        })
    }

    /// Returns the number of jobs in the simulated main queue.
    pub fn depth(&self) -> u64 {
        self.main.len() as u64
    }

    /// Returns the number of jobs that workers have taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Returns the number of jobs that workers take per second.
    pub fn drain_per_s(&self) -> f64 {
        self.drain.rate()
    }

    /// Returns the waits of each tenant's jobs.
    pub fn tenants(&self) -> impl Iterator<Item = (&Arc<str>, &WaitStats)> {
        self.met.tenants()
    }

    /// Returns the waits of all planned jobs.
    pub fn all(&self) -> &WaitStats {
        self.met.all()
    }

    /// Adds a job to both queues.
    pub fn arrive(&mut self, seen: WatchedJob, weight: Weight) {
        match &seen.tenant {
            Some(tenant) => {
                self.staging.arrive(tenant, weight, 1);
                let lane = self.lanes.entry(Arc::clone(tenant));
                lane.or_insert_with(|| Lane { weight, jobs: VecDeque::new() }).jobs.push_back(seen.since);
                self.staged += 1;
                self.met.came(tenant);
            }
            None => self.main.push_back(Ready { tenant: None, since: seen.since, at: seen.since }),
        }
        self.line.push_back(seen);
    }

    /// Changes a tenant's weight.
    pub fn reweigh(&mut self, tenant: &str, weight: Weight) {
        self.staging.reweigh(tenant, weight);
        if let Some(lane) = self.lanes.get_mut(tenant) {
            lane.weight = weight;
        }
    }

    /// Records that workers took the first jobs of the actual queue at unknown times between `from`
    /// and `to`.
    pub fn take(&mut self, jobs: usize, from: i64, to: i64) {
        let jobs = jobs.min(self.line.len());
        for number in 0..jobs {
            let Some(seen) = self.line.pop_front() else { break };
            // Spread them evenly, but not before a job's arrival.
            let spread = (to - from).max(0) as f64 * (number as f64 + 0.5) / jobs as f64;
            let at = (from + spread as i64).max(seen.since.min(to));
            if let Some(tenant) = &seen.tenant {
                let waited = u64::try_from(at - seen.since).unwrap_or(0);
                self.met.took(tenant, waited);
            }
            self.owed.push_back(at);
            self.taken += 1;
        }
    }

    /// Runs a simulated round if one is due.
    pub fn round(&mut self, rule: &Rule, now: i64, scheduled: bool) -> Option<ShadowRound> {
        self.serve();
        let depth = self.depth();
        self.drain.observe(QueueReading {
            at_ms: now.max(0) as u64,
            taken: self.taken,
            depth,
            ..QueueReading::default()
        });
        let wanted = scheduled || self.low.is_none_or(|low| depth < low);
        let round = (wanted && self.staged > 0).then(|| self.promote(rule, now, scheduled));
        self.serve();
        // Surplus takes are not of jobs in the simulation: those jobs came and went unseen.
        let jobs = self.main.len() + self.staged as usize;
        self.owed.drain(..self.owed.len().saturating_sub(jobs));
        round
    }

    fn promote(&mut self, rule: &Rule, now: i64, scheduled: bool) -> ShadowRound {
        let depth = self.depth();
        let gate = Gate::read(rule, depth, self.main.front().map(|ready| ready.at), now);
        if let (Batch::Jobs(jobs), true) = (rule.batch, scheduled) {
            self.room = u64::from(jobs);
        }
        let left = rule.batch_left(self.room, depth == 0);
        let target = self.drain.aim(LatencyGoal { latency_ms: rule.target_latency, is_polled: true });
        let size = rule.round_size(left, target, depth);
        let want = match rule.batch {
            Batch::Jobs(_) => size.want,
            Batch::Auto => size.want.max(self.owed.len() as u64),
        };
        self.low = Some(size.low);
        let batch = want.min(gate.room).min(self.staged);
        let mut served: HashMap<Arc<str>, (Weight, u64)> = HashMap::new();
        let mut promoted = 0;
        while promoted < batch {
            let Some(tenant) = self.staging.pick() else { break };
            let weight = self.lanes.get(&tenant).map_or(Weight::ONE, |lane| lane.weight);
            served.entry(Arc::clone(&tenant)).or_insert((weight, 0)).1 += 1;
            self.leave(tenant, now);
            promoted += 1;
        }
        self.room = left.saturating_sub(promoted);
        self.drain.end_round(promoted == want && self.staged > 0);
        let served = served.into_iter().map(|(tenant, (weight, jobs))| ServedTenant { tenant, weight, jobs });
        let mut served: Vec<ServedTenant> = served.collect();
        served.sort_by(|one, other| other.jobs.cmp(&one.jobs).then_with(|| one.tenant.cmp(&other.tenant)));
        ShadowRound { gate, depth, batch, promoted, served }
    }

    /// Moves a tenant's first job from staging to the main queue.
    fn leave(&mut self, tenant: Arc<str>, now: i64) {
        let Some(lane) = self.lanes.get_mut(&tenant) else { return };
        let Some(since) = lane.jobs.pop_front() else { return };
        if lane.jobs.is_empty() {
            self.lanes.remove(&tenant);
        }
        self.staged -= 1;
        self.main.push_back(Ready { tenant: Some(tenant), since, at: now });
    }

    /// Matches jobs in the simulated main queue with the takes of workers.
    fn serve(&mut self) {
        while let Some(ready) = self.main.front() {
            let Some(at) = self.owed.pop_front() else { break };
            let waited = u64::try_from(at.max(ready.at) - ready.since).unwrap_or(0);
            if let Some(tenant) = &ready.tenant {
                self.met.would_take(tenant, waited);
            }
            self.main.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::wait_stats::{MOST_TENANTS, OTHERS};
    use super::*;

    const EVERY: i64 = 100;

    /// A queue whose workers take a job every 10 ms, read every 100 ms.
    struct Site {
        shadow: Shadow,
        rule: Rule,
        now: i64,
        marks: u64,
    }

    impl Site {
        fn new(change: impl FnOnce(&mut Rule)) -> Site {
            let mut rule = Rule::new("r", &["*"]);
            change(&mut rule);
            Site { shadow: Shadow::default(), rule, now: 0, marks: 0 }
        }

        fn push(&mut self, tenant: Option<&str>, jobs: usize) {
            for _ in 0..jobs {
                self.marks += 1;
                let seen = WatchedJob { mark: self.marks, tenant: tenant.map(Arc::from), since: self.now };
                let weight = tenant.map_or(Weight::ONE, |tenant| self.rule.own_weight(tenant, None));
                self.shadow.arrive(seen, weight);
            }
        }

        fn look(&mut self, taken: usize) -> Option<ShadowRound> {
            self.now += EVERY;
            self.shadow.take(taken, self.now - EVERY, self.now);
            self.shadow.round(&self.rule, self.now, self.now % 1000 == 0)
        }

        fn drain(&mut self) {
            while !self.shadow.is_empty() {
                self.look(10);
            }
        }

        fn p95(&self, tenant: &str) -> (u64, u64) {
            let (_, met) = self.shadow.tenants().find(|(name, _)| &***name == tenant).expect("known");
            (met.as_is.quantile(0.95).expect("some"), met.planned.quantile(0.95).expect("some"))
        }
    }

    #[test]
    fn a_quiet_tenant_behind_a_crowd_would_have_waited_its_share() {
        let mut site = Site::new(|_| {});
        site.push(Some("noisy"), 1000);
        site.push(Some("quiet"), 50);
        site.drain();
        let ((noisy, noisy_planned), (quiet, quiet_planned)) = (site.p95("noisy"), site.p95("quiet"));
        assert!((9_200..9_800).contains(&noisy), "{noisy}");
        assert!((10_200..10_700).contains(&quiet), "{quiet}");
        // The quiet tenant gets every second turn: its 50 jobs take a second, and wait in the main
        // queue for half of the target latency.
        assert!((800..1500).contains(&quiet_planned), "{quiet_planned}");
        assert!((9_700..10_400).contains(&noisy_planned), "{noisy_planned}");
        assert_eq!(site.shadow.staged().0 + site.shadow.depth(), 0, "all jobs were taken");
        assert_eq!((site.shadow.all().planned.total(), site.shadow.taken()), (1050, 1050));
    }

    #[test]
    fn weights_count_and_jobs_of_others_keep_their_place() {
        let mut site = Site::new(|rule| {
            rule.batch = Batch::Jobs(40);
            rule.weights.fixed.insert("paying".to_owned(), Weight::of(3.0).expect("a weight"));
        });
        site.push(Some("free"), 100);
        site.push(Some("paying"), 100);
        site.push(None, 5);
        let round = site.look(0).expect("the first round");
        // Jobs that the rule does not plan are in the main queue already, so it is not empty.
        assert_eq!((round.depth, round.promoted), (5, 0));
        site.look(5);
        let round = (0..10).find_map(|_| site.look(0).filter(|round| round.promoted > 0)).expect("a round");
        let jobs: Vec<(&str, u64)> = round.served.iter().map(|served| (&*served.tenant, served.jobs)).collect();
        assert_eq!(jobs, [("paying", 30), ("free", 10)]);
    }

    #[test]
    fn a_strict_interval_would_make_workers_wait() {
        let mut site = Site::new(|rule| (rule.batch, rule.strict_interval) = (Batch::Jobs(10), true));
        site.push(Some("a"), 100);
        (0..20).for_each(|_| drop(site.look(10)));
        // All 100 jobs were taken in the first second; at 10 jobs a second, only 20 would have
        // been.
        assert_eq!((site.shadow.len(), site.shadow.staged().0), (0, 80));
        let met = site.shadow.all();
        assert_eq!((met.as_is.total(), met.planned.total()), (100, 20));
    }

    #[test]
    fn who_comes_and_goes_unseen_leaves_nothing_behind() {
        let mut site = Site::new(|_| {});
        for round in 0..50 {
            site.push(Some("a"), round % 3);
            site.drain();
            site.look(5);
        }
        assert_eq!((site.shadow.owed.len(), site.shadow.len(), site.shadow.depth()), (0, 0, 0));
        assert!(site.p95("a").1 <= 200);
        assert_eq!((site.shadow.place(1), site.shadow.newest()), (None, None));
    }

    #[test]
    fn tenants_beyond_the_bound_are_counted_together() {
        let mut site = Site::new(|_| {});
        for number in 0..MOST_TENANTS + 10 {
            site.push(Some(&format!("t{number}")), 1);
        }
        assert_eq!(site.shadow.tenants().count(), MOST_TENANTS + 1);
        let others = site.shadow.tenants().find(|(name, _)| &***name == OTHERS);
        assert_eq!(others.map(|(_, met)| met.waiting), Some(10));
        site.drain();
        assert!(site.shadow.tenants().all(|(_, met)| met.waiting == 0));
        assert_eq!(site.shadow.all().as_is.total(), MOST_TENANTS as u64 + 10);
    }
}
