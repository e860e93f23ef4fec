//! Who is noisy, by which signal, and at whose cost.
//!
//! All figures count by weight: who may have twice as much may also do twice as much. A tenant is compared with the *others*; an
//! average that it is part of itself could never show it among five.

use super::snapshot::{Snapshot, TenantFigures, part};
use super::{Figures, NoisyNeighbors};
use serde::{Deserialize, Serialize};

/// A throttle needs figures that equal tenants show by luck with a chance below e⁻²⁰, about one in 500 million: every tenant is
/// looked at every few seconds.
const NATS: f64 = 20.0;
/// A verdict needs less, a chance of one in 20: two of three workers with jobs of one tenant say nothing.
const VERDICT_NATS: f64 = 3.0;
/// Whoever has more than its fair share by these odds hogs it. Equal tenants never share exactly, least of all where each of them
/// brings its jobs in batches: 4 means 80 % where half would be fair, and half where a fifth would be.
const HOGS: f64 = 4.0;
/// Who has less than this of its fair share goes short.
const SHORT: f64 = 0.9;
/// Nobody's errors are compared with fewer than these.
const USUAL_ERRORS: f64 = 0.01;
/// Tenants named as hurt.
const MOST_HURT: usize = 5;

/// What tells a noisy neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    QueueDepthRatio,
    EnqueueRateRatio,
    ActiveRatio,
    ErrorRateRatio,
    WorkerTimeRatio,
}

impl Signal {
    /// All of them; the first that speaks is the reason given.
    pub const ALL: [Signal; 5] = [
        Signal::QueueDepthRatio,
        Signal::EnqueueRateRatio,
        Signal::ActiveRatio,
        Signal::ErrorRateRatio,
        Signal::WorkerTimeRatio,
    ];

    /// Its name, which is that of its threshold.
    pub fn name(self) -> &'static str {
        match self {
            Signal::QueueDepthRatio => "queue_depth_ratio",
            Signal::EnqueueRateRatio => "enqueue_rate_ratio",
            Signal::ActiveRatio => "active_ratio",
            Signal::ErrorRateRatio => "error_rate_ratio",
            Signal::WorkerTimeRatio => "worker_time_ratio",
        }
    }

    /// As events give it for a reason.
    pub fn reason(self) -> String {
        format!("{}_exceeded", self.name())
    }
}

/// What one signal says: the figure, what it is compared with, how they relate, and from where on that is too much.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    pub signal: Signal,
    pub value: f64,
    pub compared_with: f64,
    pub ratio: f64,
    pub threshold: f64,
    /// Whether luck is ruled out, so that a throttle may be founded on it.
    #[serde(default)]
    pub conclusive: bool,
}

/// A tenant with jobs that could run if a worker were free.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HarmedTenant {
    pub tenant_id: String,
    /// Its jobs that wait.
    pub waiting: u64,
    /// Its part of the workers' time, and what would be fair by weight.
    pub share: f64,
    pub fair_share: f64,
    /// What it goes short of, as a part of the workers' time.
    pub lost: f64,
}

/// That a tenant is noisy, with evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Detection {
    pub tenant_id: String,
    /// The signals that speak against it, the reason first.
    pub evidence: Vec<Evidence>,
    pub share: f64,
    pub fair_share: f64,
    /// Those that are hurt most.
    pub hurt: Vec<HarmedTenant>,
    /// How many others have jobs that could run if a worker were free, seen here.
    pub waiting_tenants: u64,
    /// What those that go short lose together, as a part of the workers' time.
    pub lost: f64,
}

impl Detection {
    /// The signal that is given as the reason.
    pub fn reason(&self) -> Signal {
        self.evidence.first().map_or(Signal::QueueDepthRatio, |evidence| evidence.signal)
    }

    /// The signal on which a throttle may be founded; none if no one else could use the workers, or it may be luck.
    pub fn throttle_reason(&self) -> Option<Signal> {
        let conclusive = self.evidence.iter().find(|evidence| evidence.conclusive)?;
        (self.waiting_tenants > 0).then_some(conclusive.signal)
    }

    /// How far the worst signal is beyond its threshold.
    pub fn severity(&self) -> f64 {
        self.evidence.iter().map(|evidence| evidence.ratio / evidence.threshold).fold(0.0, f64::max)
    }
}

