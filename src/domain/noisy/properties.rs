//! Invariants that hold for every snapshot.

use super::*;
use crate::domain::tenant::Weight;
use proptest::prelude::*;
use std::collections::BTreeMap;

const DAY: i64 = 86_400_000;

fn figures() -> impl Strategy<Value = Figures> {
    let some = || prop_oneof![Just(0), 0..20_u64, 0..100_000_u64];
    (some(), some(), some(), some(), some(), some(), some(), some()).prop_map(
        |(depth, runnable, active, enqueued, pushes, completed, failed, worker_ms)| Figures {
            depth,
            runnable: runnable.min(depth),
            active,
            enqueued,
            pushes: pushes.min(enqueued),
            completed,
            failed,
            worker_ms,
        },
    )
}

fn snapshot(now: i64) -> impl Strategy<Value = Snapshot> {
    let tenant = (figures(), 50..20_000_u32);
    prop::collection::vec(tenant, 0..12).prop_map(move |tenants| {
        let seen = tenants.into_iter().enumerate().map(|(place, (figures, weight))| TenantFigures {
            id: format!("t{place}"),
            weight: Weight::from_thousandths(weight),
            figures,
        });
        Snapshot::of_all(now, 300_000, seen.collect())
    })
}

fn throttling() -> NoisyNeighbors {
    NoisyNeighbors { action: Action::WeightReduced, max_throttled: 2, ..NoisyNeighbors::default() }
}

fn apply(standings: &mut BTreeMap<String, NoisyState>, steps: Vec<ThrottleStep>) {
    for step in steps {
        match step.standing {
            Some(standing) => _ = standings.insert(step.tenant_id, standing),
            None => _ = standings.remove(&step.tenant_id),
        }
    }
}

proptest! {
    #[test]
    fn a_verdict_has_evidence_and_a_throttle_has_a_victim(snapshot in snapshot(DAY)) {
        for verdict in snapshot.detect(&NoisyNeighbors::default()) {
            prop_assert!(!verdict.evidence.is_empty());
            for evidence in &verdict.evidence {
                prop_assert!(evidence.ratio >= evidence.threshold && evidence.ratio.is_finite(), "{:?}", evidence);
            }
            let Some(reason) = verdict.throttle_reason() else { continue };
            prop_assert!(verdict.waiting_tenants > 0 && !verdict.hurt.is_empty());
            for hurt in &verdict.hurt {
                let victim = snapshot.find(&hurt.tenant_id).unwrap();
                prop_assert!(hurt.tenant_id != verdict.tenant_id && victim.figures.runnable > 0);
            }
            prop_assert!(verdict.lost > 0.0 || !matches!(reason, NoiseSignal::ActiveRatio | NoiseSignal::WorkerTimeRatio));
        }
    }

    #[test]
    fn nobody_is_noisy_alone(figures in figures()) {
        let alone = vec![TenantFigures { id: "loud".to_owned(), weight: Weight::ONE, figures }];
        prop_assert_eq!(Snapshot::of_all(DAY, 300_000, alone).detect(&NoisyNeighbors::default()), []);
    }

    #[test]
    fn nobody_is_throttled_where_others_could_not_run_anyway(snapshot in snapshot(DAY), loud in figures()) {
        // All others are paused, or wait for limits of their own.
        let blocked = |seen: TenantFigures| TenantFigures { figures: Figures { runnable: 0, ..seen.figures }, ..seen };
        let mut seen: Vec<TenantFigures> = snapshot.seen.into_iter().map(blocked).collect();
        seen.push(TenantFigures { id: "loud".to_owned(), weight: Weight::ONE, figures: loud });
        let snapshot = Snapshot::of_all(DAY, 300_000, seen);
        for verdict in snapshot.detect(&NoisyNeighbors::default()) {
            prop_assert!(verdict.tenant_id != "loud" || verdict.throttle_reason().is_none());
        }
    }

    #[test]
    fn equals_are_never_noisy(figures in figures(), tenants in 1..40_usize, weight in 50..1_000_000_u32) {
        let seen = |place| TenantFigures { id: format!("t{place}"), weight: Weight::from_thousandths(weight), figures };
        let snapshot = Snapshot::of_all(DAY, 300_000, (0..tenants).map(seen).collect());
        prop_assert_eq!(snapshot.detect(&NoisyNeighbors::default()), []);
    }

    #[test]
    fn never_more_than_the_config_allows(looks in prop::collection::vec(snapshot(0), 1..30), step in 1000..60_000_i64) {
        let config = throttling();
        let mut standings = BTreeMap::new();
        for (number, snapshot) in looks.into_iter().enumerate() {
            let now = DAY + step * number as i64;
            let snapshot = Snapshot { now, ..snapshot };
            let steps = decide(&config, &snapshot, &standings);
            for step in &steps {
                // A throttle begins or ends, never both, and each is reported once.
                let held = standings.get(&step.tenant_id).is_some_and(NoisyState::is_throttled);
                let holds = step.standing.as_ref().is_some_and(NoisyState::is_throttled);
                prop_assert_eq!((step.throttled, step.released.is_some()), (!held && holds, held && !holds));
            }
            apply(&mut standings, steps);
            let throttles: Vec<&Throttle> = standings.values().filter_map(|standing| standing.throttle.as_ref()).collect();
            prop_assert!(throttles.len() <= config.max_throttled);
            for throttle in throttles {
                prop_assert!(throttle.until > now && throttle.until - throttle.since == config.duration as i64);
                let least = (throttle.original_weight * config.weight_factor).max(Weight::LEAST.as_f64());
                prop_assert!(throttle.effective_weight >= least - 0.001 && throttle.effective_weight <= throttle.original_weight);
            }
        }
    }

    #[test]
    fn a_standing_survives_being_written(snapshot in snapshot(DAY)) {
        let later = Snapshot { now: DAY + 60_000, ..snapshot.clone() };
        let mut standings = BTreeMap::new();
        apply(&mut standings, decide(&throttling(), &snapshot, &BTreeMap::new()));
        let steps = decide(&throttling(), &later, &standings);
        apply(&mut standings, steps);
        for standing in standings.values() {
            let text = serde_json::to_string(standing).unwrap();
            let read: NoisyState = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(serde_json::to_string(&read).unwrap(), text);
        }
    }
}

