//! A reference model of dispatch under limits, in memory and as simple as possible: every query scans every job.

use fairgate::domain::limit::Quota;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum State {
    Available,
    /// Leased until this time.
    Active(i64),
    /// Failed, and due again at this time.
    Retry(i64),
    Gone,
}

#[derive(Clone, Debug)]
pub(super) struct Job {
    pub id: String,
    pub queue: &'static str,
    pub priority: i32,
    pub key: Option<&'static str>,
    pub seq: u64,
    pub state: State,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Limit {
    /// The settings of the last job.
    pub job: Quota,
    pub admin: Quota,
    pub over: Option<(Quota, Option<i64>)>,
    /// All jobs ever enqueued.
    starts: Vec<i64>,
    /// The throttle's next start: ms, and fractions of a ms in units of 1/limit.
    next: (i64, u64),
}

#[derive(Debug, Default)]
pub(super) struct ReferenceModel {
    pub now: i64,
    seq: u64,
    pub jobs: Vec<Job>,
    pub limits: BTreeMap<String, Limit>,
}

impl Limit {
    fn quota(&self, now: i64) -> Quota {
        let over = self.over.iter().filter(|(_, until)| until.is_none_or(|until| until > now)).map(|(quota, _)| quota);
        let mut all = Quota::default();
        for quota in [&self.job, &self.admin].into_iter().chain(over) {
            all.concurrency = quota.concurrency.or(all.concurrency);
            all.rate = quota.rate.or(all.rate);
            all.throttle = quota.throttle.or(all.throttle);
        }
        all
    }

    fn is_open(&self, now: i64, running: usize) -> bool {
        let quota = self.quota(now);
        let within = |period: u64| self.starts.iter().filter(|start| **start > now - period as i64).count();
        quota.concurrency.is_none_or(|most| running < most as usize)
            && quota.rate.is_none_or(|rate| within(rate.period) < rate.limit as usize)
            && (quota.throttle.is_none() || self.next.0 <= now)
    }

    fn start(&mut self, now: i64) {
        self.starts.push(now);
        if let Some(throttle) = self.quota(now).throttle {
            let (ms, part) = if self.next.0 < now { (now, 0) } else { self.next };
            let part = part + throttle.period;
            self.next = (ms + (part / u64::from(throttle.limit)) as i64, part % u64::from(throttle.limit));
        }
    }
}

impl ReferenceModel {
    pub fn limit(&mut self, key: &str) -> &mut Limit {
        self.limits.entry(key.to_owned()).or_default()
    }

    pub fn push(&mut self, id: String, queue: &'static str, priority: i32, key: Option<&'static str>) {
        self.seq += 1;
        self.jobs.push(Job { id, queue, priority, key, seq: self.seq, state: State::Available });
    }

    pub fn running(&self, key: &str) -> usize {
        self.under(key).filter(|job| matches!(job.state, State::Active(_))).count()
    }

    pub fn available(&self, key: &str) -> usize {
        self.under(key).filter(|job| job.state == State::Available).count()
    }

    /// Returns true if another job may start under a limit.
    pub fn is_open(&self, key: &str) -> bool {
        self.limits.get(key).is_none_or(|limit| limit.is_open(self.now, self.running(key)))
    }

    fn under(&self, key: &str) -> impl Iterator<Item = &Job> {
        self.jobs.iter().filter(move |job| match key.strip_prefix("queue:") {
            Some(queue) => job.queue == queue,
            None => job.key == Some(key),
        })
    }

    /// The next job of a queue: of those that no limit blocks, the oldest of the highest priority.
    fn next_of(&self, queue: &str) -> Option<usize> {
        if !self.is_open(&format!("queue:{queue}")) {
            return None;
        }
        let may_go = |job: &Job| {
            job.queue == queue && job.state == State::Available && job.key.is_none_or(|key| self.is_open(key))
        };
        let candidates = self.jobs.iter().enumerate().filter(|(_, job)| may_go(job));
        candidates.min_by_key(|(_, job)| (-job.priority, job.seq)).map(|(place, _)| place)
    }

    /// Leases up to `count` jobs, in the order of the queues.
    pub fn fetch(&mut self, queues: &[&'static str], count: usize, visibility: i64) -> Vec<String> {
        let mut ids = Vec::new();
        while ids.len() < count {
            let Some(place) = queues.iter().find_map(|queue| self.next_of(queue)) else { break };
            let (key, queue, now) = (self.jobs[place].key, self.jobs[place].queue, self.now);
            self.jobs[place].state = State::Active(now + visibility);
            ids.push(self.jobs[place].id.clone());
            let keys = key.map(str::to_owned).into_iter().chain([format!("queue:{queue}")]);
            for key in keys {
                if let Some(limit) = self.limits.get_mut(&key) {
                    limit.start(now);
                }
            }
        }
        ids
    }

    /// Advances time: retries become due in order, and leases expire.
    pub fn advance(&mut self, ms: i64) {
        self.now += ms;
        let mut due: Vec<(i64, String, usize)> = Vec::new();
        for (place, job) in self.jobs.iter_mut().enumerate() {
            match job.state {
                State::Retry(at) if at <= self.now => due.push((at, job.id.clone(), place)),
                State::Active(until) if until <= self.now => job.state = State::Available,
                _ => {}
            }
        }
        due.sort();
        for (_, _, place) in due {
            self.seq += 1;
            self.jobs[place].seq = self.seq;
            self.jobs[place].state = State::Available;
        }
    }

    /// The positions of jobs in a state.
    pub fn places(&self, is: impl Fn(State) -> bool) -> Vec<usize> {
        (0..self.jobs.len()).filter(|place| is(self.jobs[*place].state)).collect()
    }
}
