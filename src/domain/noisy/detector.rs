//! Detection of noisy tenants: by which signals, and which other tenants they harm.
//!
//! All figures are divided by weight: a tenant with twice the weight may do twice as much. A tenant
//! is compared with the *other* tenants. It could never stand out from an average of five tenants
//! that includes itself.

use super::snapshot::{Snapshot, TenantFigures, part};
use super::{Figures, NoisyNeighbors};
use serde::{Deserialize, Serialize};

/// Evidence required for a throttle, in nats. Equal tenants show such figures by chance with a
/// probability below e⁻²⁰, about one in 500 million; every tenant is checked every few seconds.
const NATS: f64 = 20.0;
/// Evidence required for a detection, a chance of one in 20. Without it, two of three workers with
/// jobs of one tenant would count.
const VERDICT_NATS: f64 = 3.0;
/// A tenant hogs a resource if the odds of its share exceed those of its fair share by this factor.
/// Equal tenants never share exactly, least of all if each of them enqueues in batches. A factor of
/// 4 means a share of 80 % instead of 50 %, or of 50 % instead of 20 %.
const HOGS: f64 = 4.0;
/// A tenant with less than this part of its fair share is harmed.
const SHORT: f64 = 0.9;
/// Lower bound of the error rate with which a tenant is compared.
const USUAL_ERRORS: f64 = 0.01;
/// Maximum number of harmed tenants in a detection.
const MOST_HURT: usize = 5;

/// A signal that identifies a noisy neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoiseSignal {
    QueueDepthRatio,
    EnqueueRateRatio,
    ActiveRatio,
    ErrorRateRatio,
    WorkerTimeRatio,
}

impl NoiseSignal {
    /// All signals in order of precedence: the first one that applies is reported as the reason.
    pub const ALL: [NoiseSignal; 5] = [
        NoiseSignal::QueueDepthRatio,
        NoiseSignal::EnqueueRateRatio,
        NoiseSignal::ActiveRatio,
        NoiseSignal::ErrorRateRatio,
        NoiseSignal::WorkerTimeRatio,
    ];

    /// Returns the name, which is also that of its threshold.
    pub fn name(self) -> &'static str {
        match self {
            NoiseSignal::QueueDepthRatio => "queue_depth_ratio",
            NoiseSignal::EnqueueRateRatio => "enqueue_rate_ratio",
            NoiseSignal::ActiveRatio => "active_ratio",
            NoiseSignal::ErrorRateRatio => "error_rate_ratio",
            NoiseSignal::WorkerTimeRatio => "worker_time_ratio",
        }
    }

    /// Returns the reason that events report.
    pub fn reason(self) -> String {
        format!("{}_exceeded", self.name())
    }
}

/// The evidence of one signal: the tenant's figure, the figure it is compared with, their ratio,
/// and the threshold of the ratio.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    pub signal: NoiseSignal,
    pub value: f64,
    pub compared_with: f64,
    pub ratio: f64,
    pub threshold: f64,
    /// True if chance is ruled out, so that the evidence justifies a throttle.
    #[serde(default)]
    pub conclusive: bool,
}

/// A tenant with jobs that could run if a worker were free.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HarmedTenant {
    pub tenant_id: String,
    /// Number of its waiting jobs.
    pub waiting: u64,
    /// Its part of the workers' time; `fair_share` is the fair part by weight.
    pub share: f64,
    pub fair_share: f64,
    /// The part of the workers' time that it is short of.
    pub lost: f64,
}

/// A detected noisy tenant, with evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Detection {
    pub tenant_id: String,
    /// The signals that exceed their thresholds, the reason first.
    pub evidence: Vec<Evidence>,
    pub share: f64,
    pub fair_share: f64,
    /// The tenants that are harmed most.
    pub hurt: Vec<HarmedTenant>,
    /// Number of other tenants, as far as they are in the snapshot, with jobs that could run if a
    /// worker were free.
    pub waiting_tenants: u64,
    /// The sum of what harmed tenants lose, as a part of the workers' time.
    pub lost: f64,
}

impl Detection {
    /// Returns the signal that is reported as the reason.
    pub fn reason(&self) -> NoiseSignal {
        self.evidence.first().map_or(NoiseSignal::QueueDepthRatio, |evidence| evidence.signal)
    }

    /// Returns the signal that justifies a throttle; `None` if no other tenant could use the
    /// workers, or the figures may be due to chance.
    pub fn throttle_reason(&self) -> Option<NoiseSignal> {
        let conclusive = self.evidence.iter().find(|evidence| evidence.conclusive)?;
        (self.waiting_tenants > 0).then_some(conclusive.signal)
    }

    /// Returns the ratio of the worst signal to its threshold.
    pub fn severity(&self) -> f64 {
        self.evidence.iter().map(|evidence| evidence.ratio / evidence.threshold).fold(0.0, f64::max)
    }
}

impl Snapshot {
    /// Returns all noisy tenants, the worst first.
    pub fn detect(&self, config: &NoisyNeighbors) -> Vec<Detection> {
        let mut verdicts: Vec<Detection> =
            self.seen.iter().filter_map(|seen| self.detect_one(config, seen, 1.0)).collect();
        verdicts.sort_by(|left, right| right.severity().total_cmp(&left.severity()));
        verdicts
    }

