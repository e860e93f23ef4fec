//! Recorded rounds of a rule, promoted again under other weights or with another batch size.
//!
//! A record has the jobs that each round promoted, but not when they were enqueued. So a tenant that
//! was served again within the promotions that its turn may take counts as waiting in between, with
//! all jobs that it got until it stopped waiting. Waits count from the beginning of such a stretch.

use super::report::{WaitQuantiles, round};
use super::staging::Staging;
use super::stretches::{Stretch, stretches};
use crate::domain::tenant::Weight;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A recorded round.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedRound {
    pub number: u64,
    pub at_ms: i64,
    /// Number of promoted jobs, including those of tenants that the record does not name.
    pub promoted: u64,
    /// The tenants that the record names.
    pub served: Vec<RecordedTenant>,
}

/// The jobs of a tenant that a recorded round promoted.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedTenant {
    pub tenant: String,
    pub jobs: u64,
    pub weight: Weight,
}

/// The difference between the record and the simulation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplayChange {
    /// Weights instead of the recorded ones.
    pub weights: BTreeMap<String, Weight>,
    /// Number of jobs per round instead of the recorded numbers.
    pub jobs: Option<u64>,
}

/// The result of a replay, which is also the JSON output.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Replay {
    /// Number of rounds that promoted jobs.
    pub rounds: u64,
    /// Time from the first of them to the last.
    pub duration_ms: u64,
    /// Number of jobs that the record names.
    pub jobs: u64,
    /// Number of promoted jobs whose tenants the record does not name; they are left out.
    pub unnamed_jobs: u64,
    /// Tenants, the one with most jobs first.
    pub tenants: Vec<ReplayTenant>,
}

/// A tenant as recorded and as simulated.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ReplayTenant {
    pub name: String,
    pub jobs: u64,
    pub recorded: ReplayedWaits,
    pub simulated: ReplayedWaits,
    /// Jobs that the simulation had not promoted after the last round.
    pub left: u64,
}

/// The share and the waits of a tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct ReplayedWaits {
    /// The last weight.
    pub weight: f64,
    /// Share of the promotions in rounds at whose beginning at least two tenants waited; `None` if
    /// there were none.
    pub share: Option<f64>,
    /// Waits from the beginning of the tenant's stretch to the promotion.
    pub wait: WaitQuantiles,
}

/// Waits with the number of jobs that had them, and promotions while tenants competed.
#[derive(Clone, Debug, Default)]
struct Observed {
    waits: Vec<(u64, u64)>,
    contended: u64,
}

/// Promotes the jobs of recorded rounds, in any order, at the times of these rounds.
pub fn replay(rounds: &[RecordedRound], change: &ReplayChange) -> Replay {
    let mut rounds: Vec<&RecordedRound> = rounds.iter().filter(|round| !round.served.is_empty()).collect();
    rounds.sort_by_key(|round| (round.at_ms, round.number));
    rounds.dedup_by_key(|round| round.number);
    let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
    for served in rounds.iter().flat_map(|round| &round.served) {
        let next = numbers.len() as u32;
        numbers.entry(&served.tenant).or_insert(next);
    }
    let mut names = vec![""; numbers.len()];
    numbers.iter().for_each(|(name, number)| names[*number as usize] = name);
    let stretches = stretches(&rounds, &numbers);
    let recorded = recorded(&rounds, &numbers, &stretches);
    let (simulated, left) = simulated(&rounds, &numbers, &names, &stretches, change);
    let jobs_of = |tenant: u32| stretches.iter().filter(|one| one.tenant == tenant).map(|one| one.jobs).sum::<u64>();
    let last_weight = |name: &str| {
        let served = rounds.iter().rev().flat_map(|round| &round.served).find(|served| served.tenant == name);
        served.map_or(Weight::ONE, |served| served.weight)
    };
    let (all_recorded, all_simulated) = (contended(&recorded), contended(&simulated));
    let mut tenants: Vec<ReplayTenant> = names
        .iter()
        .zip(0..)
        .map(|(name, number)| {
            let before = last_weight(name);
            let after = change.weights.get(*name).copied().unwrap_or(before);
            ReplayTenant {
                name: (*name).to_owned(),
                jobs: jobs_of(number),
                recorded: recorded[number as usize].result(before, all_recorded),
                simulated: simulated[number as usize].result(after, all_simulated),
                left: left[number as usize],
            }
        })
        .collect();
    tenants.sort_by(|one, other| other.jobs.cmp(&one.jobs).then_with(|| one.name.cmp(&other.name)));
    let jobs = tenants.iter().map(|tenant| tenant.jobs).sum();
    let span = rounds.first().zip(rounds.last()).map_or(0, |(first, last)| last.at_ms - first.at_ms);
    Replay {
        rounds: rounds.len() as u64,
        duration_ms: u64::try_from(span).unwrap_or(0),
        jobs,
        unnamed_jobs: rounds.iter().map(|round| round.promoted).sum::<u64>().saturating_sub(jobs),
        tenants,
    }
}

