//! A fair queue in a real Redis, changed by store operations, and its model: both get the same input and must agree
//! after every step.

use super::model::Model;
use crate::support::{TestApp, json};
use fairgate::domain::plan::Rule;
use fairgate::domain::tenant::Weight;
use fairgate::store::{Begun, JobOutcome, Promoted, WeightOrigin, Why};
use redis::aio::MultiplexedConnection;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};

const KIND: &str = "test.planned";
const LARGEST_BATCH: usize = 500;

/// A passive fairgate with a plan rule, whose planner lock the test holds all the time.
pub struct FairQueueEnv {
    pub app: TestApp,
    pub rule: Rule,
    token: String,
    connection: MultiplexedConnection,
    queues: AtomicU32,
}

impl Deref for FairQueueEnv {
    type Target = TestApp;

    fn deref(&self) -> &TestApp {
        &self.app
    }
}

impl FairQueueEnv {
    pub async fn open(weights: impl IntoIterator<Item = (String, Weight)>) -> FairQueueEnv {
        let mut rule = Rule::new("plan", &[KIND]);
        rule.weights.fixed = weights.into_iter().collect();
        rule.planner_lock_ttl = 600_000;
        let planned = rule.clone();
        let app = TestApp::start_passive(|config| config.plan = vec![planned]).await;
        let connection = app.redis.connection().await;
        let mut env = FairQueueEnv { app, rule, token: String::new(), connection, queues: AtomicU32::new(0) };
        // Only a rule with staged jobs has rounds.
        let mut first = env.queue().await;
        first.arrive(&[("first", 1)]).await;
        env.token = match env.store().begin_round(&env.rule, "test", Why::Run, None).await.unwrap() {
            Begun::Round(round) => round.token,
            other => panic!("no round: {other:?}"),
        };
        env
    }

    /// The token of the planner lock.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Creates a main queue, and with it a fair queue. The main queue holds a job, so that none passes through.
    pub async fn queue(&self) -> StoredQueue<'_> {
        let name = format!("q{}", self.queues.fetch_add(1, Ordering::SeqCst));
        self.client.enqueue_into(&name).await;
        StoredQueue {
            env: self,
            name,
            model: Model::default(),
            staged: BTreeMap::new(),
            owners: HashMap::new(),
            seen: 1,
        }
    }
}

/// A fair queue in Redis and its model.
pub struct StoredQueue<'a> {
    env: &'a FairQueueEnv,
    pub name: String,
    pub model: Model,
    /// Ids of staged jobs by tenant, in order.
    staged: BTreeMap<String, VecDeque<String>>,
    owners: HashMap<String, String>,
    /// The number of jobs of the main queue that were read before.
    seen: isize,
}

