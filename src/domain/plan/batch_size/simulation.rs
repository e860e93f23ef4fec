//! Workers, a main queue and a planner in simulated time. Measures how long a quiet tenant waits
//! beside a noisy one, and how long workers are idle although jobs are staged.

use super::{DrainRate, LatencyGoal, QueueReading};
use std::collections::VecDeque;

/// Delay between a low-water report of a queue and the start of a round, in milliseconds.
const REACTION: u64 = 2;
const INTERVAL: u64 = 1000;
const HEARTBEAT: u64 = 10_000;

/// Kinds of main queues, by what they report and when.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// Reports at once that it runs low, and for how long workers found no job.
    Own,
    /// Is polled; its processes report busy threads from time to time.
    Sidekiq,
    /// Is polled; its processes do not report how many threads serve it.
    Capsules,
    /// Is polled at long intervals.
    Ojs,
}

impl Kind {
    /// Returns the time between two readings. An OJS server is read sooner if its queue was empty.
    fn every(self, is_empty: bool) -> Option<u64> {
        match self {
            Kind::Own => None,
            Kind::Sidekiq | Kind::Capsules => Some(100),
            Kind::Ojs => Some(if is_empty { 200 } else { 1000 }),
        }
    }

    fn goal(self) -> LatencyGoal {
        LatencyGoal { latency_ms: if self == Kind::Ojs { 3000 } else { 500 }, is_polled: self != Kind::Own }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Owner {
    Noisy,
    /// Pushed at that time.
    Quiet(u64),
}

struct Simulation {
    kind: Kind,
    /// The time until which each thread is busy; `free_at` is the earliest of them.
    threads: Vec<u64>,
    free_at: u64,
    run_ms: u64,
    /// Variation of run times, in percent.
    jitter: u64,
    random: u64,
    now: u64,
    noisy: u64,
    quiet: VecDeque<u64>,
    main: VecDeque<Owner>,
    deepest: usize,
    drain: DrainRate,
    low: u64,
    look_at: u64,
    taken: u64,
    idle_since: Option<u64>,
    round_at: Option<u64>,
    reported_busy: u64,
    /// The next turn is the noisy tenant's, even if a quiet tenant waits.
    noisy_turn: bool,
    waits: Vec<u64>,
    idle_thread_ms: u64,
    staged_thread_ms: u64,
}

impl Simulation {
    fn new(kind: Kind, threads: usize, run_ms: u64, jitter: u64) -> Simulation {
        Simulation {
            kind,
            threads: vec![0; threads],
            free_at: 0,
            run_ms,
            jitter,
            random: 1,
            now: 0,
            noisy: 0,
            quiet: VecDeque::new(),
            main: VecDeque::new(),
            deepest: 0,
            drain: DrainRate::default(),
            low: 1,
            look_at: 0,
            taken: 0,
            idle_since: None,
            round_at: None,
            reported_busy: 0,
            noisy_turn: true,
            waits: Vec::new(),
            idle_thread_ms: 0,
            staged_thread_ms: 0,
        }
    }

    fn is_staged(&self) -> bool {
        self.noisy > 0 || !self.quiet.is_empty()
    }

    fn push_noisy(&mut self, jobs: u64) {
        if !self.is_staged() {
            self.round_at = Some(self.now + REACTION);
        }
        self.noisy += jobs;
    }

    fn push_quiet(&mut self) {
        if !self.is_staged() {
            self.round_at = Some(self.now + REACTION);
        }
        self.quiet.push_back(self.now);
    }

    /// Advances time by `ms`. A quiet tenant pushes a job every `quiet_every` milliseconds.
    fn run(&mut self, ms: u64, quiet_every: u64) {
        for _ in 0..ms {
            self.now += 1;
            if quiet_every > 0 && self.now.is_multiple_of(quiet_every) {
                self.push_quiet();
            }
            if self.now.is_multiple_of(HEARTBEAT) {
                self.reported_busy = self.threads.iter().filter(|until| **until > self.now).count() as u64;
            }
            self.plan();
            self.work();
        }
    }

    fn plan(&mut self) {
        if !self.is_staged() {
            self.round_at = None;
            return;
        }
        let mut wanted = self.now.is_multiple_of(INTERVAL) || self.round_at.is_some_and(|at| at <= self.now);
        if self.kind != Kind::Own && self.now >= self.look_at {
            self.look();
            wanted |= (self.main.len() as u64) < self.drain.aim(self.kind.goal()).low;
        }
        if wanted {
            self.round();
        }
    }

    fn look(&mut self) {
        let spare = if self.kind == Kind::Sidekiq { self.threads.len() as u64 - self.reported_busy } else { 0 };
        let idle_ms = (self.kind == Kind::Own).then(|| self.idle_since.map_or(0, |since| self.now - since));
        let (at_ms, taken, depth) = (self.now, self.taken, self.main.len() as u64);
        self.drain.observe(QueueReading { at_ms, taken, depth, idle_ms, spare });
        self.look_at = self.now + self.kind.every(depth == 0).unwrap_or(0);
    }

    fn round(&mut self) {
        self.round_at = None;
        // A round between two readings does not query an OJS server again.
        if self.kind != Kind::Ojs || self.now >= self.look_at {
            self.look();
        }
        let aim = self.drain.aim(self.kind.goal());
        self.low = aim.low;
        let batch = aim.batch(self.main.len() as u64);
        for _ in 0..batch {
            let Some(owner) = self.pick() else { break };
            self.main.push_back(owner);
            self.idle_since = None;
        }
        self.drain.end_round(self.is_staged());
        self.deepest = self.deepest.max(self.main.len());
    }

    /// Takes turns, starting with the noisy tenant.
    fn pick(&mut self) -> Option<Owner> {
        if self.noisy > 0 && (self.noisy_turn || self.quiet.is_empty()) {
            (self.noisy, self.noisy_turn) = (self.noisy - 1, self.quiet.is_empty());
            return Some(Owner::Noisy);
        }
        self.noisy_turn = true;
        self.quiet.pop_front().map(Owner::Quiet)
    }

    fn work(&mut self) {
        let staged = self.is_staged();
        for thread in 0..self.threads.len() {
            if self.now < self.free_at {
                break;
            }
            if self.threads[thread] > self.now {
                continue;
            }
            if let Some(owner) = self.main.pop_front() {
                self.taken += 1;
                if let Owner::Quiet(since) = owner {
                    self.waits.push(self.now - since);
                }
                self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let range = self.run_ms * self.jitter / 100;
                let more = (self.random >> 33) % (2 * range + 1);
                self.threads[thread] = self.now + (self.run_ms + more - range).max(1);
            } else if staged {
                self.idle_since.get_or_insert(self.now);
                self.idle_thread_ms += 1;
            }
        }
        if self.now >= self.free_at {
            self.free_at = self.threads.iter().copied().min().unwrap_or(0);
        }
        if staged {
            self.staged_thread_ms += self.threads.len() as u64;
        }
        if self.kind == Kind::Own && staged && (self.main.len() as u64) < self.low && self.round_at.is_none() {
            self.round_at = Some(self.now + REACTION);
        }
    }

    /// Pushes single jobs, each after the previous one is done.
    fn sparse(&mut self) {
        for _ in 0..25 {
            self.push_noisy(1);
            self.run(self.longest_run() + 100, 0);
        }
    }

    /// Pushes more jobs of the noisy tenant than workers can finish.
    fn burst(&mut self) {
        self.push_noisy(1_000_000_000);
    }

    /// Advances time while quiet tenants push jobs at less than their share. Returns the longest
    /// wait of a quiet job.
    fn longest_wait_in(&mut self, ms: u64) -> u64 {
        self.waits.clear();
        self.run(ms, (4 * self.run_ms / self.threads.len() as u64).max(311));
        self.waits.iter().copied().max().expect("a quiet tenant's job was taken")
    }

    /// Advances time. Returns the share of it for which threads were idle, in percent.
    fn idle_percent_in(&mut self, ms: u64) -> f64 {
        (self.idle_thread_ms, self.staged_thread_ms) = (0, 0);
        self.run(ms, 0);
        self.idle_thread_ms as f64 * 100.0 / self.staged_thread_ms as f64
    }

    fn aim(&self) -> u64 {
        self.drain.aim(self.kind.goal()).depth
    }

    /// Returns the maximum expected wait of a quiet job: the target latency, one run, the noisy
    /// tenant's turn, and the time between two readings.
    fn wait_bound(&self) -> u64 {
        let run = self.longest_run();
        let turn = run / self.threads.len() as u64;
        self.kind.goal().latency_ms + run + turn + self.kind.every(false).unwrap_or(REACTION)
    }

    /// Returns the maximum expected depth of the main queue: the jobs that workers start at once
    /// and within the target latency.
    fn depth_bound(&self) -> usize {
        let shortest = self.run_ms * (100 - self.jitter) / 100;
        self.threads.len() + (self.threads.len() as u64 * self.kind.goal().latency_ms).div_ceil(shortest) as usize
    }

    fn longest_run(&self) -> u64 {
        self.run_ms * (100 + self.jitter) / 100
    }
}

const KINDS: [Kind; 4] = [Kind::Own, Kind::Sidekiq, Kind::Capsules, Kind::Ojs];
/// Number of threads and run time of their jobs, in milliseconds.
const CREWS: [(usize, u64); 7] = [(1, 500), (4, 500), (4, 5000), (4, 50), (20, 50), (4, 5), (50, 1000)];
const JITTERS: [u64; 2] = [0, 30];
const MINUTE: u64 = 60_000;
/// An OJS server is polled so seldom that a new rate takes this long to show, in milliseconds.
const OJS_SETTLES_IN: u64 = 15_000;

fn simulations() -> impl Iterator<Item = (Simulation, String)> {
    let crews = || CREWS.into_iter().flat_map(|crew| JITTERS.map(|jitter| (crew, jitter)));
    let all = KINDS.into_iter().flat_map(move |kind| crews().map(move |(crew, jitter)| (kind, crew, jitter)));
    all.map(|(kind, (threads, run_ms), jitter)| {
        let name = format!("{kind:?}, {threads} threads, {run_ms} ms ± {jitter} %");
        (Simulation::new(kind, threads, run_ms, jitter), name)
    })
}

#[test]
fn a_quiet_tenant_waits_for_the_target_latency_and_one_run_at_most() {
    for (mut simulation, name) in simulations() {
        simulation.sparse();
        assert!(simulation.deepest <= 1, "{name}: {} jobs waited one by one", simulation.deepest);
        simulation.burst();
        let (wait, bound) = (simulation.longest_wait_in(2 * MINUTE), simulation.wait_bound());
        assert!(wait <= bound, "{name}: waited {wait} ms, more than {bound}");
        let (deepest, bound) = (simulation.deepest, simulation.depth_bound());
        assert!(deepest <= bound, "{name}: {deepest} jobs in the main queue, more than {bound}");
    }
}

#[test]
fn workers_are_idle_for_one_percent_of_the_time_at_most() {
    for (cold, name) in simulations() {
        let mut warm = Simulation::new(cold.kind, cold.threads.len(), cold.run_ms, cold.jitter);
        warm.sparse();
        for mut simulation in [cold, warm] {
            simulation.burst();
            simulation.run(if simulation.kind == Kind::Ojs { OJS_SETTLES_IN } else { 0 }, 0);
            let idle = simulation.idle_percent_in(2 * MINUTE);
            assert!(idle <= 1.0, "{name}: idle for {idle} % of the time");
        }
    }
}

#[test]
fn workers_may_become_ten_times_as_fast_and_slow_again() {
    for (mut simulation, name) in simulations().filter(|(simulation, _)| simulation.run_ms >= 10) {
        simulation.burst();
        simulation.run(MINUTE, 0);
        let slow = simulation.run_ms;
        simulation.run_ms = slow / 10;
        simulation.run(if simulation.kind == Kind::Ojs { OJS_SETTLES_IN } else { 0 }, 0);
        let idle = simulation.idle_percent_in(MINUTE);
        assert!(idle <= 1.0, "{name}: idle for {idle} % of the time when ten times as fast");
        simulation.run_ms = slow;
        // Jobs that were promoted for fast workers stay in the main queue, but no more are added.
        simulation.run(3 * simulation.kind.goal().latency_ms + simulation.longest_run(), 0);
        let (aim, bound) = (simulation.aim(), simulation.depth_bound() as u64);
        assert!(aim <= bound, "{name}: aims at {aim} jobs when slow again, more than {bound}");
        simulation.run(MINUTE, 0);
        let (wait, bound) = (simulation.longest_wait_in(MINUTE), simulation.wait_bound());
        assert!(wait <= bound, "{name}: waited {wait} ms when slow again, more than {bound}");
    }
}

#[test]
fn the_aim_follows_a_change_of_any_size() {
    for (threads, slow, fast) in [(5, 1000, 1), (1, 1000, 20), (2, 1000, 1)] {
        let mut simulation = Simulation::new(Kind::Own, threads, slow, 0);
        simulation.burst();
        for run_ms in [slow, fast, slow] {
            simulation.run_ms = run_ms;
            let idle = simulation.idle_percent_in(20_000);
            let (aim, bound) = (simulation.aim(), simulation.depth_bound() as u64);
            assert!(aim <= bound && idle <= 1.0, "{threads} threads, {run_ms} ms: aims at {aim}, idle for {idle} %");
        }
    }
}