fn recorded(rounds: &[&RecordedRound], numbers: &BTreeMap<&str, u32>, stretches: &[Stretch]) -> Vec<Observed> {
    let mut observed = vec![Observed::default(); numbers.len()];
    let mut waiting = vec![0_u64; rounds.len()];
    for stretch in stretches {
        waiting[stretch.first..=stretch.last].iter_mut().for_each(|count| *count += 1);
    }
    let mut begun: Vec<Vec<Stretch>> = vec![Vec::new(); numbers.len()];
    stretches.iter().for_each(|stretch| begun[stretch.tenant as usize].push(*stretch));
    for (place, round) in rounds.iter().enumerate() {
        for served in &round.served {
            let tenant = numbers[served.tenant.as_str()] as usize;
            let stretch = begun[tenant].iter().find(|stretch| (stretch.first..=stretch.last).contains(&place));
            let since = stretch.map_or(round.at_ms, |stretch| rounds[stretch.first].at_ms);
            observed[tenant].record(round.at_ms - since, served.jobs, waiting[place] >= 2);
        }
    }
    observed
}

fn simulated(
    rounds: &[&RecordedRound],
    numbers: &BTreeMap<&str, u32>,
    names: &[&str],
    stretches: &[Stretch],
    change: &ReplayChange,
) -> (Vec<Observed>, Vec<u64>) {
    let mut observed = vec![Observed::default(); numbers.len()];
    let mut left = vec![0_u64; numbers.len()];
    let mut starts: Vec<Vec<Stretch>> = vec![Vec::new(); rounds.len()];
    stretches.iter().for_each(|stretch| starts[stretch.first].push(*stretch));
    let weight_of = |name: &str, recorded: Weight| change.weights.get(name).copied().unwrap_or(recorded);
    let mut staging = Staging::new(names.iter().map(|name| (Arc::from(*name), weight_of(name, Weight::ONE))));
    let begin = rounds.first().map_or(0, |round| round.at_ms);
    let since = |round: &RecordedRound| u64::try_from(round.at_ms - begin).unwrap_or(0);
    for (place, round) in rounds.iter().enumerate() {
        for served in &round.served {
            staging.reweigh(numbers[served.tenant.as_str()], weight_of(&served.tenant, served.weight));
        }
        for stretch in &starts[place] {
            staging.push(stretch.tenant, 1, since(round), stretch.jobs);
            left[stretch.tenant as usize] += stretch.jobs;
        }
        let capacity = change.jobs.unwrap_or_else(|| round.served.iter().map(|served| served.jobs).sum());
        let is_contended = staging.waiting() >= 2;
        for _ in 0..capacity {
            let Some(picked) = staging.pick(since(round)) else { break };
            left[picked.tenant as usize] -= 1;
            let wait = since(round) as i64 - picked.since_us as i64;
            observed[picked.tenant as usize].record(wait, 1, is_contended);
        }
    }
    (observed, left)
}

fn contended(observed: &[Observed]) -> u64 {
    observed.iter().map(|tenant| tenant.contended).sum()
}

impl Observed {
    fn record(&mut self, wait_ms: i64, jobs: u64, is_contended: bool) {
        let wait_ms = u64::try_from(wait_ms).unwrap_or(0);
        match self.waits.last_mut() {
            Some((last, count)) if *last == wait_ms => *count += jobs,
            _ => self.waits.push((wait_ms, jobs)),
        }
        self.contended += if is_contended { jobs } else { 0 };
    }

    fn result(&self, weight: Weight, contended: u64) -> ReplayedWaits {
        let share = (contended > 0).then(|| round(self.contended as f64 / contended as f64, 1e4));
        ReplayedWaits { weight: weight.as_f64(), share, wait: self.quantiles() }
    }

