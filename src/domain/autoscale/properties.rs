//! Properties of recommendations that hold for all facts.

use super::{Facts, MOST_WORKERS, WaitBasis, WantedBasis};
use proptest::option;
use proptest::prelude::*;

fn facts() -> impl Strategy<Value = Facts> {
    let jobs = (0_u64..1_000_000, 0.0..100_000.0_f64, option::of(0_u64..10_000));
    let workers = (option::of(0_u64..1000), option::of(0_u64..50_000), option::of(1_u64..1000));
    let rates = (option::of(0.0..10_000.0_f64), option::of(0.0..10_000.0_f64), option::of(0.0..100_000.0_f64));
    (jobs, workers, rates, 1.0..100_000.0_f64).prop_map(|(jobs, workers, rates, target_seconds)| Facts {
        startable_jobs: jobs.0,
        oldest_seconds: jobs.1,
        active_jobs: jobs.2,
        workers: workers.0,
        slots: workers.1,
        slots_per_worker: workers.2,
        arrivals_per_second: rates.0,
        drain_per_second: rates.1,
        window_seconds: 60.0,
        run_seconds: rates.2,
        target_seconds,
    })
}

proptest! {
    #[test]
    fn more_jobs_never_want_fewer_workers(facts in facts(), more in 0_u64..1_000_000) {
        let larger = Facts { startable_jobs: facts.startable_jobs + more, ..facts };
        let (before, after) = (facts.recommend(), larger.recommend());
        // With its first job, an untouched backlog may become one of which nothing is known.
        if let (Some(before), Some(after)) = (before.workers_wanted, after.workers_wanted) {
            prop_assert!(before <= after, "{before} > {after}");
        }
        if facts.startable_jobs > 0 {
            prop_assert!(before.backlog_seconds <= after.backlog_seconds);
        }
    }

    #[test]
    fn more_arrivals_never_want_fewer_workers(facts in facts(), more in 0.0..10_000.0_f64) {
        let arrivals = facts.arrivals_per_second.unwrap_or(0.0);
        let now = Facts { arrivals_per_second: Some(arrivals), ..facts };
        let later = Facts { arrivals_per_second: Some(arrivals + more), ..facts };
        if let (Some(before), Some(after)) = (now.recommend().workers_wanted, later.recommend().workers_wanted) {
            prop_assert!(before <= after, "{before} > {after}");
        }
    }

    #[test]
    fn numbers_are_bounded_and_missing_exactly_without_data(facts in facts()) {
        let advice = facts.recommend();
        prop_assert_eq!(advice.backlog_seconds.is_none(), advice.wait_basis == WaitBasis::NoData);
        prop_assert_eq!(advice.workers_wanted.is_none(), advice.wanted_basis == WantedBasis::NoData);
        prop_assert!(advice.backlog_seconds.is_none_or(|seconds| seconds >= 0.0 && seconds.is_finite()));
        prop_assert!(advice.load.is_none_or(|load| load >= 0.0 && load.is_finite()));
        prop_assert!(advice.workers_wanted.is_none_or(|workers| workers <= MOST_WORKERS));
    }

    #[test]
    fn the_wanted_workers_suffice_and_are_few(facts in facts()) {
        let (Some(run), Some(wanted)) = (facts.run_seconds, facts.recommend().workers_wanted) else { return Ok(()) };
        let rate = facts.arrivals().unwrap_or(0.0) + facts.startable_jobs as f64 / facts.target_seconds;
        let slots = (rate * run).max(facts.active_jobs.unwrap_or(0) as f64);
        let capacity = wanted as f64 * facts.slots_of_a_worker();
        prop_assert!(wanted == MOST_WORKERS || capacity >= slots * (1.0 - 1e-9), "{capacity} < {slots}");
        // One worker for rounding, and a tenth to spare.
        let most = (slots / facts.slots_of_a_worker() * 1.1).ceil() + 1.0;
        prop_assert!(wanted as f64 <= most, "{wanted} > {most}");
    }

    #[test]
    fn nothing_to_do_wants_nobody(facts in facts()) {
        let idle = Facts { startable_jobs: 0, active_jobs: Some(0), arrivals_per_second: Some(0.0), ..facts };
        prop_assert_eq!(idle.recommend().workers_wanted, Some(0));
    }

    #[test]
    fn the_recommendation_is_stable_once_it_is_followed(facts in facts()) {
        // Workers of the same size as before; a scaler cannot choose their number of slots.
        let size = facts.slots_per_worker.unwrap_or(1);
        let with = |workers: u64| Facts {
            workers: Some(workers),
            slots: Some(workers * size),
            slots_per_worker: Some(size),
            ..facts
        };
        let Some(first) = with(facts.workers.unwrap_or(1)).recommend().workers_wanted else { return Ok(()) };
        if let Some(second) = with(first).recommend().workers_wanted {
            prop_assert_eq!(first, second);
        }
    }
}