impl StoredQueue<'_> {
    /// Enqueues jobs, in as few requests as possible.
    pub async fn arrive(&mut self, arrivals: &[(&str, u64)]) {
        let tenants: Vec<&str> =
            arrivals.iter().flat_map(|(tenant, jobs)| std::iter::repeat_n(*tenant, *jobs as usize)).collect();
        for part in tenants.chunks(LARGEST_BATCH) {
            let job = |tenant: &&str| json!({"type": KIND, "args": [], "meta": {"tenant_id": tenant}, "options": {"queue": self.name}});
            let jobs: Vec<_> = part.iter().map(job).collect();
            let answer = self.env.client.post("/v1/jobs/batch", json!({"jobs": jobs})).await.expect(201);
            for (id, tenant) in answer.job_ids().into_iter().zip(part) {
                self.owners.insert(id.clone(), (*tenant).to_owned());
                self.staged.entry((*tenant).to_owned()).or_default().push_back(id);
            }
        }
        for (tenant, jobs) in arrivals {
            self.model.arrive(tenant, self.env.rule.own_weight(tenant, None), *jobs);
        }
        self.check().await;
    }

    pub async fn reweigh(&mut self, weights: &[(&str, Weight)]) {
        let env = self.env;
        let named: Vec<_> = weights.iter().map(|(tenant, weight)| ((*tenant).to_owned(), *weight)).collect();
        let changed = env.store().reweigh(&env.rule.name, &env.token, &self.name, WeightOrigin::Rule, &named).await;
        assert!(changed.unwrap().is_some(), "the lock is ours");
        weights.iter().for_each(|(tenant, weight)| self.model.reweigh(tenant, *weight));
        self.check().await;
    }

    /// Cancels one of a tenant's staged jobs, if it has any.
    pub async fn cancel(&mut self, tenant: &str, place: usize) {
        let Some(id) = self.withdraw(tenant, place) else { return };
        let outcome = self.env.store().cancel(&id).await.unwrap();
        assert!(matches!(outcome, JobOutcome::Done(..)), "{outcome:?}");
        self.check().await;
    }

    /// Activates one of a tenant's staged jobs, if it has any.
    pub async fn activate(&mut self, tenant: &str, place: usize) {
        let Some(id) = self.withdraw(tenant, place) else { return };
        let outcome = self.env.store().activate(&id).await.unwrap();
        assert!(matches!(outcome, JobOutcome::Done(..)), "{outcome:?}");
        assert_eq!(self.new_in_main_queue().await, [id]);
        self.check().await;
    }

    fn withdraw(&mut self, tenant: &str, place: usize) -> Option<String> {
        let ids = self.staged.get_mut(tenant).filter(|ids| !ids.is_empty())?;
        let id = ids.remove(place % ids.len());
        self.model.remove(tenant, 1);
        id
    }

    /// Promotes in one call; returns the tenants of the jobs in order.
    pub async fn promote(&mut self, jobs: u64) -> Vec<String> {
        let env = self.env;
        let outcome = env.store().promote(&env.rule.name, &env.token, &self.name, jobs).await.unwrap();
        let Promoted::Jobs { promoted, left, tenants, .. } = outcome else { panic!("{outcome:?}") };
        let ids = self.new_in_main_queue().await;
        let mut order = Vec::new();
        for id in &ids {
            let tenant = self.owners[id].clone();
            assert_eq!(self.model.pick().as_ref(), Some(&tenant), "after {order:?}");
            assert_eq!(self.staged.get_mut(&tenant).and_then(VecDeque::pop_front).as_ref(), Some(id), "in its order");
            order.push(tenant);
        }
        assert_eq!((promoted, left), (ids.len() as u64, self.staged()));
        assert!(promoted == jobs || self.model.queue.waiting() == 0, "{promoted} of {jobs}");
        for served in &tenants {
            assert_eq!(order.iter().filter(|tenant| **tenant == served.tenant).count() as u64, served.jobs);
        }
        assert_eq!(tenants.iter().map(|served| served.jobs).sum::<u64>(), promoted);
        self.check().await;
        order
    }

    /// Promotes until no tenant waits.
    pub async fn drain(&mut self) -> Vec<String> {
        let mut order = Vec::new();
        while self.model.queue.waiting() > 0 {
            order.extend(self.promote(50).await);
        }
        order
    }

    /// Jobs in staging, held ones included.
    pub fn staged(&self) -> u64 {
        self.staged.values().map(|ids| ids.len() as u64).sum()
    }

    /// The keys of this fair queue, without its own hash.
    pub async fn keys(&self) -> Vec<String> {
        self.env.redis.keys_with(&format!("fair:{}:{}:", self.env.rule.name, self.name)).await
    }

    async fn new_in_main_queue(&mut self) -> Vec<String> {
        let key = format!("fg:{{default}}:lane:{}:p0", self.name);
        let mut command = redis::cmd("ZRANGE");
        command.arg(key).arg(self.seen).arg(-1);
        let ids: Vec<String> = command.query_async(&mut self.env.connection.clone()).await.unwrap();
        self.seen += ids.len() as isize;
        ids
    }

    /// Compares the clock, the total, the departures and the start of every waiting tenant, bit for bit.
    async fn check(&self) {
        let (queue, rule) = (&self.model.queue, &self.env.rule.name);
        let mut survey = self.env.store().next_tenants(rule, &self.name, 1_000_000).await.unwrap();
        assert_eq!(survey.levels.len(), 1, "one priority");
        let survey = survey.levels.remove(0);
        assert_eq!((survey.clock, survey.total_weight), (queue.clock(), queue.total()));
        let mut leaving: Vec<(f64, u64)> = Vec::new();
        let mut leavers: Vec<_> = queue.tenants().filter(|(_, tenant)| tenant.is_leaving()).collect();
        leavers.sort_by(|(_, one), (_, other)| one.start.total_cmp(&other.start));
        for (_, tenant) in leavers {
            let share = u64::from(tenant.share.thousandths());
            match leaving.last_mut() {
                Some(last) if last.0 == tenant.start => last.1 += share,
                _ => leaving.push((tenant.start, share)),
            }
        }
        let reported: Vec<_> = survey.leavers.iter().map(|leaver| (leaver.start, leaver.weight)).collect();
        assert_eq!(reported, leaving);
        assert_eq!(survey.tenants.len(), queue.waiting());
        for tenant in &survey.tenants {
            let expected = queue.tenant(&tenant.name).expect("a tenant that waits");
            assert_eq!((tenant.start, tenant.weight), (Some(expected.start), expected.weight), "{}", tenant.name);
            assert_eq!(tenant.staged, expected.jobs, "{}", tenant.name);
        }
    }
}
