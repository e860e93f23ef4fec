//! The number of workers that a backlog needs, computed from what is known of its jobs and workers.

#[cfg(test)]
mod properties;

/// The largest number of workers that is recommended.
pub const MOST_WORKERS: u64 = 1_000_000;
/// Workers are given up only if the rest could do this much more than is needed. Otherwise a need
/// that varies around a whole number would change the recommendation all the time.
const SPARE: f64 = 1.1;

/// Facts about a backlog and the workers that serve it. `None` means unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Facts {
    /// Jobs that more workers could start.
    pub startable_jobs: u64,
    /// Age of the oldest job of the backlog; 0 without one.
    pub oldest_seconds: f64,
    pub active_jobs: Option<u64>,
    pub workers: Option<u64>,
    /// Number of jobs that these workers can run at the same time.
    pub slots: Option<u64>,
    /// Number of jobs that one worker runs at the same time, if the caller knows it.
    pub slots_per_worker: Option<u64>,
    pub arrivals_per_second: Option<f64>,
    /// Jobs that workers started per second within the last `window_seconds`.
    pub drain_per_second: Option<f64>,
    pub window_seconds: f64,
    /// Mean run time of a job.
    pub run_seconds: Option<f64>,
    /// The time within which the backlog should be worked off.
    pub target_seconds: f64,
}

/// The source of `backlog_seconds`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitBasis {
    /// There is no job to start.
    Empty,
    /// The measured drain rate.
    DrainRate,
    /// The mean run time and the number of slots.
    RunTime,
    NoData,
}

/// The source of `load`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadBasis {
    /// Active jobs divided by slots.
    BusySlots,
    /// Arrival rate times mean run time, divided by slots.
    ArrivalRate,
    NoData,
}

/// The source of `workers_wanted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedBasis {
    /// No job waits, runs or arrives.
    Idle,
    /// Arrivals and backlog, by the measured run time.
    RunTime,
    /// Arrivals and backlog, by a run time that follows from active jobs and the drain rate.
    DrainRate,
    /// Jobs wait and nothing is known of their run time, because no worker has taken any.
    FirstWorker,
    NoData,
}

impl WaitBasis {
    /// Returns the name used in API answers.
    pub fn name(self) -> &'static str {
        match self {
            WaitBasis::Empty => "empty",
            WaitBasis::DrainRate => "drain_rate",
            WaitBasis::RunTime => "run_time",
            WaitBasis::NoData => "no_data",
        }
    }
}

impl LoadBasis {
    /// Returns the name used in API answers.
    pub fn name(self) -> &'static str {
        match self {
            LoadBasis::BusySlots => "busy_slots",
            LoadBasis::ArrivalRate => "arrival_rate",
            LoadBasis::NoData => "no_data",
        }
    }
}

impl WantedBasis {
    /// Returns the name used in API answers.
    pub fn name(self) -> &'static str {
        match self {
            WantedBasis::Idle => "idle",
            WantedBasis::RunTime => "run_time",
            WantedBasis::DrainRate => "drain_rate",
            WantedBasis::FirstWorker => "first_worker",
            WantedBasis::NoData => "no_data",
        }
    }
}

/// A recommendation. A number is `None` exactly if its basis is `NoData`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recommendation {
    /// The time that the present workers need for the backlog.
    pub backlog_seconds: Option<f64>,
    pub wait_basis: WaitBasis,
    /// The used part of the present capacity; more than 1 if it does not suffice.
    pub load: Option<f64>,
    pub load_basis: LoadBasis,
    pub workers_wanted: Option<u64>,
    pub wanted_basis: WantedBasis,
}

impl Facts {
    /// Computes the recommendation.
    pub fn recommend(&self) -> Recommendation {
        let (backlog_seconds, wait_basis) = self.wait();
        let (load, load_basis) = self.load();
        let (workers_wanted, wanted_basis) = self.wanted();
        Recommendation { backlog_seconds, wait_basis, load, load_basis, workers_wanted, wanted_basis }
    }

    /// Returns the arrival rate. Without a count of arrivals, it is what workers take: in a queue
    /// that does not grow, both are the same.
    pub fn arrivals(&self) -> Option<f64> {
        known(self.arrivals_per_second).or(known(self.drain_per_second))
    }

    /// Returns the mean run time, and true if it was measured. Otherwise it follows from Little's
    /// law: the number of active jobs is the rate at which they start times their run time.
    fn run(&self) -> Option<(f64, bool)> {
        let measured = known(self.run_seconds).map(|seconds| (seconds, true));
        let derived = || {
            let active = self.active_jobs.filter(|jobs| *jobs > 0)?;
            let rate = known(self.drain_per_second).filter(|rate| *rate > 0.0)?;
            Some((active as f64 / rate, false))
        };
        measured.or_else(derived)
    }

