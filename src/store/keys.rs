//! Key names. Scripts derive theirs from the prefix; this module has those that Rust reads.

/// The key names of a namespace. The braces in the prefix put all of them into one cluster slot, so
/// that a script may access any of them.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    pub(super) prefix: String,
}

impl Keys {
    pub(super) fn new(namespace: &str) -> Self {
        Keys { prefix: format!("fg:{{{namespace}}}:") }
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// String: the schema version of the data.
    pub(super) fn schema(&self) -> String {
        self.key("schema")
    }

    /// Stream: events, one entry per script call.
    pub(super) fn events(&self) -> String {
        self.key("events")
    }

    /// String: id of the last entry of `events` that is summed in the activity buckets.
    pub(super) fn folded(&self) -> String {
        self.key("activity:at")
    }

    /// Hash: tenants' activity in a minute (`m`) or hour (`h`), numbered since the epoch.
    pub(super) fn activity(&self, letter: char, number: i64) -> String {
        self.key(&format!("activity:{letter}{number}"))
    }

    /// Sorted set: tenants by their activity in a minute, numbered since the epoch.
    pub(super) fn busy_tenants(&self, minute: i64) -> String {
        self.key(&format!("busy:m{minute}"))
    }

    /// String: the sample of an interval, numbered since the epoch.
    pub(super) fn history(&self, interval: i64) -> String {
        self.key(&format!("history:{interval}"))
    }

    /// Hash: numbers of jobs that ended in a minute, numbered since the epoch, by queue.
    pub(super) fn ended(&self, minute: i64) -> String {
        self.key(&format!("ended:m{minute}"))
    }

    /// Hash: jobs that arrived, attempts that ended and their run times in a minute, by queue.
    pub(super) fn flow(&self, minute: i64) -> String {
        self.key(&format!("flow:m{minute}"))
    }

    /// Hash: time of first use by queue.
    pub(super) fn queues(&self) -> String {
        self.key("queues")
    }

    /// Hash: numbers of a queue's jobs by state.
    pub(super) fn counts(&self, queue: &str) -> String {
        self.key(&format!("counts:{queue}"))
    }

    /// Sorted set: a queue's runnable lanes.
    pub(super) fn ready(&self, queue: &str) -> String {
        self.key(&format!("ready:{queue}"))
    }

    /// Hash: a workflow.
    pub(super) fn workflow(&self, id: &str) -> String {
        self.key(&format!("workflow:{id}"))
    }

    /// Hash: a job's reported progress.
    pub(super) fn progress(&self, id: &str) -> String {
        self.key(&format!("prog:{id}"))
    }

    /// Hash: subscriptions to events by id.
    pub(super) fn hooks(&self) -> String {
        self.key("hooks")
    }

    /// String: id of the last event for which deliveries were created.
    pub(super) fn hooked(&self) -> String {
        self.key("hooked")
    }

    /// Sorted set: pending deliveries by the time of their next attempt.
    pub(super) fn deliveries(&self) -> String {
        self.key("deliveries")
    }

    /// Sorted set: dead deliveries by the time they were given up.
    pub(super) fn undelivered(&self) -> String {
        self.key("undelivered")
    }

    /// Hash: a delivery.
    pub(super) fn delivery(&self, id: &str) -> String {
        self.key(&format!("delivery:{id}"))
    }

    /// Hash: start of the pause by paused queue.
    pub(super) fn paused(&self) -> String {
        self.key("paused")
    }

    /// Hash: bounds by queue.
    pub(super) fn bounds(&self) -> String {
        self.key("bounds")
    }

    /// Sorted set: crons by their next time.
    pub(super) fn crons(&self) -> String {
        self.key("crons")
    }

    /// Sorted set: dead letters by the time they were discarded.
    pub(super) fn dead(&self) -> String {
        self.key("dead")
    }

    /// Hash: the record of a rule in shadow mode.
    pub(super) fn shadow(&self, rule: &str) -> String {
        self.key(&format!("plan:{rule}:shadow"))
    }

    /// Sorted set: main queues for which a rule has staged jobs.
    pub(super) fn plan_queues(&self, rule: &str) -> String {
        self.key(&format!("plan:{rule}:queues"))
    }

    /// Stream: a rule's recorded rounds.
    pub(super) fn rounds(&self, rule: &str) -> String {
        self.key(&format!("plan:{rule}:rounds"))
    }

    /// Hash: counters of a rule's staging for a main queue, and its fair queue of priority 0.
    pub(super) fn fair(&self, rule: &str, queue: &str) -> String {
        self.key(&format!("fair:{rule}:{queue}"))
    }

    fn level(&self, rule: &str, queue: &str, priority: i32) -> String {
        match priority {
            0 => self.fair(rule, queue),
            _ => self.key(&format!("fair:{rule}:{queue}:p{priority}")),
        }
    }

    /// Hash: tenants with staged jobs of a priority.
    pub(super) fn busy(&self, rule: &str, queue: &str, priority: i32) -> String {
        format!("{}:busy", self.level(rule, queue, priority))
    }

    /// Sorted set: held tenants (weight 0) with staged jobs of a priority.
    pub(super) fn held(&self, rule: &str, queue: &str, priority: i32) -> String {
        format!("{}:held", self.level(rule, queue, priority))
    }

    /// Sorted set: tenants of unknown weight with staged jobs of a priority.
    pub(super) fn unknown(&self, rule: &str, queue: &str, priority: i32) -> String {
        format!("{}:unknown", self.level(rule, queue, priority))
    }

    /// Hash: numbers of jobs by state, by tenant.
    pub(super) fn tenants(&self) -> String {
        self.key("tenants")
    }

    /// Hash: documents of tenants that have terms of their own.
    pub(super) fn tenancy(&self) -> String {
        self.key("tenancy")
    }

    /// Hash: limits of tenants and tiers.
    pub(super) fn quotas(&self) -> String {
        self.key("quotas")
    }

    /// Set: tenants of the configuration file.
    pub(super) fn file_tenants(&self) -> String {
        self.key("tenancy:file")
    }

    /// Hash: recent enqueues of limited tenants. Each hash covers `length` ms; `turn` is its number
    /// since the epoch.
    pub(super) fn enqueue_window(&self, length: u64, turn: u64) -> String {
        self.key(&format!("enqueues:{length}:{turn}"))
    }

    /// Hash: state of the whole store, such as versions and flags.
    pub(super) fn state(&self) -> String {
        self.key("state")
    }

    /// List: jobs that a rule has promoted, or a release has handed back to a source, and that are
    /// not delivered yet.
    pub(super) fn outbox(&self, name: &str) -> String {
        self.key(&format!("outbox:{name}"))
    }

    /// Hash: sequence of the last imported entry by inbox.
    pub(super) fn inboxes(&self) -> String {
        self.key("inboxes")
    }

    /// Channel on which scripts publish signals.
    pub(super) fn signals(&self) -> String {
        self.key("signals")
    }

    /// Sorted set: limits by the time they were last used.
    pub(super) fn limits(&self) -> String {
        self.key("limits")
    }

    /// Hash: API keys created at run time, by id.
    pub(super) fn api_keys(&self) -> String {
        self.key("keys")
    }

    /// Hash: a worker's record.
    pub(super) fn worker(&self, name: &str) -> String {
        self.key(&format!("worker:{name}"))
    }

    /// Sorted set: leased jobs; a member is the worker's name and the job's id.
    pub(super) fn leased(&self) -> String {
        self.key("worker_jobs")
    }

    /// Sorted set: jobs that ended in a state, by the time they ended.
    pub(super) fn finished(&self, state: &str) -> String {
        self.key(&format!("finished:{state}"))
    }

    /// Sorted set: workers by the time they were last seen.
    pub(super) fn workers(&self) -> String {
        self.key("workers")
    }
}
