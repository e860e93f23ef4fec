//! FETCH returns the same jobs with a policy that does not apply to it as without one.

use super::{DispatchEnv, from, job};
use crate::support::json;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use serde_json::Value;
use std::collections::HashMap;

#[derive(Clone, Debug)]
enum Step {
    /// Jobs of a queue, each with its priority.
    Push(usize, Vec<i64>),
    /// Queues in order of preference, and the number of jobs.
    Fetch(Vec<usize>, usize),
    Cancel(usize),
    Nack(usize),
    Ack(usize),
    HandBack(usize),
    Wait(i64),
}

fn step() -> impl Strategy<Value = Step> {
    let priority = prop_oneof![3 => Just(0i64), 2 => -2i64..=2, 1 => -100i64..=100];
    let queues = Just(vec![0usize, 1, 2, 3])
        .prop_shuffle()
        .prop_flat_map(|queues| (1usize..=4).prop_map(move |count| queues[..count].to_vec()));
    prop_oneof![
        6 => (0usize..4, prop::collection::vec(priority, 1..25)).prop_map(|(queue, jobs)| Step::Push(queue, jobs)),
        6 => (queues, prop_oneof![1usize..5, 5usize..70]).prop_map(|(queues, count)| Step::Fetch(queues, count)),
        2 => any::<usize>().prop_map(Step::Cancel),
        2 => any::<usize>().prop_map(Step::Nack),
        2 => any::<usize>().prop_map(Step::Ack),
        2 => any::<usize>().prop_map(Step::HandBack),
        1 => (1i64..4000).prop_map(Step::Wait),
    ]
}

/// One of the two servers, with its jobs numbered in order of arrival.
struct Side {
    env: DispatchEnv,
    ids: Vec<String>,
    numbers: HashMap<String, usize>,
    held: Vec<usize>,
}

impl Side {
    async fn open(policy: Value) -> Side {
        Side { env: DispatchEnv::open(policy).await, ids: Vec::new(), numbers: HashMap::new(), held: Vec::new() }
    }

    fn chosen(&mut self, place: usize) -> Option<String> {
        let place = place.checked_rem(self.held.len())?;
        Some(self.ids[self.held.remove(place)].clone())
    }

    /// Runs a step and returns its outcome.
    async fn take(&mut self, step: &Step) -> Vec<usize> {
        let client = &self.env.client;
        match step {
            Step::Push(queue, priorities) => {
                let retry = json!({"max_attempts": 9, "initial_interval": "PT1S", "jitter": false});
                let job = |priority: &i64| {
                    let mut job = job(&format!("q{queue}"), Some("t"), *priority);
                    job["options"]["retry"] = retry.clone();
                    job
                };
                for id in self.env.enqueue_all(priorities.iter().map(job).collect()).await {
                    self.numbers.insert(id.clone(), self.ids.len());
                    self.ids.push(id);
                }
                Vec::new()
            }
            Step::Fetch(queues, count) => {
                let names: Vec<String> = queues.iter().map(|queue| format!("q{queue}")).collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let got = self.env.fetch(from(&names, *count)).await;
                let got: Vec<usize> = got.iter().map(|record| self.numbers[&record.id]).collect();
                self.held.extend(&got);
                got
            }
            Step::Cancel(place) => {
                let Some(place) = place.checked_rem(self.ids.len()) else { return Vec::new() };
                self.held.retain(|held| *held != place);
                vec![client.delete(&format!("/v1/jobs/{}", self.ids[place])).await.status.into()]
            }
            Step::Nack(place) => match self.chosen(*place) {
                Some(id) => vec![self.env.client.nack(&id).await.status.into()],
                None => Vec::new(),
            },
            Step::HandBack(place) => match self.chosen(*place) {
                Some(id) => {
                    let body = json!({"job_id": id, "requeue": true});
                    vec![self.env.client.post("/v1/workers/nack", body).await.status.into()]
                }
                None => Vec::new(),
            },
            Step::Ack(place) => match self.chosen(*place) {
                Some(id) => vec![self.env.client.ack(&id).await.status.into()],
                None => Vec::new(),
            },
            Step::Wait(ms) => {
                self.env.clock.advance(*ms);
                Vec::new()
            }
        }
    }
}

#[test]
fn a_policy_that_does_not_apply_does_not_change_a_fetch() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let unrelated = [
        json!({"pool": [{"name": "p", "queues": ["elsewhere"], "isolated": true}]}),
        json!({"queues": {"elsewhere": {"tenant_fairness": {"enabled": true}}}, "limit": [{"queue": "elsewhere", "concurrency": 1}]}),
        // A single tenant has no others to take turns with.
        json!({"tenant_fairness": {"enabled": true}}),
        json!({"starvation_prevention": {"enabled": true, "min_dispatch_ratio": 0, "rotation_interval": "PT24H"}}),
    ];
    let config =
        ProptestConfig { cases: 8, rng_seed: RngSeed::Fixed(8), failure_persistence: None, ..Default::default() };
    let cases = (0..unrelated.len(), prop::collection::vec(step(), 10..60));
    let outcome = TestRunner::new(config).run(&cases, |(policy, steps)| {
        runtime.block_on(async {
            let (mut plain, mut rich) = (Side::open(json!({})).await, Side::open(unrelated[policy].clone()).await);
            let all = Step::Fetch(vec![2, 0, 3, 1], 5000);
            for step in steps.iter().chain([&Step::Wait(600_000), &all, &all]) {
                assert_eq!(plain.take(step).await, rich.take(step).await, "{step:?} under {}", unrelated[policy]);
                super::invariant::check(&plain.env).await;
                super::invariant::check(&rich.env).await;
            }
        });
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

/// The same over HTTP, with requests that ask for the default.
#[tokio::test]
async fn strict_in_a_request_equals_the_default() {
    let env = DispatchEnv::open(json!({})).await;
    for queue in ["a", "b"] {
        env.push(queue, 5).await;
    }
    assert_eq!(
        env.order(super::by(fairgate::domain::pool::Strategy::Strict, &[("b", 1.0), ("a", 1.0)], 3)).await,
        "bbb"
    );
    assert_eq!(env.order(from(&["b", "a"], 3)).await, "bba");
}