    fn wait(&self) -> (Option<f64>, WaitBasis) {
        let jobs = self.startable_jobs as f64;
        let drained = known(self.drain_per_second).filter(|rate| *rate > 0.0).map(|rate| jobs / rate);
        let by_slots = || {
            let slots = self.slots.filter(|slots| *slots > 0)? as f64;
            known(self.run_seconds).map(|run| jobs * run / slots)
        };
        // If the backlog is younger than the window, workers may have lacked jobs for part of it, and
        // the drain rate is less than they can do.
        let is_saturated = self.oldest_seconds >= self.window_seconds;
        match (self.startable_jobs, drained.filter(|_| is_saturated), by_slots(), drained) {
            (0, ..) => (Some(0.0), WaitBasis::Empty),
            (_, Some(seconds), ..) => (Some(seconds), WaitBasis::DrainRate),
            (_, None, Some(seconds), _) => (Some(seconds), WaitBasis::RunTime),
            (_, None, None, Some(seconds)) => (Some(seconds), WaitBasis::DrainRate),
            (_, None, None, None) => (None, WaitBasis::NoData),
        }
    }

    fn load(&self) -> (Option<f64>, LoadBasis) {
        let Some(slots) = self.slots.filter(|slots| *slots > 0) else { return (None, LoadBasis::NoData) };
        match (self.active_jobs, known(self.arrivals_per_second).zip(known(self.run_seconds))) {
            (Some(active), _) => (Some(active as f64 / slots as f64), LoadBasis::BusySlots),
            (None, Some((rate, run))) => (Some(rate * run / slots as f64), LoadBasis::ArrivalRate),
            (None, None) => (None, LoadBasis::NoData),
        }
    }

    fn wanted(&self) -> (Option<u64>, WantedBasis) {
        let (active, arrivals) = (self.active_jobs.unwrap_or(0), self.arrivals());
        let arrive = arrivals.is_some_and(|rate| rate > 0.0);
        if self.startable_jobs == 0 && active == 0 && !arrive {
            return match arrivals {
                Some(_) => (Some(0), WantedBasis::Idle),
                None => (None, WantedBasis::NoData),
            };
        }
        let Some((run, is_measured)) = self.run() else {
            let is_untouched = active == 0 && self.workers.unwrap_or(0) == 0 && self.drain_per_second == Some(0.0);
            return match is_untouched && self.startable_jobs > 0 {
                true => (Some(1), WantedBasis::FirstWorker),
                false => (None, WantedBasis::NoData),
            };
        };
        let rate = arrivals.unwrap_or(0.0) + self.startable_jobs as f64 / self.target_seconds.max(1e-3);
        // Running jobs keep their workers.
        let slots = (rate * run).max(active as f64);
        let needed = slots / self.slots_of_a_worker();
        let basis = if is_measured { WantedBasis::RunTime } else { WantedBasis::DrainRate };
        (Some(self.settle(needed).clamp(1, MOST_WORKERS)), basis)
    }

    /// Returns the number of jobs that one worker runs at the same time.
    pub fn slots_of_a_worker(&self) -> f64 {
        let given = self.slots_per_worker.map(|slots| slots as f64);
        let both = self.slots.zip(self.workers).filter(|(slots, workers)| *slots > 0 && *workers > 0);
        let reported = both.map(|(slots, workers)| slots as f64 / workers as f64);
        given.or(reported).unwrap_or(1.0).max(1e-3)
    }

    /// Rounds a need up to whole workers. Keeps the present workers if fewer would barely suffice.
    fn settle(&self, needed: f64) -> u64 {
        // A float beyond the range saturates.
        let whole = |needed: f64| needed.ceil() as u64;
        match self.workers.filter(|workers| whole(needed) < *workers) {
            Some(workers) => whole(needed * SPARE).min(workers),
            None => whole(needed),
        }
    }
}

