//! Several priorities: a promoted job has the highest priority at which a tenant waits, and within a priority the
//! scripts pick like the model of one fair queue.

use super::model::Model;
use super::stored::FairQueueEnv;
use crate::support::json;
use fairgate::domain::tenant::Weight;
use fairgate::store::{JobOutcome, PriorityLevel, Promoted, WeightOrigin};
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

const PRIORITIES: [i32; 4] = [100, 5, 0, -7];
const WEIGHTS: [f64; 12] = [0.05, 0.5, 1.0, 1.0, 1.0, 1.0, 1.1, 3.0, 10.0, 1000.0, 0.0, 0.0];
/// Scores of lanes are `(100 - priority) * SEQUENCES + sequence`.
const SEQUENCES: i64 = 1 << 45;

fn name(tenant: usize) -> String {
    format!("t{tenant}")
}

#[derive(Clone, Debug)]
enum Step {
    /// Tenant, index of the priority, and jobs, in one request.
    Arrive(Vec<(usize, usize, u64)>),
    Promote(u64),
    Reweigh(usize, Weight),
    Cancel(usize, usize),
    Activate(usize, usize),
}

fn step() -> BoxedStrategy<Step> {
    let tenant = || 0..WEIGHTS.len();
    let arrivals = prop::collection::vec((tenant(), 0..PRIORITIES.len(), 1u64..6), 1..5);
    let weight = prop_oneof![
        2 => Just(Weight::ONE),
        2 => Just(Weight::HELD),
        2 => (-1.302f64..3.0).prop_map(|power| Weight::of(10f64.powf(power)).unwrap()),
    ];
    prop_oneof![
        8 => arrivals.prop_map(Step::Arrive),
        6 => (1u64..=3).prop_map(Step::Promote),
        4 => (4u64..=40).prop_map(Step::Promote),
        3 => (tenant(), weight).prop_map(|(tenant, weight)| Step::Reweigh(tenant, weight)),
        2 => (tenant(), 0usize..90).prop_map(|(tenant, place)| Step::Cancel(tenant, place)),
        1 => (tenant(), 0usize..90).prop_map(|(tenant, place)| Step::Activate(tenant, place)),
    ]
    .boxed()
}

/// The jobs that a rule has staged for one main queue: in Redis, and as one model per priority.
struct Levels<'a> {
    env: &'a FairQueueEnv,
    queue: String,
    models: BTreeMap<i32, Model>,
    /// Ids of staged jobs by priority and tenant, in order.
    staged: BTreeMap<(i32, String), VecDeque<String>>,
    /// Weights of tenants that have jobs staged.
    weights: HashMap<String, Weight>,
    /// The number of jobs of the main queue that were read before.
    seen: HashSet<String>,
}

