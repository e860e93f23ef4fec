//! The input of a detection: the jobs and the recent activity of tenants.

use crate::domain::tenant::Weight;

/// The current jobs of a tenant and its activity within the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Number of waiting jobs, staged or in a queue, without jobs that are scheduled for later.
    pub depth: u64,
    /// Number of waiting jobs that a free worker could start: neither a pause nor a limit stops
    /// them.
    pub runnable: u64,
    /// Number of jobs that workers hold.
    pub active: u64,
    pub enqueued: u64,
    /// Number of requests that enqueued the jobs. The jobs of one request arrive together, so as
    /// evidence they count as one.
    pub pushes: u64,
    /// Number of attempts that succeeded.
    pub completed: u64,
    /// Number of attempts that failed.
    pub failed: u64,
    /// Time in milliseconds that workers spent on attempts that ended.
    pub worker_ms: u64,
}

impl Figures {
    /// Returns true if the tenant competes for workers: it has waiting or active jobs.
    pub fn contends(&self) -> bool {
        self.depth + self.active > 0
    }

    /// Returns the number of attempts that ended.
    pub fn ended(&self) -> u64 {
        self.completed + self.failed
    }

    /// Returns the figures minus those of one tenant.
    pub(super) fn without(&self, one: &Figures) -> Figures {
        Figures {
            depth: self.depth.saturating_sub(one.depth),
            runnable: self.runnable.saturating_sub(one.runnable),
            active: self.active.saturating_sub(one.active),
            enqueued: self.enqueued.saturating_sub(one.enqueued),
            pushes: self.pushes.saturating_sub(one.pushes),
            completed: self.completed.saturating_sub(one.completed),
            failed: self.failed.saturating_sub(one.failed),
            worker_ms: self.worker_ms.saturating_sub(one.worker_ms),
        }
    }
}

/// A tenant in a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantFigures {
    pub id: String,
    /// Weight without any throttle.
    pub weight: Weight,
    pub figures: Figures,
}

impl TenantFigures {
    pub(super) fn share(&self) -> f64 {
        self.weight.as_f64().max(Weight::LEAST.as_f64())
    }
}

/// Tenants at one moment: the busiest ones, and a random sample of the others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    pub now: i64,
    /// Length of the window of the figures, in milliseconds.
    pub span: u64,
    /// Number of tenants with jobs or activity, including those that are not in `seen`.
    pub tenants: u64,
    /// Number of those with waiting or active jobs.
    pub contenders: u64,
    /// Sum of the figures of all tenants.
    pub total: Figures,
    pub seen: Vec<TenantFigures>,
    /// Indexes in `seen` of the tenants drawn at random; the median queue depth is theirs.
    pub sample: Vec<usize>,
}

impl Snapshot {
    /// Creates a snapshot of all tenants.
    pub fn of_all(now: i64, span: u64, seen: Vec<TenantFigures>) -> Snapshot {
        let mut total = Figures::default();
        for TenantFigures { figures, .. } in &seen {
            total.depth += figures.depth;
            total.runnable += figures.runnable;
            total.active += figures.active;
            total.enqueued += figures.enqueued;
            total.pushes += figures.pushes;
            total.completed += figures.completed;
            total.failed += figures.failed;
            total.worker_ms += figures.worker_ms;
        }
        let contends = |place: &usize| seen[*place].figures.contends();
        let sample: Vec<usize> = (0..seen.len()).filter(contends).collect();
        let (tenants, contenders) = (seen.len() as u64, sample.len() as u64);
        Snapshot { now, span, tenants, contenders, total, seen, sample }
    }

    /// Returns a tenant of the snapshot.
    pub fn find(&self, id: &str) -> Option<&TenantFigures> {
        self.seen.iter().find(|seen| seen.id == id)
    }

    /// Returns the share of the workers that a tenant would have by weight if it had jobs.
    pub fn expected_share(&self, id: &str) -> Option<f64> {
        let seen = self.find(id)?;
        let others = self.contending_weight() - if seen.figures.contends() { seen.share() } else { 0.0 };
        Some(seen.share() / (others + seen.share()))
    }

    /// Returns the sum of the weights of all tenants with jobs. Those that are not in `seen` count
    /// with weight 1.
    pub(super) fn contending_weight(&self) -> f64 {
        let seen: Vec<&TenantFigures> = self.seen.iter().filter(|seen| seen.figures.contends()).collect();
        let unseen = self.contenders.saturating_sub(seen.len() as u64) as f64;
        seen.iter().map(|seen| seen.share()).sum::<f64>() + unseen * Weight::ONE.as_f64()
    }

    /// Returns the sum of the weights of all tenants, computed in the same way.
    pub(super) fn weight(&self) -> f64 {
        let unseen = self.tenants.saturating_sub(self.seen.len() as u64) as f64;
        self.seen.iter().map(TenantFigures::share).sum::<f64>() + unseen * Weight::ONE.as_f64()
    }

    /// Returns the median of the others' queue depths, each divided by weight.
    pub(super) fn median_depth(&self, but: &str) -> f64 {
        let others = self.sample.iter().map(|place| &self.seen[*place]).filter(|seen| seen.id != but);
        let mut depths: Vec<f64> = others.map(|seen| seen.figures.depth as f64 / seen.share()).collect();
        depths.sort_by(f64::total_cmp);
        match depths.len() {
            0 => 0.0,
            odd if odd % 2 == 1 => depths[odd / 2],
            even => (depths[even / 2 - 1] + depths[even / 2]) / 2.0,
        }
    }

    /// Returns a tenant's part of the workers' time, or of the active jobs if no attempt has ended
    /// yet.
    pub(super) fn served_share(&self, figures: &Figures) -> f64 {
        if self.total.worker_ms > 0 {
            part(figures.worker_ms, self.total.worker_ms)
        } else {
            part(figures.active, self.total.active)
        }
    }
}

/// Returns a part of a whole; 0 if the whole is 0.
pub(super) fn part(of: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { of as f64 / whole as f64 }
}