    fn quantiles(&self) -> WaitQuantiles {
        let mut waits = self.waits.clone();
        waits.sort_unstable();
        let total: u64 = waits.iter().map(|(_, jobs)| jobs).sum();
        let at = |quantile: f64| {
            let rank = ((total as f64 * quantile).ceil() as u64).max(1);
            let mut seen = 0;
            let found = waits.iter().find(|(_, jobs)| {
                seen += jobs;
                seen >= rank
            });
            found.map_or(0.0, |(ms, _)| *ms as f64)
        };
        WaitQuantiles { p50_ms: at(0.5), p95_ms: at(0.95), p99_ms: at(0.99), max_ms: at(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(served: &[&[(&str, u64)]]) -> Vec<RecordedRound> {
        let round = |(number, served): (u64, &&[(&str, u64)])| {
            let tenant = |(name, jobs): &(&str, u64)| RecordedTenant {
                tenant: (*name).to_owned(),
                jobs: *jobs,
                weight: Weight::ONE,
            };
            let promoted = served.iter().map(|(_, jobs)| jobs).sum();
            RecordedRound { number, at_ms: number as i64 * 1000, promoted, served: served.iter().map(tenant).collect() }
        };
        (1..).zip(served).map(round).collect()
    }

    fn weights(weights: &[(&str, f64)]) -> ReplayChange {
        let weight = |(name, weight): &(&str, f64)| ((*name).to_owned(), Weight::of(*weight).expect("a weight"));
        ReplayChange { weights: weights.iter().map(weight).collect(), jobs: None }
    }

    fn shares(tenant: &ReplayTenant) -> [Option<f64>; 2] {
        [tenant.recorded.share, tenant.simulated.share]
    }

    #[test]
    fn without_a_change_the_result_is_the_record() {
        let record = rounds(&[&[("a", 5), ("b", 5)], &[("a", 5), ("b", 5)], &[("a", 10)], &[("a", 10)]]);
        let replay = replay(&record, &ReplayChange::default());
        assert_eq!((replay.rounds, replay.jobs, replay.unnamed_jobs, replay.duration_ms), (4, 40, 0, 3000));
        for tenant in &replay.tenants {
            assert_eq!((tenant.recorded, tenant.left), (tenant.simulated, 0), "{tenant:?}");
        }
        assert_eq!(shares(&replay.tenants[1]), [Some(0.5); 2]);
    }

    #[test]
    fn a_higher_weight_brings_jobs_forward() {
        let record = rounds(&[&[("a", 10), ("b", 10)]; 6].map(|served| &served[..]));
        let replay = replay(&record, &weights(&[("b", 3.0)]));
        let b = replay.tenants.iter().find(|tenant| tenant.name == "b").expect("b");
        assert_eq!((b.recorded.weight, b.simulated.weight), (1.0, 3.0));
        // In four of six rounds b gets three of four jobs; then it has none left.
        assert_eq!(shares(b), [Some(0.5), Some(0.75)]);
        assert_eq!((b.recorded.wait.max_ms, b.simulated.wait.max_ms), (5000.0, 3000.0));
    }

    #[test]
    fn smaller_rounds_leave_jobs_over_and_larger_ones_end_sooner() {
        let record = rounds(&[&[("a", 10), ("b", 10)]; 4].map(|served| &served[..]));
        let with = |jobs| replay(&record, &ReplayChange { jobs: Some(jobs), ..ReplayChange::default() });
        assert_eq!(with(5).tenants.iter().map(|tenant| tenant.left).collect::<Vec<_>>(), [30, 30]);
        assert_eq!(with(40).tenants[0].simulated.wait.max_ms, 1000.0);
    }

    #[test]
    fn a_tenant_that_was_away_for_longer_than_its_turn_begins_again() {
        let away = rounds(&[&[("a", 10), ("b", 1)], &[("a", 10)], &[("a", 10)], &[("a", 10), ("b", 1)]]);
        let b = &replay(&away, &ReplayChange::default()).tenants[1];
        assert_eq!((b.jobs, b.recorded.wait.max_ms), (2, 0.0));
        let turns = rounds(&[&[("a", 1), ("b", 1)], &[("a", 1)], &[("a", 1), ("b", 1)]]);
        let b = &replay(&turns, &ReplayChange::default()).tenants[1];
        assert_eq!(b.recorded.wait.max_ms, 2000.0, "one job of another tenant is its turn");
    }

    #[test]
    fn jobs_of_unnamed_tenants_are_counted_and_an_empty_record_has_none() {
        let mut record = rounds(&[&[("a", 1)]]);
        record[0].promoted = 50;
        record.push(record[0].clone());
        let result = replay(&record, &weights(&[("a", 0.0)]));
        assert_eq!((result.rounds, result.unnamed_jobs, result.tenants[0].left), (1, 49, 1));
        assert_eq!(replay(&[], &ReplayChange::default()).tenants, []);
    }
}