impl<'a> Levels<'a> {
    async fn open(env: &'a FairQueueEnv) -> Levels<'a> {
        let queue = env.queue().await.name;
        let models = PRIORITIES.map(|priority| (priority, Model::default())).into();
        let (staged, weights, seen) = (BTreeMap::new(), HashMap::new(), HashSet::new());
        let mut levels = Levels { env, queue, models, staged, weights, seen };
        assert_eq!(levels.new_in_main_queue().await.len(), 1, "the job that prevents pass-through");
        levels
    }

    async fn take(&mut self, step: &Step) {
        match step {
            Step::Arrive(arrivals) => self.arrive(arrivals).await,
            Step::Promote(jobs) => drop(self.promote(*jobs).await),
            Step::Reweigh(tenant, weight) => self.reweigh(&name(*tenant), *weight).await,
            Step::Cancel(tenant, place) => {
                let Some(id) = self.withdraw(&name(*tenant), *place) else { return };
                let outcome = self.env.store().cancel(&id).await.unwrap();
                assert!(matches!(outcome, JobOutcome::Done(..)), "{outcome:?}");
            }
            Step::Activate(tenant, place) => {
                let Some(id) = self.withdraw(&name(*tenant), *place) else { return };
                let outcome = self.env.store().activate(&id).await.unwrap();
                assert!(matches!(outcome, JobOutcome::Done(..)), "{outcome:?}");
                assert_eq!(self.new_in_main_queue().await, [id]);
            }
        }
        self.check().await;
    }

    async fn arrive(&mut self, arrivals: &[(usize, usize, u64)]) {
        let each = arrivals
            .iter()
            .flat_map(|(tenant, place, jobs)| std::iter::repeat_n((name(*tenant), PRIORITIES[*place]), *jobs as usize));
        let each: Vec<(String, i32)> = each.collect();
        let job = |(tenant, priority): &(String, i32)| {
            let options = json!({"queue": self.queue, "priority": priority});
            json!({"type": "test.planned", "args": [], "meta": {"tenant_id": tenant}, "options": options})
        };
        let jobs: Vec<_> = each.iter().map(job).collect();
        let answer = self.env.client.post("/v1/jobs/batch", json!({"jobs": jobs})).await.expect(201);
        for (id, (tenant, priority)) in answer.job_ids().into_iter().zip(each) {
            let own = self.env.rule.own_weight(&tenant, None);
            let weight = *self.weights.entry(tenant.clone()).or_insert(own);
            self.models.get_mut(&priority).unwrap().arrive(&tenant, weight, 1);
            self.staged.entry((priority, tenant)).or_default().push_back(id);
        }
    }

    async fn reweigh(&mut self, tenant: &str, weight: Weight) {
        let env = self.env;
        let named = [(tenant.to_owned(), weight)];
        let changed = env.store().reweigh(&env.rule.name, env.token(), &self.queue, WeightOrigin::Rule, &named).await;
        let differs = self.weights.get(tenant).is_some_and(|known| *known != weight);
        assert_eq!(changed.unwrap(), Some(u64::from(differs)), "one tenant, at any number of priorities");
        self.weights.entry(tenant.to_owned()).and_modify(|known| *known = weight);
        self.models.values_mut().for_each(|model| model.reweigh(tenant, weight));
    }

    /// Takes one of a tenant's jobs, of any priority, out of the model.
    fn withdraw(&mut self, tenant: &str, place: usize) -> Option<String> {
        let mut own: Vec<_> = self.staged.iter_mut().filter(|((_, owner), _)| owner == tenant).collect();
        let jobs: usize = own.iter().map(|(_, ids)| ids.len()).sum();
        let mut place = place % jobs.max(1);
        let (priority, id) = own.iter_mut().find_map(|((priority, _), ids)| {
            let id = ids.remove(place);
            place = place.saturating_sub(ids.len());
            id.map(|id| (*priority, id))
        })?;
        self.models.get_mut(&priority).unwrap().remove(tenant, 1);
        self.forget_idle();
        Some(id)
    }

    /// Promotes in one call; returns the number of promoted jobs.
    async fn promote(&mut self, jobs: u64) -> u64 {
        let env = self.env;
        let outcome = env.store().promote(&env.rule.name, env.token(), &self.queue, jobs).await.unwrap();
        let Promoted::Jobs { promoted, left, tenants, .. } = outcome else { panic!("{outcome:?}") };
        let ids = self.new_in_main_queue().await;
        for id in &ids {
            let (priority, tenant) = self.owner(id);
            let waits = |(key, ids): (&(i32, String), &VecDeque<String>)| {
                (!ids.is_empty() && !self.weights[&key.1].is_held()).then_some(key.0)
            };
            let highest = self.staged.iter().filter_map(waits).max();
            assert_eq!(Some(priority), highest, "the highest priority of all tenants that can be served");
            let picked = self.models.get_mut(&priority).unwrap().pick();
            assert_eq!(picked.as_ref(), Some(&tenant), "as within one fair queue");
            let next = self.staged.get_mut(&(priority, tenant)).and_then(VecDeque::pop_front);
            assert_eq!(next.as_ref(), Some(id), "in its order");
        }
        self.forget_idle();
        assert_eq!((promoted, left), (ids.len() as u64, self.jobs()));
        assert!(promoted == jobs || self.models.values().all(|model| model.queue.waiting() == 0));
        assert_eq!(tenants.iter().map(|served| served.jobs).sum::<u64>(), promoted);
        promoted
    }

    fn owner(&self, id: &str) -> (i32, String) {
        let owns =
            |(key, ids): (&(i32, String), &VecDeque<String>)| ids.iter().any(|own| own == id).then(|| key.clone());
        self.staged.iter().find_map(owns).expect("a staged job")
    }

    fn jobs(&self) -> u64 {
        self.staged.values().map(|ids| ids.len() as u64).sum()
    }

    fn tenants(&self) -> BTreeSet<String> {
        self.staged.keys().map(|(_, tenant)| tenant.clone()).collect()
    }

    fn forget_idle(&mut self) {
        self.staged.retain(|_, ids| !ids.is_empty());
        let busy = self.tenants();
        self.weights.retain(|tenant, _| busy.contains(tenant));
    }

    /// The jobs made available since the last call, in order.
    async fn new_in_main_queue(&mut self) -> Vec<String> {
        let mut found = Vec::new();
        for priority in PRIORITIES {
            let key = format!("fg:{{default}}:lane:{}:p{priority}", self.queue);
            let words = ["ZRANGE", &key, "0", "-1", "WITHSCORES"];
            let lane: Vec<(String, f64)> = self.env.redis.command(&words).await;
            found.extend(lane.into_iter().map(|(id, score)| (score as i64 % SEQUENCES, id)));
        }
        found.retain(|(_, id)| self.seen.insert(id.clone()));
        found.sort_unstable();
        found.into_iter().map(|(_, id)| id).collect()
    }

    /// Compares each priority bit for bit, and each tenant's totals over all priorities.
    async fn check(&self) {
        let (store, rule) = (self.env.store(), &self.env.rule.name);
        let survey = store.next_tenants(rule, &self.queue, 1000).await.unwrap();
        let served: Vec<i32> = survey.levels.iter().map(|level| level.priority).collect();
        let has_jobs = |priority: &i32| *priority == 0 || self.staged.keys().any(|(staged, _)| staged == priority);
        assert_eq!(served, PRIORITIES.into_iter().filter(has_jobs).collect::<Vec<_>>(), "the highest first");
        survey.levels.iter().for_each(|level| self.check_level(level));

        let tenants = self.tenants();
        let status = store.rule_status(rule, Some(&self.queue)).await.unwrap();
        let seen = status.queues.iter().find(|queue| queue.queue == self.queue).unwrap();
        assert_eq!((seen.staged, seen.staged_tenants), (self.jobs(), tenants.len() as u64));
        let (mut cursor, mut named) = (0, BTreeSet::new());
        loop {
            let (next, names) = store.tenant_names(rule, &self.queue, cursor, 100).await.unwrap();
            named.extend(names);
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(named, tenants);
        let names: Vec<String> = tenants.into_iter().collect();
        let reported = store.tenants(rule, &self.queue, &names).await.unwrap();
        assert_eq!(reported.len(), names.len(), "each once");
        for tenant in reported {
            let own = self.staged.iter().filter(|((_, owner), _)| *owner == tenant.name);
            let jobs: usize = own.map(|(_, ids)| ids.len()).sum();
            assert_eq!((tenant.staged, tenant.weight), (jobs as u64, self.weights[&tenant.name]), "{}", tenant.name);
        }
    }

    fn check_level(&self, level: &PriorityLevel) {
        let queue = &self.models[&level.priority].queue;
        assert_eq!((level.clock, level.total_weight), (queue.clock(), queue.total()), "{}", level.priority);
        assert_eq!(level.waiting_tenants, queue.waiting() as u64);
        assert_eq!(level.tenants.len(), queue.waiting());
        for tenant in &level.tenants {
            let expected = queue.tenant(&tenant.name).expect("a tenant that waits");
            assert_eq!((tenant.start, tenant.weight), (Some(expected.start), expected.weight), "{}", tenant.name);
            assert_eq!(tenant.staged, expected.jobs, "{}", tenant.name);
        }
    }
}

async fn run(env: &FairQueueEnv, steps: &[Step]) {
    let mut levels = Levels::open(env).await;
    for step in steps {
        levels.take(step).await;
    }
    for tenant in levels.tenants() {
        levels.reweigh(&tenant, Weight::ONE).await;
    }
    while levels.promote(30).await > 0 {}
    levels.check().await;
    assert_eq!(levels.jobs(), 0);
    let below = format!("fair:{}:{}:", env.rule.name, levels.queue);
    assert_eq!(env.redis.keys_with(&below).await, Vec::<String>::new(), "nothing is left behind");
}

#[test]
fn each_priority_is_a_fair_queue_and_the_highest_goes_first() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let weights = WEIGHTS.iter().enumerate().map(|(tenant, weight)| (name(tenant), Weight::of(*weight).unwrap()));
    let env = runtime.block_on(FairQueueEnv::open(weights));
    // A fixed seed makes runs reproducible.
    let config =
        ProptestConfig { cases: 30, rng_seed: RngSeed::Fixed(13), failure_persistence: None, ..Default::default() };
    let outcome = TestRunner::new(config).run(&prop::collection::vec(step(), 1..40), |steps| {
        runtime.block_on(run(&env, &steps));
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}
