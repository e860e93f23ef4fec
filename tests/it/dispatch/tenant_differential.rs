//! The scripts and [`FairQueue`] give the same order under random changes, and all keys are consistent.

use super::{DispatchEnv, from, invariant, job};
use crate::support::json;
use fairgate::domain::fairness::FairQueue;
use fairgate::domain::tenant::Weight;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use std::collections::{BTreeMap, BTreeSet, HashMap};

const TENANTS: usize = 24;
const RETRY_MS: i64 = 1000;

fn weight(tenant: usize) -> Weight {
    match tenant {
        0..8 => Weight::ONE,
        8..16 => Weight::of(0.05 * 20_000f64.powf((tenant - 8) as f64 / 7.0)).unwrap(),
        _ => Weight::of(2.0 + tenant as f64 / 16.0).unwrap(),
    }
}

fn name(tenant: usize) -> String {
    format!("t{tenant}")
}

#[derive(Clone, Debug)]
enum Step {
    /// Enqueues jobs with tenants and priorities in one request.
    Push(Vec<(usize, i64)>),
    Fetch(usize),
    Cancel(usize),
    HandBack(usize),
    /// Fails an active job, which returns as a new one after its delay.
    Retry(usize),
    Ack(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let jobs = (0usize..TENANTS, prop_oneof![3 => Just(0i64), 1 => Just(7i64)]);
    let many = (0usize..TENANTS, 5usize..60).prop_map(|(tenant, jobs)| vec![(tenant, 0); jobs]);
    prop_oneof![
        6 => prop::collection::vec(jobs, 1..12).prop_map(Step::Push),
        2 => many.prop_map(Step::Push),
        8 => prop_oneof![1usize..4, 4usize..70].prop_map(Step::Fetch),
        2 => any::<usize>().prop_map(Step::Cancel),
        2 => any::<usize>().prop_map(Step::HandBack),
        2 => any::<usize>().prop_map(Step::Retry),
        2 => any::<usize>().prop_map(Step::Ack),
    ]
}

#[derive(Clone, Copy)]
struct Job {
    tenant: usize,
    priority: i64,
    place: u64,
}

/// One priority: its fair queue, and the waiting jobs of each tenant by position.
#[derive(Default)]
struct Level {
    turns: FairQueue,
    waiting: BTreeMap<usize, BTreeSet<(u64, String)>>,
}

struct Model {
    levels: BTreeMap<i64, Level>,
    jobs: HashMap<String, Job>,
    waiting: Vec<String>,
    held: Vec<String>,
    places: u64,
}

impl Model {
    fn arrive(&mut self, id: &str, keeps_place: bool) {
        if !keeps_place {
            self.places += 1;
            self.jobs.get_mut(id).unwrap().place = self.places;
        }
        let job = self.jobs[id];
        let level = self.levels.entry(-job.priority).or_default();
        level.turns.arrive(&name(job.tenant), weight(job.tenant), 1);
        level.waiting.entry(job.tenant).or_default().insert((job.place, id.to_owned()));
        self.waiting.push(id.to_owned());
    }

    fn remove(&mut self, id: &str) {
        let job = self.jobs[id];
        let level = self.levels.get_mut(&-job.priority).unwrap();
        level.turns.remove(&name(job.tenant), 1);
        level.waiting.get_mut(&job.tenant).unwrap().remove(&(job.place, id.to_owned()));
        self.waiting.retain(|other| other != id);
    }

    fn fetch(&mut self, count: usize) -> Vec<String> {
        let mut got = Vec::new();
        while got.len() < count {
            let Some(level) = self.levels.values_mut().find(|level| level.turns.waiting() > 0) else { break };
            let tenant: usize = level.turns.pick().unwrap()[1..].parse().unwrap();
            got.push(level.waiting.get_mut(&tenant).unwrap().pop_first().unwrap().1);
        }
        self.waiting.retain(|id| !got.contains(id));
        self.held.extend(got.iter().cloned());
        got
    }
}

fn choose(list: &mut Vec<String>, place: usize) -> Option<String> {
    let place = place.checked_rem(list.len())?;
    Some(list.remove(place))
}

async fn take(env: &DispatchEnv, model: &mut Model, step: Step) {
    let client = &env.client;
    match step {
        Step::Push(jobs) => {
            let retry =
                json!({"max_attempts": 99, "initial_interval": "PT1S", "backoff_coefficient": 1.0, "jitter": false});
            let body = |(tenant, priority): &(usize, i64)| {
                let mut job = job("q", Some(&name(*tenant)), *priority);
                job["options"]["retry"] = retry.clone();
                job
            };
            let ids = env.enqueue_all(jobs.iter().map(body).collect()).await;
            for (id, (tenant, priority)) in ids.iter().zip(jobs) {
                model.jobs.insert(id.clone(), Job { tenant, priority, place: 0 });
                model.arrive(id, false);
            }
        }
        Step::Fetch(count) => {
            let got = super::ids(&env.fetch(from(&["q"], count)).await);
            let expected = model.fetch(count);
            let owners =
                |ids: &[String]| ids.iter().map(|id| (model.jobs[id].tenant, model.jobs[id].place)).collect::<Vec<_>>();
            assert_eq!(owners(&got), owners(&expected));
        }
        Step::Cancel(place) => {
            let Some(place) = place.checked_rem(model.waiting.len()) else { return };
            let id = model.waiting[place].clone();
            client.delete(&format!("/v1/jobs/{id}")).await.expect(200);
            model.remove(&id);
        }
        Step::HandBack(place) => {
            let Some(id) = choose(&mut model.held, place) else { return };
            client.post("/v1/workers/nack", json!({"job_id": id, "requeue": true})).await.expect(200);
            model.arrive(&id, true);
        }
        Step::Retry(place) => {
            let Some(id) = choose(&mut model.held, place) else { return };
            client.nack(&id).await.expect(200);
            env.clock.advance(RETRY_MS);
            env.tick().await;
            model.arrive(&id, false);
        }
        Step::Ack(place) => {
            let Some(id) = choose(&mut model.held, place) else { return };
            client.ack(&id).await.expect(200);
        }
    }
    invariant::check(env).await;
}

async fn run(steps: Vec<Step>) {
    let weights: serde_json::Map<_, _> = (0..TENANTS).map(|tenant| (name(tenant), weight(tenant).to_json())).collect();
    let env = DispatchEnv::open(json!({"tenant_fairness": {"enabled": true, "weights": weights}})).await;
    let (levels, jobs) = (BTreeMap::new(), HashMap::new());
    let mut model = Model { levels, jobs, waiting: Vec::new(), held: Vec::new(), places: 0 };
    for step in steps {
        take(&env, &mut model, step).await;
    }
    take(&env, &mut model, Step::Fetch(5000)).await;
    assert!(model.waiting.is_empty());
    assert!(env.redis.keys_with("level:").await.is_empty());
}

#[test]
fn scripts_give_the_turns_of_the_fair_queue() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config =
        ProptestConfig { cases: 10, rng_seed: RngSeed::Fixed(21), failure_persistence: None, ..Default::default() };
    let outcome = TestRunner::new(config).run(&prop::collection::vec(step(), 10..60), |steps| {
        runtime.block_on(run(steps));
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}
