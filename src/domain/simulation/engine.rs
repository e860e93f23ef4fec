//! The event loop: advances virtual time from event to event.

use super::arrivals::ArrivalSource;
use super::main_queue::{MainQueue, Waiting};
use super::outcomes::{Outcomes, PlannerFigures};
use super::planner::{Planner, Why};
use super::random::{Random, Use};
use super::report::Report;
use super::run_time::RunTime;
use super::scenario::{MOST_JOBS, Mode, Retry, Scenario};
use super::staging::Staging;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Number of events between two reports of progress.
const EVENTS_A_REPORT: u64 = 1 << 14;

/// The progress of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Number of attempts that workers have started.
    pub dispatched: u64,
    /// Expected number of jobs, without retries. The actual number is random.
    pub expected: u64,
}

/// Runs a scenario. Calls `progress` from time to time.
pub fn simulate(scenario: &Scenario, mut progress: impl FnMut(Progress)) -> Report {
    let mut engine = Engine::new(scenario);
    let expected = scenario.expected_jobs();
    let mut events = 0;
    while engine.step() {
        events += 1;
        if events % EVENTS_A_REPORT == 0 {
            progress(Progress { dispatched: engine.outcomes.dispatches(), expected });
        }
    }
    engine.report()
}

/// An event at a time. Events of one moment happen in the order in which they were planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at_us: u64,
    sequence: u64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A tenant enqueues jobs.
    Arrival {
        tenant: u32,
        jobs: u64,
    },
    /// A failed attempt is due again.
    Retry {
        tenant: u32,
        attempt: u8,
    },
    /// A worker has finished an attempt.
    Done {
        tenant: u32,
        attempt: u8,
    },
    Tick,
    Wake,
}

/// A tenant as the event loop needs it.
struct Tenant {
    arrivals: ArrivalSource,
    run_time: RunTime,
    run_times: Random,
    retry: Retry,
    failures: Random,
    is_held: bool,
}

/// A simulation in progress.
struct Engine<'a> {
    scenario: &'a Scenario,
    events: BinaryHeap<Reverse<Event>>,
    sequence: u64,
    now_us: u64,
    tenants: Vec<Tenant>,
    staging: Staging,
    main: MainQueue,
    planner: Planner,
    outcomes: Outcomes,
    idle_workers: u32,
    enqueued: u64,
    /// Number of attempts that workers have taken.
    taken: u64,
}

