//! The cases of the dispatch benchmark: a single queue, or pools, tenants and limits.

use crate::scenario::JOB;
use crate::shape::tenant;
use fairgate::store::Fetch;
use std::fmt::Write;

const POOL: &str = "bench";
/// The queue, out of five in a pool, of each job in turn. Each queue gets jobs in proportion to its weight, so that all
/// drain together.
const OF_FIVE: [u64; 15] = [0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4];
/// A limit that is never reached: the cost of checking it is measured, not the wait for it.
const QUOTA: &str = r#""concurrency":1000000,"rate":{"limit":1000000000,"period":"minute"}"#;

/// A kind of job with the configuration that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    pub name: &'static str,
    /// The number of queues. More than one form a weighted pool, in groups of five.
    queues: u64,
    /// Tenants that take turns; 0 without tenant fairness.
    tenants: u64,
    /// The number of keys for the jobs' own limits; 0 for jobs without limits.
    keys: u64,
    prevents_starvation: bool,
}

impl Case {
    pub const PLAIN: Case = Case { name: "plain", queues: 1, tenants: 0, keys: 0, prevents_starvation: false };
    pub const ONE_LANE: Case = Case { name: "one lane", tenants: 1, ..Case::PLAIN };
    pub const TENANTS: Case = Case { name: "tenants", tenants: 10_000, ..Case::PLAIN };
    pub const ALL: Case = Case { name: "all", queues: 50, tenants: 1000, keys: 1000, prevents_starvation: true };
    /// All cases in the order of the report.
    pub const EACH: [Case; 6] = [
        Case::PLAIN,
        Case { name: "pool", queues: 50, ..Case::PLAIN },
        Case::ONE_LANE,
        Case::TENANTS,
        Case { name: "limits", keys: 1000, ..Case::PLAIN },
        Case::ALL,
    ];

    fn is_pooled(&self) -> bool {
        self.queues > 1
    }

    /// The names of its queues.
    fn queues(&self) -> Vec<String> {
        match self.is_pooled() {
            true => (0..self.queues).map(queue).collect(),
            false => vec!["default".to_owned()],
        }
    }

    /// The contents of the configuration file.
    pub fn config(&self) -> String {
        let mut text = String::new();
        if self.tenants > 0 {
            text += "[tenant_fairness]\nenabled = true\n";
        }
        if self.prevents_starvation {
            // The minimum ratios of a pool's queues must not exceed 1 in total.
            _ = writeln!(
                text,
                "[starvation_prevention]\nenabled = true\nmin_dispatch_ratio = {}",
                0.5 / self.queues as f64
            );
        }
        if self.is_pooled() {
            let weights: Vec<_> =
                (0..self.queues).map(|number| format!("{} = {}", queue(number), number % 5 + 1)).collect();
            _ = writeln!(text, "[[pool]]\nname = \"{POOL}\"\nqueues = {:?}\nstrategy = \"weighted\"", self.queues());
            _ = writeln!(text, "weights = {{ {} }}", weights.join(", "));
        }
        text
    }

    /// The JSON of the job with this number. The plain case sends `JOB`; the others add only what their case needs.
    pub fn job(&self, number: u64) -> String {
        let mut text = JOB.to_owned();
        if self.is_pooled() {
            let of_five = OF_FIVE[(number % 15) as usize];
            text =
                text.replacen("\"default\"", &format!("{:?}", queue(number / 15 % (self.queues / 5) * 5 + of_five)), 1);
        }
        if self.tenants > 0 {
            let tenant = tenant(number % self.tenants);
            text = text.replacen("\"tenant\":\"acme\"", &format!("\"tenant_id\":\"{tenant}\""), 1);
        }
        if self.keys > 0 {
            text.pop();
            _ = write!(text, ",\"rate_limit\":{{\"key\":\"k{:06}\",{QUOTA}}}}}", number % self.keys);
        }
        text
    }

    /// The members of a fetch request over HTTP that select the queues.
    pub fn fetch_member(&self) -> String {
        if self.is_pooled() { format!("\"pool\":\"{POOL}\"") } else { format!("\"queues\":{:?}", self.queues()) }
    }

    /// The same request as passed to the store.
    pub fn fetch(&self, worker: usize) -> Fetch {
        Fetch {
            worker: Some(format!("bench-{worker}")),
            queues: self.queues(),
            count: 1,
            pool: self.is_pooled().then(|| POOL.to_owned()),
            whole_pool: self.is_pooled(),
            ..Fetch::default()
        }
    }
}

fn queue(number: u64) -> String {
    format!("bench-{number:02}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Directory;
    use crate::fixture::new_job;
    use std::collections::BTreeMap;

    fn policy(case: Case) -> fairgate::domain::pool::Policy {
        Directory::with_config(&case.config()).and_then(|directory| directory.config()).expect("a configuration").policy
    }

    #[test]
    fn every_case_has_a_configuration_and_jobs_that_are_accepted() {
        assert_eq!(Case::PLAIN.job(7), JOB);
        assert!(policy(Case::PLAIN).is_plain());
        for case in Case::EACH {
            let policy = policy(case);
            assert_eq!(policy.tenant_fairness.enabled == Some(true), case.tenants > 0, "{}", case.name);
            let queues = policy.pools.first().map_or(1, |pool| pool.queues.len());
            assert_eq!((queues as u64, case.fetch(0).queues.len() as u64), (case.queues, case.queues));
            let job = new_job(&case.job(1234)).expect("a job");
            assert_eq!(job.tenant.is_some(), case.tenants > 0, "{}", case.name);
            let key = job.rate_limit.and_then(|limit| limit.key).map(|key| key.to_string());
            assert_eq!(key, (case.keys > 0).then(|| "k000234".to_owned()), "{}", case.name);
        }
    }

    #[test]
    fn queues_get_jobs_in_proportion_to_their_weight() {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for number in 0..300 {
            *counts.entry(new_job(&Case::ALL.job(number)).expect("a job").queue).or_default() += 1;
        }
        let pool = &policy(Case::ALL).pools[0];
        for place in &pool.queues {
            assert_eq!(counts[&place.queue] * 1000, 2 * u64::from(place.weight.thousandths()), "{}", place.queue);
        }
    }
}