    /// Checks if a tenant is noisy by thresholds multiplied by `scale`, which is below 1 for a
    /// tenant that was noisy before.
    pub fn detect_one(&self, config: &NoisyNeighbors, seen: &TenantFigures, scale: f64) -> Option<Detection> {
        // A single tenant has no neighbours.
        if self.tenants < 2 {
            return None;
        }
        // If all runnable jobs are its own, no other tenant waits for a worker: the other jobs are
        // paused or wait for limits.
        let others_could_run = self.total.runnable > seen.figures.runnable;
        let waits = |other: &&TenantFigures| others_could_run && other.id != seen.id && other.figures.runnable > 0;
        let waiting_tenants = self.seen.iter().filter(waits).count() as u64;
        let fair_share = self.fair_share(seen);
        let mut hurt: Vec<HarmedTenant> = self.seen.iter().filter(waits).map(|other| self.hurt(other)).collect();
        hurt.sort_by(|left, right| right.lost.total_cmp(&left.lost).then(right.waiting.cmp(&left.waiting)));
        let lost: f64 = hurt.iter().map(|hurt| hurt.lost).sum();
        hurt.truncate(MOST_HURT);
        let assessment = Assessment { config, snapshot: self, seen, fair_share, lost, scale };
        let evidence: Vec<Evidence> = NoiseSignal::ALL.iter().filter_map(|signal| assessment.assess(*signal)).collect();
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

/// One tenant that is compared with the others.
struct Assessment<'a> {
    config: &'a NoisyNeighbors,
    snapshot: &'a Snapshot,
    seen: &'a TenantFigures,
    fair_share: f64,
    lost: f64,
    scale: f64,
}

/// A figure and the figure it is compared with.
struct Comparison {
    value: f64,
    compared_with: f64,
    threshold: f64,
    conclusive: bool,
}

impl Assessment<'_> {
    fn assess(&self, signal: NoiseSignal) -> Option<Evidence> {
        let Comparison { value, compared_with, threshold, conclusive } = match signal {
            NoiseSignal::QueueDepthRatio => self.queue_depth()?,
            NoiseSignal::EnqueueRateRatio => self.enqueue_rate()?,
            NoiseSignal::ActiveRatio => self.active()?,
            NoiseSignal::ErrorRateRatio => self.error_rate()?,
            NoiseSignal::WorkerTimeRatio => self.worker_time()?,
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

    /// Returns the average enqueues of the others per unit of weight.
    fn usual_enqueues(&self) -> f64 {
        let weight = self.snapshot.weight() - self.seen.share();
        if weight <= 0.0 { 0.0 } else { self.others().enqueued as f64 / weight }
    }

    fn is_many(&self, jobs: u64) -> bool {
        jobs as f64 >= self.config.min_jobs as f64 * self.scale
    }

    /// Compares the queue depth with the median of the others, or with their average enqueues
    /// within a window if that is more. Otherwise each of several equal tenants that enqueue seldom
    /// and in large batches would be noisy in turn.
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

    /// Compares the enqueues per second with the average of the others.
    fn enqueue_rate(&self) -> Option<Comparison> {
        let seconds = self.snapshot.span.max(1) as f64 / 1e3;
        let enqueued = self.figures().enqueued;
        // If the others enqueue nothing, assume that all of them together enqueued one job.
        let usual = self.usual_enqueues().max(1.0 / self.snapshot.tenants.max(1) as f64);
        self.is_many(enqueued).then_some(Comparison {
            value: enqueued as f64 / self.seen.share() / seconds,
            compared_with: usual / seconds,
            threshold: self.config.enqueue_rate_ratio,
            conclusive: self.burdens(),
        })
    }

    /// Returns true if more than the tenant's fair part of all waiting and active jobs is its own.
    /// A tenant that goes on as usual while another one has a backlog and has stopped enqueuing has
    /// a higher rate than that one, but harms no one.
    fn burdens(&self) -> bool {
        let (own, all) = (self.figures(), &self.snapshot.total);
        part(own.depth + own.active, all.depth + all.active) > self.fair_share
    }

    /// Compares the tenant's part of the active jobs. With three workers, each of them may have a
    /// job of the same tenant by chance; then the jobs that ended within the window have to confirm
    /// it.
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

    /// Evaluates a share of `jobs` jobs that is above the fair share.
    fn share_of(&self, share: f64, jobs: u64, threshold: f64, sure: bool) -> Option<Comparison> {
        let likely = jobs as f64 * divergence(share, self.fair_share) >= VERDICT_NATS * self.scale;
        let conclusive = sure && self.hogs(share);
        (likely || conclusive).then_some(Comparison { value: share, compared_with: 1.0, threshold, conclusive })
    }

    /// Returns true if a share is far above the fair share while other tenants are harmed.
    fn hogs(&self, share: f64) -> bool {
        let odds = |share: f64| share / (1.0 - share).max(f64::EPSILON);
        self.lost > 0.0 && odds(share) > odds(self.fair_share) * (1.0 + (HOGS - 1.0) * self.scale)
    }

    fn is_sure(&self, share: f64, jobs: u64) -> bool {
        let trials = jobs.min(self.snapshot.total.pushes) as f64;
        share > self.fair_share && trials * divergence(share, self.fair_share) >= NATS * self.scale
    }
}

/// Rounds a figure for people, so that it also survives serialization unchanged.
fn rounded(figure: f64) -> f64 {
    (figure * 1e6).round() / 1e6
}

/// Returns the Kullback-Leibler divergence of a share from the expected share, in nats; 0 if the
/// share is not above the expected one. By the Chernoff bound, n trials show such a share by chance
/// with a probability of at most e^(−n·divergence).
fn divergence(share: f64, expected: f64) -> f64 {
    if share <= expected || expected >= 1.0 {
        return 0.0;
    }
    let term = |p: f64, q: f64| if p <= 0.0 { 0.0 } else { p * (p / q).ln() };
    term(share, expected) + term(1.0 - share, 1.0 - expected)
}
