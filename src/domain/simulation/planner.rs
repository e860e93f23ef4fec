//! The planner in virtual time: it decides when rounds run, how many jobs they promote, and whether
//! jobs pass straight through. The amounts come from [`Gate`], [`DrainRate`] and [`Rule`], as in
//! the planner itself; the times follow `planner/scheduler.rs` and `commands/round_begin`.

use super::main_queue::{MainQueue, Waiting};
use super::staging::Staging;
use crate::domain::plan::{AIM_HOLDS_MS, Batch, DrainRate, Gate, LatencyGoal, Pace, QueueReading, Rule};

/// Delay between a signal of the main queue or of staging and the start of a round, in
/// microseconds.
const REACTION_US: u64 = 2000;
/// Delay before a round that is overdue, in microseconds.
const SOON_US: u64 = 1000;
const MS: u64 = 1000;

/// The reason for an attempted round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// Its time has come.
    Tick,
    /// Jobs are staged and none were before, or the main queue runs low.
    Wake,
}

/// The state of a rule's planner.
#[derive(Clone, Debug)]
pub(super) struct Planner {
    rule: Rule,
    interval_us: u64,
    drain: DrainRate,
    /// Time of the next scheduled round.
    due_us: u64,
    /// The rest of the interval's batch.
    room: u64,
    aim: u64,
    /// Time until which `aim` allows pass-through.
    aim_until_us: u64,
    /// Depth of the main queue below which workers signal the planner; 0 after a signal.
    low: u64,
    /// Time since which a worker is idle although jobs are staged.
    idle_since_us: Option<u64>,
    /// Time of the planned [`Why::Tick`].
    tick_us: Option<u64>,
    is_waking: bool,
    rounds: u64,
    wasted_us: u64,
}

impl Planner {
    /// Creates a planner that has not run a round.
    pub(super) fn new(rule: &Rule) -> Planner {
        let interval_us = match rule.pace {
            Pace::Every(ms) => ms.saturating_mul(MS),
            Pace::Cron { .. } => 1_000 * MS,
        };
        Planner {
            rule: rule.clone(),
            interval_us,
            drain: DrainRate::default(),
            due_us: 0,
            room: 0,
            aim: 0,
            aim_until_us: 0,
            low: 0,
            idle_since_us: None,
            tick_us: None,
            is_waking: false,
            rounds: 0,
            wasted_us: 0,
        }
    }

    /// Number of rounds so far.
    pub(super) fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Time during which a worker was idle although jobs were staged, in microseconds.
    pub(super) fn wasted_us(&self) -> u64 {
        self.wasted_us
    }

    /// Returns true if a request with this many jobs passes straight to the main queue, and counts
    /// it.
    pub(super) fn passes(&mut self, jobs: u64, staging: &Staging, main: &MainQueue, now_us: u64) -> bool {
        if staging.is_waiting() {
            return false;
        }
        if let Batch::Jobs(batch) = self.rule.batch
            && now_us >= self.due_us
        {
            (self.room, self.due_us) = (u64::from(batch), now_us + self.interval_us);
        }
        let aim = if now_us < self.aim_until_us { self.aim } else { 0 };
        let room = self.rule.pass_through_room(self.gate(main, now_us), main.depth(), self.room, aim);
        if jobs > room {
            return false;
        }
        self.room = self.room.saturating_sub(jobs);
        true
    }

    /// Takes note that jobs were staged. Returns the time of a round that this starts.
    pub(super) fn staged(&mut self, had_waiting: bool, now_us: u64) -> Option<u64> {
        if had_waiting { None } else { self.wake(now_us) }
    }

    /// Takes note that a worker took a job. Returns the time of a round that this starts.
    pub(super) fn taken(&mut self, depth: u64, now_us: u64) -> Option<u64> {
        if depth >= self.low {
            return None;
        }
        self.low = 0;
        self.wake(now_us)
    }

    /// Takes note that a worker found the main queue empty although jobs are staged.
    pub(super) fn found_empty(&mut self, now_us: u64) {
        self.idle_since_us.get_or_insert(now_us);
    }

    fn wake(&mut self, now_us: u64) -> Option<u64> {
        (!std::mem::replace(&mut self.is_waking, true)).then_some(now_us + REACTION_US)
    }

    /// Attempts a round. Calls `promoted` for each promoted job, and returns the time of the next
    /// [`Why::Tick`] if it was not planned before.
    pub(super) fn attempt(
        &mut self,
        why: Why,
        staging: &mut Staging,
        main: &mut MainQueue,
        taken: u64,
        now_us: u64,
        promoted: impl FnMut(Waiting),
    ) -> Option<u64> {
        match why {
            // Another tick has been planned since.
            Why::Tick if self.tick_us != Some(now_us) => return None,
            Why::Tick => self.tick_us = None,
            Why::Wake => self.is_waking = false,
        }
        if staging.jobs() == 0 {
            return None;
        }
        // A clock that was idle for longer than an interval has a due time in the past.
        let scheduled = why == Why::Tick && now_us >= self.due_us;
        if scheduled {
            self.due_us = now_us + self.interval_us;
            self.room = if let Batch::Jobs(jobs) = self.rule.batch { u64::from(jobs) } else { 0 };
        }
        let is_wanted = why == Why::Wake && (!self.rule.strict_interval || self.room > 0);
        if scheduled || is_wanted {
            self.round(staging, main, taken, now_us, promoted);
        }
        let next = self.due_us.max(now_us + SOON_US);
        let is_planned = self.tick_us.is_some_and(|at| at <= next);
        // Held tenants wait for a change of their weights, which a simulation does not have.
        if is_planned || !staging.is_waiting() {
            return None;
        }
        self.tick_us = Some(next);
        Some(next)
    }

    fn round(
        &mut self,
        staging: &mut Staging,
        main: &mut MainQueue,
        taken: u64,
        now_us: u64,
        mut promoted: impl FnMut(Waiting),
    ) {
        self.rounds += 1;
        let (depth, staged) = (main.depth(), staging.jobs());
        let idle_ms = self.idle_since_us.map_or(0, |since| (now_us - since) / MS);
        self.drain.observe(QueueReading { at_ms: now_us / MS, taken, depth, idle_ms: Some(idle_ms), spare: 0 });
        let gate = self.gate(main, now_us);
        let goal = LatencyGoal { latency_ms: self.rule.target_latency, is_polled: false };
        let left = self.rule.batch_left(self.room, depth == 0);
        let size = self.rule.round_size(left, self.drain.aim(goal), depth);
        let batch = size.want.min(gate.room).min(staged);
        let mut count = 0;
        while count < batch {
            let Some(waiting) = staging.pick(now_us) else { break };
            main.push(waiting, 1);
            promoted(waiting);
            count += 1;
        }
        self.room = self.room.saturating_sub(count);
        if let (Some(since), true) = (self.idle_since_us, count > 0) {
            self.wasted_us += now_us - since;
            self.idle_since_us = None;
        }
        self.drain.end_round(count == size.want && size.want < staged);
        (self.aim, self.aim_until_us) = (size.aim, now_us + AIM_HOLDS_MS * MS);
        // Without tenants that wait, no worker signals anything, and no idle time counts.
        if !staging.is_waiting() {
            (self.low, self.idle_since_us) = (0, None);
        } else if size.low > 0 {
            self.low = size.low;
        }
    }

    fn gate(&self, main: &MainQueue, now_us: u64) -> Gate {
        let ms = |us: u64| i64::try_from(us / MS).unwrap_or(i64::MAX);
        Gate::read(&self.rule, main.depth(), main.oldest_us().map(ms), ms(now_us))
    }
}
