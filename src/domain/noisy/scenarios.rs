//! Twenty scenarios with known noisy tenants: a simulation of tenants, queues and workers, checked
//! every five seconds by the same `detect` and `decide` that run in production. Jobs are served
//! first come, first served, so that a noisy tenant affects the others.

use super::*;
use crate::domain::tenant::Weight;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const STEP: i64 = 250;
const LOOK: i64 = 5000;
const MINUTE: i64 = 60_000;

/// Splitmix64: a reproducible random number generator.
struct Dice(u64);

impl Dice {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 11) as f64) / (1u64 << 53) as f64
    }

    /// Draws from a Poisson distribution.
    fn poisson(&mut self, mean: f64) -> u64 {
        let (limit, mut product, mut count) = ((-mean).exp(), self.unit(), 0);
        while product > limit {
            product *= self.unit();
            count += 1;
        }
        count
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

/// The behaviour of a tenant. Rates are batches per second, durations seconds.
#[derive(Clone)]
struct Habit {
    rate: f64,
    batch: u64,
    duration: f64,
    errors: f64,
    weight: f64,
    from: i64,
    until: i64,
}

fn calm() -> Habit {
    Habit { rate: 0.4, batch: 1, duration: 1.0, errors: 0.02, weight: 1.0, from: 0, until: i64::MAX }
}

fn bursty() -> Habit {
    Habit { rate: 0.02, batch: 20, ..calm() }
}

/// A flood from the fifth minute to the tenth.
fn flood(rate: f64) -> Habit {
    Habit { rate, from: 5 * MINUTE, until: 10 * MINUTE, ..calm() }
}

struct World {
    habits: Vec<Habit>,
    workers: usize,
    dice: Dice,
    now: i64,
    queue: VecDeque<usize>,
    running: Vec<(usize, i64, i64)>,
    buckets: BTreeMap<(i64, usize), Figures>,
}

impl World {
    fn did(&mut self, tenant: usize) -> &mut Figures {
        self.buckets.entry((self.now / MINUTE, tenant)).or_default()
    }

    fn step(&mut self) {
        self.now += STEP;
        for tenant in 0..self.habits.len() {
            let habit = self.habits[tenant].clone();
            if (habit.from..habit.until).contains(&self.now) {
                let pushes = self.dice.poisson(habit.rate * STEP as f64 / 1e3);
                let jobs = pushes * habit.batch;
                self.did(tenant).pushes += pushes;
                self.did(tenant).enqueued += jobs;
                (0..jobs).for_each(|_| self.queue.push_back(tenant));
            }
        }
        let (now, running) = (self.now, std::mem::take(&mut self.running));
        let (ended, running): (Vec<_>, Vec<_>) = running.into_iter().partition(|(_, _, ends)| *ends <= now);
        self.running = running;
        for (tenant, started, _) in ended {
            let fails = self.dice.unit() < self.habits[tenant].errors;
            let did = self.did(tenant);
            did.worker_ms += (now - started) as u64;
            if fails { did.failed += 1 } else { did.completed += 1 }
        }
        while self.running.len() < self.workers {
            let Some(tenant) = self.queue.pop_front() else { break };
            let takes = self.dice.exponential(self.habits[tenant].duration).max(0.05);
            self.running.push((tenant, now, now + (takes * 1e3) as i64));
        }
    }

    fn snapshot(&self, window: u64) -> Snapshot {
        let first = self.now / MINUTE - (window as i64 / MINUTE - 1);
        let mut seen: Vec<TenantFigures> = self
            .habits
            .iter()
            .enumerate()
            .map(|(tenant, habit)| {
                let mut figures = Figures::default();
                for (_, did) in self.buckets.range((first, 0)..).filter(|((_, of), _)| *of == tenant) {
                    figures.enqueued += did.enqueued;
                    figures.pushes += did.pushes;
                    figures.completed += did.completed;
                    figures.failed += did.failed;
                    figures.worker_ms += did.worker_ms;
                }
                figures.active = self.running.iter().filter(|(of, ..)| *of == tenant).count() as u64;
                TenantFigures { id: format!("t{tenant}"), weight: Weight::of(habit.weight).unwrap(), figures }
            })
            .collect();
        for tenant in &self.queue {
            seen[*tenant].figures.depth += 1;
            seen[*tenant].figures.runnable += 1;
        }
        // A tenant without jobs and activity is unknown to the store.
        seen.retain(|seen| seen.figures != Figures::default());
        Snapshot::of_all(self.now, (self.now - first * MINUTE) as u64, seen)
    }
}

/// Returns the tenants that were throttled within 20 minutes, with the reasons, and the number of
/// those that are throttled at the end.
fn afternoon(
    seed: u64,
    workers: usize,
    habits: Vec<Habit>,
    config: &NoisyNeighbors,
) -> (BTreeMap<String, BTreeSet<String>>, usize) {
    let (queue, running, buckets) = Default::default();
    let mut world = World { habits, workers, dice: Dice(seed), now: 0, queue, running, buckets };
    let (mut standings, mut throttled) = (BTreeMap::<String, NoisyState>::new(), BTreeMap::new());
    while world.now < 20 * MINUTE {
        world.step();
        if world.now % LOOK != 0 {
            continue;
        }
        for step in decide(config, &world.snapshot(config.window), &standings) {
            if step.throttled {
                let throttle = step.standing.as_ref().and_then(|standing| standing.throttle.clone()).unwrap();
                assert_eq!(throttle.until - world.now, config.duration as i64);
                throttled.entry(step.tenant_id.clone()).or_insert_with(BTreeSet::new).insert(throttle.reason);
            }
            match step.standing {
                Some(standing) => _ = standings.insert(step.tenant_id, standing),
                None => _ = standings.remove(&step.tenant_id),
            }
        }
    }
    (throttled, standings.values().filter(|standing| standing.is_throttled()).count())
}

/// Runs a scenario and checks that exactly the given tenants are noisy, each with the given reason
/// among its reasons.
fn scenario(seed: u64, workers: usize, habits: Vec<Habit>, noisy: &[(usize, NoiseSignal)]) {
    let config = NoisyNeighbors { action: Action::WeightReduced, ..NoisyNeighbors::default() };
    let (throttled, left) = afternoon(seed, workers, habits, &config);
    let names: Vec<String> = noisy.iter().map(|(tenant, _)| format!("t{tenant}")).collect();
    assert_eq!(throttled.keys().collect::<BTreeSet<_>>(), names.iter().collect(), "{throttled:?}");
    for (name, (_, signal)) in names.iter().zip(noisy) {
        assert!(throttled[name].contains(&signal.reason()), "{name}: {:?}", throttled[name]);
    }
    assert!(left <= noisy.len());
}

fn with(mut habits: Vec<Habit>, noisy: Habit) -> Vec<Habit> {
    habits[0] = noisy;
    habits
}

macro_rules! scenarios {
    ($($name:ident: $seed:literal, $workers:literal, $habits:expr, $noisy:expr;)+) => {
        $(#[test]
        fn $name() {
            scenario($seed, $workers, $habits, &$noisy);
        })+
    };
}

use NoiseSignal::*;

scenarios! {
    // Scenarios with noisy tenants.
    one_of_five_floods: 1, 4, with(vec![calm(); 5], flood(40.0)), [(0, QueueDepthRatio)];
    one_of_two_floods: 2, 2, with(vec![calm(); 2], flood(40.0)), [(0, QueueDepthRatio)];
    one_of_fifty_floods: 3, 30, with(vec![calm(); 50], flood(100.0)), [(0, QueueDepthRatio)];
    one_push_of_five_thousand: 4, 4,
        with(vec![calm(); 5], Habit { rate: 0.01, batch: 5000, ..flood(0.0) }), [(0, QueueDepthRatio)];
    three_workers_and_a_flood: 5, 3, with(vec![Habit { duration: 3.0, rate: 0.2, ..calm() }; 4], flood(10.0)), [(0, QueueDepthRatio)];
    three_workers_and_long_jobs: 6, 3,
        with(vec![Habit { rate: 0.3, ..calm() }; 4], Habit { duration: 12.0, rate: 0.3, ..calm() }), [(0, WorkerTimeRatio)];
    long_jobs_hog_a_fleet: 7, 40,
        with(vec![Habit { rate: 1.0, ..calm() }; 5], Habit { duration: 60.0, rate: 1.0, ..calm() }), [(0, ActiveRatio)];
    everything_fails: 8, 4, with(vec![calm(); 10], Habit { errors: 0.9, ..calm() }), [(0, ErrorRateRatio)];
    a_heavy_tenant_may_do_more_but_not_anything: 9, 6,
        with(vec![calm(); 5], Habit { weight: 3.0, ..flood(60.0) }), [(0, QueueDepthRatio)];
    a_flood_among_bursts: 10, 5, with(vec![bursty(); 10], flood(80.0)), [(0, QueueDepthRatio)];
    fast_jobs_flood: 11, 10,
        with(vec![Habit { duration: 0.3, rate: 2.0, ..calm() }; 8], Habit { duration: 0.3, ..flood(120.0) }), [(0, EnqueueRateRatio)];
    // Scenarios without noisy tenants.
    equals_at_ease: 12, 10, vec![calm(); 10], [];
    equals_in_need: 13, 3, vec![calm(); 10], [];
    equals_with_bursts: 14, 5, vec![bursty(); 12], [];
    equals_with_long_jobs: 15, 3, vec![Habit { duration: 30.0, rate: 0.05, ..calm() }; 5], [];
    two_equals_and_three_workers: 16, 3, vec![Habit { rate: 2.0, ..calm() }; 2], [];
    equals_that_fail_alike: 17, 4, vec![Habit { errors: 0.3, ..calm() }; 20], [];
    weights_are_heeded: 18, 8, with(vec![calm(); 5], Habit { weight: 8.0, rate: 3.2, ..calm() }), [];
    alone: 19, 2, vec![flood(100.0)], [];
    all_of_them_at_once: 20, 5, vec![flood(8.0); 6], [];
}

#[test]
fn equals_never_alarm_whatever_the_dice_say() {
    let config = NoisyNeighbors { action: Action::WeightReduced, ..NoisyNeighbors::default() };
    for seed in 100..180 {
        let (workers, tenants) = (1 + (seed % 7) as usize, 2 + (seed % 5) as usize * 3);
        let habit = if seed % 2 == 0 { calm() } else { bursty() };
        let (throttled, _) = afternoon(seed, workers, vec![habit; tenants], &config);
        assert!(throttled.is_empty(), "seed {seed}: {throttled:?}");
    }
}

#[test]
fn a_flood_that_is_over_is_let_go_and_forgotten() {
    let config = NoisyNeighbors { action: Action::WeightReduced, ..NoisyNeighbors::default() };
    let (throttled, left) = afternoon(21, 40, with(vec![calm(); 5], flood(60.0)), &config);
    assert_eq!((throttled.len(), left), (1, 0));
}