/// Returns a number unless it is negative, infinite or not a number.
fn known(number: Option<f64>) -> Option<f64> {
    number.filter(|number| number.is_finite() && *number >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten jobs a second arrive and start; each runs for 2 s on 20 of the 30 slots of 3 workers.
    fn steady() -> Facts {
        Facts {
            active_jobs: Some(20),
            workers: Some(3),
            slots: Some(30),
            arrivals_per_second: Some(10.0),
            drain_per_second: Some(10.0),
            window_seconds: 60.0,
            run_seconds: Some(2.0),
            target_seconds: 60.0,
            ..Facts::default()
        }
    }

    fn wanted(facts: Facts) -> (Option<u64>, WantedBasis) {
        let Recommendation { workers_wanted, wanted_basis, .. } = facts.recommend();
        (workers_wanted, wanted_basis)
    }

    #[test]
    fn a_steady_flow_needs_arrivals_times_run_time() {
        let advice = steady().recommend();
        assert_eq!((advice.backlog_seconds, advice.wait_basis), (Some(0.0), WaitBasis::Empty));
        assert_eq!(
            (advice.load.map(|load| (load * 30.0).round()), advice.load_basis),
            (Some(20.0), LoadBasis::BusySlots)
        );
        // 20 slots are 2 workers; with a tenth to spare they would be more than 2, so the third one stays.
        assert_eq!((advice.workers_wanted, advice.wanted_basis), (Some(3), WantedBasis::RunTime));
        assert_eq!(wanted(Facts { workers: Some(4), slots: Some(40), ..steady() }).0, Some(3));
    }

    #[test]
    fn a_backlog_adds_what_clears_it_within_the_target() {
        let late = Facts { startable_jobs: 6000, oldest_seconds: 90.0, ..steady() };
        let advice = late.recommend();
        assert_eq!((advice.backlog_seconds, advice.wait_basis), (Some(600.0), WaitBasis::DrainRate));
        // 10/s arrive and 6000 jobs in 60 s are 100/s more; 110/s of 2 s each are 220 slots.
        assert_eq!(advice.workers_wanted, Some(22));
        assert_eq!(wanted(Facts { target_seconds: 600.0, ..late }).0, Some(4));
    }

    #[test]
    fn a_young_backlog_is_measured_by_run_time_because_workers_may_have_lacked_jobs() {
        let burst = Facts { startable_jobs: 300, oldest_seconds: 5.0, drain_per_second: Some(0.1), ..steady() };
        let advice = burst.recommend();
        assert_eq!((advice.backlog_seconds, advice.wait_basis), (Some(20.0), WaitBasis::RunTime));
        let advice = Facts { slots: None, ..burst }.recommend();
        assert_eq!((advice.backlog_seconds, advice.wait_basis), (Some(3000.0), WaitBasis::DrainRate));
    }

    #[test]
    fn nothing_to_do_wants_nobody_and_running_jobs_keep_their_workers() {
        let idle =
            Facts { active_jobs: Some(0), arrivals_per_second: Some(0.0), drain_per_second: Some(0.0), ..steady() };
        assert_eq!(wanted(idle), (Some(0), WantedBasis::Idle));
        let last = Facts { active_jobs: Some(11), ..idle };
        assert_eq!(wanted(last), (Some(2), WantedBasis::RunTime));
    }

    #[test]
    fn without_data_numbers_are_missing() {
        let blind = Facts { startable_jobs: 5, target_seconds: 60.0, window_seconds: 60.0, ..Facts::default() };
        let advice = blind.recommend();
        assert_eq!((advice.backlog_seconds, advice.load, advice.workers_wanted), (None, None, None));
        let bases = (advice.wait_basis, advice.load_basis, advice.wanted_basis);
        assert_eq!(bases, (WaitBasis::NoData, LoadBasis::NoData, WantedBasis::NoData));
        let empty = Facts { startable_jobs: 0, ..blind };
        assert_eq!(wanted(empty), (None, WantedBasis::NoData), "nobody knows if jobs arrive");
    }

    #[test]
    fn a_backlog_that_no_worker_has_touched_wants_the_first_one() {
        let untouched = Facts {
            startable_jobs: 500,
            active_jobs: Some(0),
            drain_per_second: Some(0.0),
            arrivals_per_second: Some(8.0),
            target_seconds: 60.0,
            window_seconds: 60.0,
            ..Facts::default()
        };
        assert_eq!(wanted(untouched), (Some(1), WantedBasis::FirstWorker));
        assert_eq!(wanted(Facts { workers: Some(2), ..untouched }), (None, WantedBasis::NoData));
    }

    #[test]
    fn an_unknown_run_time_follows_from_active_jobs_and_the_drain_rate() {
        let sidekiq = Facts { run_seconds: None, startable_jobs: 600, ..steady() };
        assert_eq!(wanted(sidekiq), (Some(4), WantedBasis::DrainRate), "20 of 2 s each, 10/s + 10/s");
    }

    #[test]
    fn the_caller_may_know_how_much_a_worker_runs() {
        let gone = Facts { workers: None, slots: None, active_jobs: Some(0), startable_jobs: 6000, ..steady() };
        assert_eq!(wanted(gone).0, Some(220));
        assert_eq!(wanted(Facts { slots_per_worker: Some(20), ..gone }).0, Some(11));
    }

    #[test]
    fn a_need_around_a_boundary_does_not_change_the_recommendation() {
        let with = |workers, arrivals| {
            let facts = Facts { workers: Some(workers), slots: Some(workers * 10), active_jobs: Some(0), ..steady() };
            wanted(Facts { arrivals_per_second: Some(arrivals), ..facts }).0
        };
        assert_eq!(with(2, 10.1), Some(3), "grows at once");
        for arrivals in [9.9, 10.1, 9.5] {
            assert_eq!(with(3, arrivals), Some(3), "{arrivals}");
        }
        assert_eq!(with(3, 9.0), Some(2), "shrinks once a tenth is to spare");
        assert_eq!(with(9, 9.0), Some(2));
    }
}
