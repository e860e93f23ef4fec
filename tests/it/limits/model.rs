//! Under random steps, FETCH returns exactly the jobs of a simple model, and the counts agree.

use super::reference::{ReferenceModel, State};
use super::{LimitsEnv, NOON, concurrency, job, rate, request};
use crate::support::json;
use fairgate::domain::job::{self, Failure};
use fairgate::domain::limit::{LimitKey, Quota};
use fairgate::store::{LimitLayer, Nack};
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use proptest::test_runner::{RngSeed, TestRunner};
use serde_json::Value;

const QUEUES: [&str; 3] = ["x", "y", "z"];
const KEYS: [&str; 4] = ["a", "b", "c", "d"];
const VISIBILITY: i64 = 10_000;
const RETRY: i64 = 1000;

#[derive(Clone, Debug)]
enum Step {
    /// `concurrency` is the limit in jobs of key `a`; jobs of `b`, `c` and `d` always have the same.
    Push {
        queue: &'static str,
        priority: i32,
        key: Option<&'static str>,
        concurrency: u32,
    },
    Fetch {
        worker: u8,
        queues: Vec<&'static str>,
        count: usize,
    },
    Ack(Index),
    Nack(Index),
    Requeue(Index),
    Cancel(Index),
    Advance(i64),
    Override {
        key: &'static str,
        concurrency: u32,
        lasts: Option<i64>,
    },
    Lift(&'static str),
    Queue {
        queue: &'static str,
        concurrency: Option<u32>,
    },
}

fn step() -> BoxedStrategy<Step> {
    let queues = || (subsequence(&QUEUES[..], 1..=3), any::<bool>());
    let order = |(mut queues, reversed): (Vec<&'static str>, bool)| {
        if reversed {
            queues.reverse();
        }
        queues
    };
    let key = prop_oneof![1 => Just(None), 6 => select(&KEYS[..]).prop_map(Some)];
    let push = (select(&QUEUES[..]), -2i32..3, key, 0u32..4);
    prop_oneof![
        12 => push.prop_map(|(queue, priority, key, concurrency)| Step::Push { queue, priority, key, concurrency }),
        10 => (0u8..3, queues().prop_map(order), 1usize..7)
            .prop_map(|(worker, queues, count)| Step::Fetch { worker, queues, count }),
        6 => any::<Index>().prop_map(Step::Ack),
        2 => any::<Index>().prop_map(Step::Nack),
        2 => any::<Index>().prop_map(Step::Requeue),
        2 => any::<Index>().prop_map(Step::Cancel),
        5 => prop_oneof![4 => 1i64..700, 2 => Just(1000), 1 => Just(VISIBILITY)].prop_map(Step::Advance),
        2 => (select(&KEYS[..]), 0u32..4, prop::option::of(1i64..3000))
            .prop_map(|(key, concurrency, lasts)| Step::Override { key, concurrency, lasts }),
        2 => select(&KEYS[..]).prop_map(Step::Lift),
        2 => (select(&QUEUES[..]), prop::option::of(0u32..4))
            .prop_map(|(queue, concurrency)| Step::Queue { queue, concurrency }),
    ]
    .boxed()
}

/// The limit in the jobs of a key.
fn quota_of(key: &str, most: u32) -> Quota {
    match key {
        "a" => concurrency(most),
        "b" => rate(3, 1000),
        "c" => Quota { concurrency: Some(2), ..super::throttle(3, 1000) },
        _ => Quota::default(),
    }
}

/// The server and the model, which get the same steps.
struct Pair<'a> {
    env: &'a LimitsEnv,
    reference: ReferenceModel,
}