impl Snapshot {
    /// All who are noisy, the worst first.
    pub fn detect(&self, config: &NoisyNeighbors) -> Vec<Detection> {
        let mut verdicts: Vec<Detection> =
            self.seen.iter().filter_map(|seen| self.detect_one(config, seen, 1.0)).collect();
        verdicts.sort_by(|left, right| right.severity().total_cmp(&left.severity()));
        verdicts
    }

    /// Whether a tenant is noisy where thresholds are multiplied by `scale`: below 1 for one that was noisy before.
    pub fn detect_one(&self, config: &NoisyNeighbors, seen: &TenantFigures, scale: f64) -> Option<Detection> {
        // A tenant alone has no neighbours.
        if self.tenants < 2 {
            return None;
        }
        // If all that could run is its own, nobody else waits for a worker: their jobs are paused, or wait for limits.
        let others_could_run = self.total.runnable > seen.figures.runnable;
        let waits = |other: &&TenantFigures| others_could_run && other.id != seen.id && other.figures.runnable > 0;
        let waiting_tenants = self.seen.iter().filter(waits).count() as u64;
        let fair_share = self.fair_share(seen);
        let mut hurt: Vec<HarmedTenant> = self.seen.iter().filter(waits).map(|other| self.hurt(other)).collect();
        hurt.sort_by(|left, right| right.lost.total_cmp(&left.lost).then(right.waiting.cmp(&left.waiting)));
        let lost: f64 = hurt.iter().map(|hurt| hurt.lost).sum();
        hurt.truncate(MOST_HURT);
        let assessment = Assessment { config, snapshot: self, seen, fair_share, lost, scale };
        let evidence: Vec<Evidence> = Signal::ALL.iter().filter_map(|signal| assessment.hear(*signal)).collect();
        let [share, fair_share, lost] = [self.served_share(&seen.figures), fair_share, lost].map(rounded);
        let tenant_id = seen.id.clone();
        (!evidence.is_empty()).then_some(Detection {
            tenant_id,
            evidence,
            share,
            fair_share,
            hurt,
            waiting_tenants,
            lost,
        })
    }

    fn fair_share(&self, seen: &TenantFigures) -> f64 {
        seen.share() / self.contending_weight().max(seen.share())
    }

    fn hurt(&self, other: &TenantFigures) -> HarmedTenant {
        let (share, fair_share) = (self.served_share(&other.figures), self.fair_share(other));
        let lost = if share < fair_share * SHORT { fair_share - share } else { 0.0 };
        let [share, fair_share, lost] = [share, fair_share, lost].map(rounded);
        HarmedTenant { tenant_id: other.id.clone(), waiting: other.figures.depth, share, fair_share, lost }
    }
}

/// One tenant before its neighbours.
struct Assessment<'a> {
    config: &'a NoisyNeighbors,
    snapshot: &'a Snapshot,
    seen: &'a TenantFigures,
    fair_share: f64,
    lost: f64,
    scale: f64,
}

/// A figure beside what it is compared with.
struct Comparison {
    value: f64,
    compared_with: f64,
    threshold: f64,
    conclusive: bool,
}