/// Five tenants. If `flooding` is set, the first one floods.
fn five(now: i64, flooding: bool) -> Snapshot {
    let seen = (0..5).map(|place| {
        let depth = if flooding && place == 0 { 5000 } else { 10 };
        let figures = Figures {
            depth,
            runnable: depth,
            active: 1,
            enqueued: depth,
            completed: 50,
            worker_ms: 50_000,
            ..Figures::default()
        };
        TenantFigures { id: format!("t{place}"), weight: Weight::ONE, figures }
    });
    Snapshot::of_all(now, 300_000, seen.collect())
}

#[test]
fn a_throttle_comes_after_a_while_and_ends_in_its_time() {
    let (config, mut standings) = (throttling(), BTreeMap::new());
    let mut told = Vec::new();
    for second in (0..=700).step_by(5) {
        let steps = decide(&config, &five(DAY + second * 1000, true), &standings);
        for step in &steps {
            let why = step.released.as_ref().map(|(_, why)| why.reason());
            told.extend(step.throttled.then_some((second, "throttled")));
            told.extend(why.map(|why| (second, why)));
        }
        apply(&mut standings, steps);
    }
    // A tenant that is still noisy when its throttle expires is throttled again.
    assert_eq!(told, [(15, "throttled"), (315, "expired"), (330, "throttled"), (630, "expired"), (645, "throttled")]);
}

#[test]
fn calm_has_to_last_before_a_throttle_is_lifted() {
    let (config, mut standings) = (throttling(), BTreeMap::new());
    let mut told = Vec::new();
    for second in (0..=200).step_by(5) {
        // One noisy moment restarts the calm period.
        let steps = decide(&config, &five(DAY + second * 1000, second <= 30 || second == 60), &standings);
        told.extend(steps.iter().filter_map(|step| step.released.as_ref().map(|(_, why)| (second, why.reason()))));
        apply(&mut standings, steps);
    }
    assert_eq!((told, standings.len()), (vec![(125, "calm")], 0));
}