impl Pair<'_> {
    async fn take(&mut self, step: &Step) {
        let (env, reference) = (self.env, &mut self.reference);
        match step {
            Step::Push { queue, priority, key, concurrency } => {
                let mut limit = Value::Null;
                if let Some(key) = key {
                    let quota = quota_of(key, *concurrency);
                    let mut members = quota.to_json();
                    members.insert("key".to_owned(), json!(key));
                    limit = Value::Object(members);
                    if !quota.is_empty() {
                        reference.limit(key).job = quota;
                    }
                }
                let id = env.client.enqueue(job(queue, *priority, limit)).await;
                reference.push(id, queue, *priority, *key);
            }
            Step::Fetch { worker, queues, count } => {
                let mut fetch = request(&format!("w{worker}"), queues, *count);
                fetch.visibility_ms = Some(VISIBILITY as u64);
                let got = env.store().fetch(fetch).await.unwrap().deliver();
                let got: Vec<String> = got.into_iter().map(|record| record.id).collect();
                assert_eq!(got, reference.fetch(queues, *count, VISIBILITY), "{step:?}");
            }
            Step::Ack(index) => {
                if let Some(id) = self.change(index, is_active, |_| State::Gone) {
                    env.ack(&id).await;
                }
            }
            Step::Nack(index) => {
                if let Some(id) = self.change(index, is_active, |now| State::Retry(now + RETRY)) {
                    nack(env, id, false).await;
                }
            }
            Step::Requeue(index) => {
                if let Some(id) = self.change(index, is_active, |_| State::Available) {
                    nack(env, id, true).await;
                }
            }
            Step::Cancel(index) => {
                if let Some(id) = self.change(index, |state| state != State::Gone, |_| State::Gone) {
                    env.store().cancel(&id).await.unwrap();
                }
            }
            Step::Advance(ms) => {
                reference.advance(*ms);
                env.advance(*ms).await;
            }
            Step::Override { key, concurrency: most, lasts } => {
                let until = lasts.map(|ms| reference.now + ms);
                reference.limit(key).over = Some((concurrency(*most), until));
                env.set(key, LimitLayer::Override, concurrency(*most), until).await;
            }
            Step::Lift(key) => {
                reference.limit(key).over = None;
                env.unset(key, LimitLayer::Override).await;
            }
            Step::Queue { queue, concurrency: most } => {
                let key = format!("queue:{queue}");
                let quota = most.map(concurrency);
                reference.limit(&key).admin = quota.clone().unwrap_or_default();
                env.store().set_limit(&LimitKey::queue(queue), LimitLayer::Admin, quota.as_ref(), None).await.unwrap();
            }
        }
    }

    /// Changes the state of one of the jobs in a given state.
    fn change(&mut self, index: &Index, is: fn(State) -> bool, to: impl Fn(i64) -> State) -> Option<String> {
        let places = self.reference.places(is);
        let place = places.get(index.index(places.len().max(1)))?;
        let job = &mut self.reference.jobs[*place];
        job.state = to(self.reference.now);
        Some(job.id.clone())
    }

    async fn compare(&self) {
        for queue in QUEUES {
            let counts = self.env.store().queue_counts(queue).await.unwrap();
            let key = format!("queue:{queue}");
            let expected = (self.reference.available(&key) as i64, self.reference.running(&key) as i64);
            assert_eq!(
                (counts[&job::State::Available], counts[&job::State::Active]),
                expected,
                "available and active in {queue}"
            );
        }
        for limit in self.env.store().limits(0, 100).await.unwrap().1 {
            let key = &limit.key.to_string();
            let reported = (limit.running as usize, limit.available as usize, limit.room != Some(0));
            let expected = (self.reference.running(key), self.reference.available(key), self.reference.is_open(key));
            assert_eq!(reported, expected, "running, available and open under {key}");
        }
    }
}

fn is_active(state: State) -> bool {
    matches!(state, State::Active(_))
}

async fn nack(env: &LimitsEnv, job_id: String, requeue: bool) {
    let failure = Failure::parse("error", Some(r#"{"message":"oops"}"#)).unwrap();
    env.store().nack(Nack { job_id, worker: None, failure, requeue, idempotency_key: None }).await.unwrap();
}

async fn run(env: &LimitsEnv, steps: &[Step]) {
    let _: () = env.redis.command(&["FLUSHALL"]).await;
    let mut pair = Pair { env, reference: ReferenceModel::default() };
    pair.reference.now = env.clock.now_ms();
    for (number, step) in steps.iter().enumerate() {
        pair.take(step).await;
        pair.compare().await;
        if number % 8 == 7 {
            env.audit().await;
        }
    }
    env.audit().await;
    // All remaining jobs can run in the end.
    for key in KEYS {
        pair.take(&Step::Override { key, concurrency: 1000, lasts: None }).await;
    }
    for queue in QUEUES {
        pair.take(&Step::Queue { queue, concurrency: None }).await;
    }
    for _ in 0..200 {
        if pair.reference.places(|state| state != State::Gone).is_empty() {
            break;
        }
        pair.take(&Step::Advance(RETRY)).await;
        pair.take(&Step::Fetch { worker: 0, queues: QUEUES.to_vec(), count: 64 }).await;
        for place in pair.reference.places(is_active) {
            pair.reference.jobs[place].state = State::Gone;
            env.ack(&pair.reference.jobs[place].id).await;
        }
    }
    assert!(pair.reference.places(|state| state != State::Gone).is_empty(), "everything went");
    env.audit().await;
    let left = env.redis.keys_with("lane:").await;
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn fetch_matches_the_model() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let env = runtime.block_on(LimitsEnv::open());
    assert_eq!(env.clock.now_ms(), NOON);
    // A fixed seed makes runs reproducible; another seed tests more.
    let seed = std::env::var("FAIRGATE_TEST_SEED").map_or(22, |text| text.parse().expect("a number"));
    let rng_seed = RngSeed::Fixed(seed);
    let config = ProptestConfig { cases: 40, rng_seed, failure_persistence: None, ..Default::default() };
    let outcome = TestRunner::new(config).run(&prop::collection::vec(step(), 1..160), |steps| {
        runtime.block_on(run(&env, &steps));
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}