impl Assessment<'_> {
    fn hear(&self, signal: Signal) -> Option<Evidence> {
        let Comparison { value, compared_with, threshold, conclusive } = match signal {
            Signal::QueueDepthRatio => self.queue_depth()?,
            Signal::EnqueueRateRatio => self.enqueue_rate()?,
            Signal::ActiveRatio => self.active()?,
            Signal::ErrorRateRatio => self.error_rate()?,
            Signal::WorkerTimeRatio => self.worker_time()?,
        };
        let ratio = value / compared_with;
        let [value, compared_with, told] = [value, compared_with, ratio].map(rounded);
        let evidence = Evidence { signal, value, compared_with, ratio: told, threshold, conclusive };
        (ratio > threshold * self.scale).then_some(evidence)
    }

    fn figures(&self) -> &Figures {
        &self.seen.figures
    }

    fn others(&self) -> Figures {
        self.snapshot.total.without(self.figures())
    }

    /// What others enqueue on average, for each unit of weight.
    fn usual_enqueues(&self) -> f64 {
        let weight = self.snapshot.weight() - self.seen.share();
        if weight <= 0.0 { 0.0 } else { self.others().enqueued as f64 / weight }
    }

    fn is_many(&self, jobs: u64) -> bool {
        jobs as f64 >= self.config.min_jobs as f64 * self.scale
    }

    /// What waits, against the middle of the others. Who enqueues seldom and much at a time is compared with what others bring in
    /// a window, or each of equal tenants would be noisy in its turn.
    fn queue_depth(&self) -> Option<Comparison> {
        let usual = self.snapshot.median_depth(&self.seen.id).max(self.usual_enqueues()).max(1.0);
        let depth = self.figures().depth;
        self.is_many(depth).then_some(Comparison {
            value: depth as f64 / self.seen.share(),
            compared_with: usual,
            threshold: self.config.queue_depth_ratio,
            conclusive: true,
        })
    }

    /// Jobs a second, against the average of the others.
    fn enqueue_rate(&self) -> Option<Comparison> {
        let seconds = self.snapshot.span.max(1) as f64 / 1e3;
        let enqueued = self.figures().enqueued;
        // Others that enqueue nothing at all are compared with as if all of them together had brought one job.
        let usual = self.usual_enqueues().max(1.0 / self.snapshot.tenants.max(1) as f64);
        self.is_many(enqueued).then_some(Comparison {
            value: enqueued as f64 / self.seen.share() / seconds,
            compared_with: usual / seconds,
            threshold: self.config.enqueue_rate_ratio,
            conclusive: self.burdens(),
        })
    }

    /// Whether more than its fair part of all that waits or runs is its own. Who goes on as ever beside a backlog of another's,
    /// which has fallen silent, enqueues more than that one and burdens nobody.
    fn burdens(&self) -> bool {
        let (own, all) = (self.figures(), &self.snapshot.total);
        part(own.depth + own.active, all.depth + all.active) > self.fair_share
    }

    /// What workers have in hand of it. Of three workers, each may have a job of the same tenant by chance: then what they had before
    /// has to say the same.
    fn active(&self) -> Option<Comparison> {
        let (own, all) = (self.figures(), &self.snapshot.total);
        let (share, handed_out) = (part(own.active, all.active), all.active + all.ended());
        let had = part(own.active + own.ended(), handed_out);
        let sure = self.is_sure(share, all.active) || self.hogs(had) && self.is_sure(had, handed_out);
        self.share_of(share, all.active, self.config.active_ratio, sure)
    }

    fn error_rate(&self) -> Option<Comparison> {
        let (own, others) = (self.figures(), self.others());
        let rate = part(own.failed, own.ended());
        let usual = part(others.failed, others.ended()).max(USUAL_ERRORS);
        let nats = own.ended() as f64 * divergence(rate, usual);
        (nats >= VERDICT_NATS * self.scale).then_some(Comparison {
            value: rate,
            compared_with: usual,
            threshold: self.config.error_rate_ratio,
            conclusive: self.figures().contends() && nats >= NATS * self.scale,
        })
    }

    fn worker_time(&self) -> Option<Comparison> {
        let all = &self.snapshot.total;
        let share = part(self.figures().worker_ms, all.worker_ms);
        self.share_of(share, all.ended(), self.config.worker_time_ratio, self.is_sure(share, all.ended()))
    }

    /// A share of all jobs that is above the fair one.
    fn share_of(&self, share: f64, jobs: u64, threshold: f64, sure: bool) -> Option<Comparison> {
        let likely = jobs as f64 * divergence(share, self.fair_share) >= VERDICT_NATS * self.scale;
        let conclusive = sure && self.hogs(share);
        (likely || conclusive).then_some(Comparison { value: share, compared_with: 1.0, threshold, conclusive })
    }

    /// Whether a share is far above the fair one, while others go short.
    fn hogs(&self, share: f64) -> bool {
        let odds = |share: f64| share / (1.0 - share).max(f64::EPSILON);
        self.lost > 0.0 && odds(share) > odds(self.fair_share) * (1.0 + (HOGS - 1.0) * self.scale)
    }

    fn is_sure(&self, share: f64, jobs: u64) -> bool {
        let trials = jobs.min(self.snapshot.total.pushes) as f64;
        share > self.fair_share && trials * divergence(share, self.fair_share) >= NATS * self.scale
    }
}

/// A figure as people read it, which is the same after it was written and read.
fn rounded(figure: f64) -> f64 {
    (figure * 1e6).round() / 1e6
}

/// How much less likely a share is than the expected one, for each assessment (Kullback and Leibler, in nats). By Chernoff, n trials
/// show it by luck with a chance of at most e^(−n·divergence). 0 where the share is not above what is expected.
fn divergence(share: f64, expected: f64) -> f64 {
    if share <= expected || expected >= 1.0 {
        return 0.0;
    }
    let term = |p: f64, q: f64| if p <= 0.0 { 0.0 } else { p * (p / q).ln() };
    term(share, expected) + term(1.0 - share, 1.0 - expected)
}