impl<'a> Engine<'a> {
    fn new(scenario: &'a Scenario) -> Engine<'a> {
        let members = || scenario.groups.iter().flat_map(|group| (0..group.count).map(move |place| (group, place)));
        let random = |tenant, purpose| Random::new(scenario.seed, tenant, purpose);
        let tenants = members().zip(0..).map(|((group, place), number)| Tenant {
            arrivals: ArrivalSource::new(group.arrivals, random(number, Use::Arrivals), place, group.count),
            run_time: group.run_time,
            run_times: random(number, Use::RunTimes),
            retry: group.retry,
            failures: random(number, Use::Failures),
            is_held: group.weight.is_held(),
        });
        let names = members().map(|(group, place)| (group.tenant_name(place), group.weight));
        let mut engine = Engine {
            scenario,
            events: BinaryHeap::new(),
            sequence: 0,
            now_us: 0,
            tenants: tenants.collect(),
            staging: Staging::new(names.map(|(name, weight): (Arc<str>, _)| (name, weight))),
            main: MainQueue::default(),
            planner: Planner::new(&scenario.rule),
            outcomes: Outcomes::new(scenario),
            idle_workers: scenario.workers,
            enqueued: 0,
            taken: 0,
        };
        for tenant in 0..engine.tenants.len() as u32 {
            engine.plan_arrival(tenant);
        }
        engine
    }

    /// Handles the next event. Returns false if there is none.
    fn step(&mut self) -> bool {
        let Some(Reverse(Event { at_us, kind, .. })) = self.events.pop() else { return false };
        self.now_us = at_us;
        self.outcomes.advance(at_us);
        match kind {
            Kind::Arrival { tenant, jobs } => self.arrive(tenant, jobs),
            Kind::Retry { tenant, attempt } => self.wait(tenant, attempt, 1),
            Kind::Done { tenant, attempt } => self.finish(tenant, attempt),
            Kind::Tick => self.attempt_round(Why::Tick),
            Kind::Wake => self.attempt_round(Why::Wake),
        }
        self.dispatch();
        true
    }

    fn report(self) -> Report {
        let figures = PlannerFigures { rounds: self.planner.rounds(), wasted_us: self.planner.wasted_us() };
        self.outcomes.report(self.scenario, figures)
    }

    fn plan(&mut self, at_us: u64, kind: Kind) {
        self.sequence += 1;
        self.events.push(Reverse(Event { at_us, sequence: self.sequence, kind }));
    }

    fn plan_wake(&mut self, at_us: Option<u64>) {
        if let Some(at_us) = at_us {
            self.plan(at_us, Kind::Wake);
        }
    }

    /// Plans the next arrival of a tenant, so that there is one for each tenant at most.
    fn plan_arrival(&mut self, tenant: u32) {
        let next = self.tenants[tenant as usize].arrivals.next();
        if let Some(next) = next.filter(|next| next.at_us < self.scenario.duration_us) {
            self.plan(next.at_us, Kind::Arrival { tenant, jobs: next.jobs });
        }
    }

    fn arrive(&mut self, tenant: u32, jobs: u64) {
        let most = self.scenario.jobs.min(MOST_JOBS);
        let fitting = jobs.min(most - self.enqueued);
        self.enqueued += fitting;
        self.outcomes.enqueued(tenant, fitting);
        self.wait(tenant, 1, fitting);
        if fitting < jobs {
            self.outcomes.leave_out();
        } else {
            self.plan_arrival(tenant);
        }
    }

    /// Lets attempts of a tenant wait, in staging or in the main queue.
    fn wait(&mut self, tenant: u32, attempt: u8, jobs: u64) {
        if jobs == 0 {
            return;
        }
        let now_us = self.now_us;
        self.outcomes.waits(tenant, jobs);
        let is_held = self.tenants[tenant as usize].is_held;
        let passes = match self.scenario.mode {
            Mode::Fifo => true,
            Mode::Fair => !is_held && self.planner.passes(jobs, &self.staging, &self.main, now_us),
        };
        if passes {
            self.main.push(Waiting { tenant, attempt, since_us: now_us, runnable_us: now_us }, jobs);
            return;
        }
        let had_waiting = self.staging.is_waiting();
        self.outcomes.staged(tenant, jobs);
        self.staging.push(tenant, attempt, now_us, jobs);
        if !is_held {
            let wake = self.planner.staged(had_waiting, now_us);
            self.plan_wake(wake);
        }
    }

    fn attempt_round(&mut self, why: Why) {
        let (outcomes, now_us) = (&mut self.outcomes, self.now_us);
        let promoted = |waiting| outcomes.promoted(waiting);
        let tick = self.planner.attempt(why, &mut self.staging, &mut self.main, self.taken, now_us, promoted);
        if let Some(at_us) = tick {
            self.plan(at_us, Kind::Tick);
        }
    }

    /// Gives jobs of the main queue to idle workers.
    fn dispatch(&mut self) {
        while self.idle_workers > 0 {
            let Some(waiting) = self.main.pop() else { break };
            self.idle_workers -= 1;
            self.taken += 1;
            let tenant = &mut self.tenants[waiting.tenant as usize];
            let run_us = tenant.run_time.draw(&mut tenant.run_times);
            self.outcomes.dispatched(waiting, self.now_us, run_us);
            self.plan(self.now_us + run_us, Kind::Done { tenant: waiting.tenant, attempt: waiting.attempt });
            let wake = self.planner.taken(self.main.depth(), self.now_us);
            self.plan_wake(wake);
        }
        if self.idle_workers > 0 && self.staging.is_waiting() {
            self.planner.found_empty(self.now_us);
        }
    }

    fn finish(&mut self, number: u32, attempt: u8) {
        self.idle_workers += 1;
        let tenant = &mut self.tenants[number as usize];
        let has_failed = tenant.retry.failures > 0.0 && tenant.failures.unit() <= tenant.retry.failures;
        if !has_failed {
            self.outcomes.completed(number);
        } else if attempt >= tenant.retry.attempts {
            self.outcomes.discarded(number);
        } else {
            let at_us = self.now_us.saturating_add(tenant.retry.delay_after(attempt));
            self.plan(at_us, Kind::Retry { tenant: number, attempt: attempt + 1 });
        }
    }
}