#[test]
fn whoever_is_spared_is_not_throttled_and_whoever_is_no_longer_to_be_is_let_go() {
    let config = throttling();
    let mut standings = BTreeMap::from([("t0".to_owned(), NoisyState::spared(&config, DAY))]);
    for second in (0..300).step_by(5) {
        let steps = decide(&config, &five(DAY + second * 1000, true), &standings);
        assert!(steps.iter().all(|step| !step.throttled), "{second}");
        apply(&mut standings, steps);
    }
    let steps = decide(&config, &five(DAY + 300_000, true), &standings);
    apply(&mut standings, steps);
    assert!(standings["t0"].is_throttled());
    for off in [NoisyNeighbors { enabled: false, ..config.clone() }, NoisyNeighbors { action: Action::None, ..config }]
    {
        let steps = decide(&off, &five(DAY + 305_000, true), &standings);
        assert_eq!(steps[0].released.as_ref().map(|(_, why)| *why), Some(ReleaseReason::Disabled));
    }
}

/// A noisy tenant beside four equal ones.
fn beside(loud: Figures, other: Figures) -> Option<Detection> {
    let one = |id: String, figures| TenantFigures { id, weight: Weight::ONE, figures };
    let mut seen = vec![one("loud".to_owned(), loud)];
    seen.extend((0..4).map(|place| one(format!("t{place}"), other)));
    Snapshot::of_all(DAY, 300_000, seen)
        .detect(&NoisyNeighbors::default())
        .into_iter()
        .find(|found| found.tenant_id == "loud")
}

#[test]
fn each_of_the_four_signals_is_enough_for_a_verdict() {
    let other = Figures { active: 1, completed: 50, worker_ms: 50_000, enqueued: 50, pushes: 50, ..Figures::default() };
    for (loud, signal) in [
        (Figures { depth: 1000, runnable: 1000, ..other }, NoiseSignal::QueueDepthRatio),
        (Figures { enqueued: 300, pushes: 300, ..other }, NoiseSignal::EnqueueRateRatio),
        (Figures { active: 12, ..other }, NoiseSignal::ActiveRatio),
        (Figures { failed: 25, completed: 25, ..other }, NoiseSignal::ErrorRateRatio),
    ] {
        let verdict = beside(loud, other).unwrap_or_else(|| panic!("{signal:?}"));
        assert_eq!(verdict.evidence.iter().map(|evidence| evidence.signal).collect::<Vec<_>>(), [signal]);
        assert_eq!((verdict.throttle_reason(), verdict.waiting_tenants), (None, 0), "no other tenant waits");
    }
    assert_eq!(beside(other, other), None);
}

#[test]
fn whoever_is_stopped_by_its_own_limit_is_no_victim() {
    let loud = Figures { depth: 584, runnable: 584, active: 16, enqueued: 600, pushes: 600, ..Figures::default() };
    let blocked = Figures { depth: 40, active: 1, enqueued: 41, pushes: 41, ..Figures::default() };
    let verdict = beside(loud, blocked).unwrap();
    assert_eq!((verdict.throttle_reason(), verdict.hurt), (None, vec![]));
    let waits = Figures { runnable: 40, ..blocked };
    assert_eq!(beside(loud, waits).and_then(|verdict| verdict.throttle_reason()), Some(NoiseSignal::QueueDepthRatio));
}

#[test]
fn a_victim_has_to_be_one_for_as_long_as_the_noise_lasts() {
    let (config, mut standings) = (throttling(), BTreeMap::new());
    for (second, throttled) in [(0, false), (15, false), (30, false), (40, false), (45, true)] {
        let mut snapshot = five(DAY + second * 1000, true);
        if second < 30 {
            snapshot.seen.iter_mut().skip(1).for_each(|other| other.figures.runnable = 0);
            snapshot.total.runnable = snapshot.seen[0].figures.runnable;
        }
        let steps = decide(&config, &snapshot, &standings);
        assert_eq!(steps.iter().any(|step| step.throttled), throttled, "{second}");
        assert_eq!(steps.iter().any(|step| step.detected), second == 15, "{second}");
        apply(&mut standings, steps);
    }
}
