//! What tenants have and did lately: all that a verdict is made of.

use super::super::Weight;

/// What a tenant has now and did within the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Jobs that wait, staged or in a queue; not those that are scheduled for later.
    pub depth: u64,
    /// Those of them that a free worker could start: neither a pause nor a limit stops them.
    pub runnable: u64,
    /// Jobs that workers have.
    pub active: u64,
    pub enqueued: u64,
    /// Requests that brought them: jobs of one request come and go together, and say no more than one.
    pub pushes: u64,
    /// Attempts that succeeded.
    pub completed: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Time for which workers had its jobs, of those attempts that ended.
    pub worker_ms: u64,
}

impl Figures {
    /// Whether it wants to be served: something waits or runs.
    pub fn contends(&self) -> bool {
        self.depth + self.active > 0
    }

    /// Attempts that ended.
    pub fn ended(&self) -> u64 {
        self.completed + self.failed
    }

    /// All but another's.
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
    /// What it weighs, before any throttle.
    pub weight: Weight,
    pub figures: Figures,
}

impl TenantFigures {
    pub(super) fn share(&self) -> f64 {
        self.weight.as_f64().max(Weight::LEAST.as_f64())
    }
}

/// Tenants at one moment: the busiest, and of the others as many as make a fair sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    pub now: i64,
    /// How long the window is of which figures are told.
    pub span: u64,
    /// All tenants that have jobs or did something, seen here or not.
    pub tenants: u64,
    /// Those that have jobs which wait or run.
    pub contenders: u64,
    /// What all of them together have and did.
    pub total: Figures,
    pub seen: Vec<TenantFigures>,
    /// Who was drawn by lot, as places in `seen`: the queue depth in the middle is theirs.
    pub sample: Vec<usize>,
}

impl Snapshot {
    /// A snapshot of all tenants.
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

    /// A tenant of the snapshot.
    pub fn find(&self, id: &str) -> Option<&TenantFigures> {
        self.seen.iter().find(|seen| seen.id == id)
    }

    /// The part of what workers do that a tenant would have by weight, if it wanted to be served.
    pub fn expected_share(&self, id: &str) -> Option<f64> {
        let seen = self.find(id)?;
        let others = self.contending_weight() - if seen.figures.contends() { seen.share() } else { 0.0 };
        Some(seen.share() / (others + seen.share()))
    }

    /// Weights of all who want to be served. Those that are not seen count with the usual weight.
    pub(super) fn contending_weight(&self) -> f64 {
        let seen: Vec<&TenantFigures> = self.seen.iter().filter(|seen| seen.figures.contends()).collect();
        let unseen = self.contenders.saturating_sub(seen.len() as u64) as f64;
        seen.iter().map(|seen| seen.share()).sum::<f64>() + unseen * Weight::ONE.as_f64()
    }

    /// The same of all tenants.
    pub(super) fn weight(&self) -> f64 {
        let unseen = self.tenants.saturating_sub(self.seen.len() as u64) as f64;
        self.seen.iter().map(TenantFigures::share).sum::<f64>() + unseen * Weight::ONE.as_f64()
    }

    /// The queue depth in the middle of all others, by weight.
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

    /// A tenant's part of what workers do: of the time they spent, or of what they have in hand where nothing ended yet.
    pub(super) fn served_share(&self, figures: &Figures) -> f64 {
        if self.total.worker_ms > 0 {
            part(figures.worker_ms, self.total.worker_ms)
        } else {
            part(figures.active, self.total.active)
        }
    }
}

/// A part of a whole, 0 of nothing.
pub(super) fn part(of: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { of as f64 / whole as f64 }
}
