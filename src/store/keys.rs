//! The names of keys. Scripts derive theirs from the prefix; Rust reads only those named here.

/// Key names below one prefix. Its braces put all keys of a namespace into one cluster slot, so that one script may touch
/// any of them.
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

    /// Version of the data's shape.
    pub(super) fn schema(&self) -> String {
        self.key("schema")
    }

    /// Stream of events, one entry per script call.
    pub(super) fn events(&self) -> String {
        self.key("events")
    }

    /// The last entry of `events` whose activity is in the buckets.
    pub(super) fn folded(&self) -> String {
        self.key("did:at")
    }

    /// Hash of tenants' activity in a minute (`m`) or an hour (`h`) since the epoch.
    pub(super) fn activity(&self, letter: char, number: i64) -> String {
        self.key(&format!("did:{letter}{number}"))
    }

    /// Hash of queues and how many of their jobs ended in a minute since the epoch.
    pub(super) fn ended(&self, minute: i64) -> String {
        self.key(&format!("ended:m{minute}"))
    }

    /// Hash of queue names and the time of their first use.
    pub(super) fn queues(&self) -> String {
        self.key("queues")
    }

    /// Hash of a queue's jobs by state.
    pub(super) fn counts(&self, queue: &str) -> String {
        self.key(&format!("counts:{queue}"))
    }

    /// Sorted set of a queue's runnable lanes.
    pub(super) fn ready(&self, queue: &str) -> String {
        self.key(&format!("ready:{queue}"))
    }

    /// Hash of a workflow.
    pub(super) fn workflow(&self, id: &str) -> String {
        self.key(&format!("workflow:{id}"))
    }

    /// Hash of how far a job has got.
    pub(super) fn progress(&self, id: &str) -> String {
        self.key(&format!("prog:{id}"))
    }

    /// Hash of subscriptions to events.
    pub(super) fn hooks(&self) -> String {
        self.key("hooks")
    }

    /// The event up to which deliveries were made.
    pub(super) fn hooked(&self) -> String {
        self.key("hooked")
    }

    /// Sorted set of deliveries by when they are tried next.
    pub(super) fn deliveries(&self) -> String {
        self.key("deliveries")
    }

    /// Sorted set of deliveries that were given up, by when.
    pub(super) fn undelivered(&self) -> String {
        self.key("undelivered")
    }

    /// Hash of a delivery.
    pub(super) fn delivery(&self, id: &str) -> String {
        self.key(&format!("delivery:{id}"))
    }

    /// Hash of paused queues and since when.
    pub(super) fn paused(&self) -> String {
        self.key("paused")
    }

    /// Hash of queues and how many jobs they hold at most.
    pub(super) fn bounds(&self) -> String {
        self.key("bounds")
    }

    /// Sorted set of crons by their next time.
    pub(super) fn crons(&self) -> String {
        self.key("crons")
    }

    /// Sorted set of dead letters by the time they were discarded.
    pub(super) fn dead(&self) -> String {
        self.key("dead")
    }

    /// Hash of what a rule in shadow has seen.
    pub(super) fn shadow(&self, rule: &str) -> String {
        self.key(&format!("plan:{rule}:shadow"))
    }

    /// Sorted set of main queues for which a rule has jobs staged.
    pub(super) fn plan_queues(&self, rule: &str) -> String {
        self.key(&format!("plan:{rule}:queues"))
    }

    /// Stream of a rule's rounds.
    pub(super) fn rounds(&self, rule: &str) -> String {
        self.key(&format!("plan:{rule}:rounds"))
    }

    /// Hash of what a rule has staged for a main queue, and of its fair queue of priority 0.
    pub(super) fn fair(&self, rule: &str, queue: &str) -> String {
        self.key(&format!("fair:{rule}:{queue}"))
    }

    fn level(&self, rule: &str, queue: &str, priority: i32) -> String {
        match priority {
            0 => self.fair(rule, queue),
            _ => self.key(&format!("fair:{rule}:{queue}:p{priority}")),
        }
    }

    /// Hash of the tenants that have jobs of a priority staged.
    pub(super) fn busy(&self, rule: &str, queue: &str, priority: i32) -> String {
        format!("{}:busy", self.level(rule, queue, priority))
    }

    /// Sorted set of tenants of weight 0 that have jobs of a priority staged.
    pub(super) fn held(&self, rule: &str, queue: &str, priority: i32) -> String {
        format!("{}:held", self.level(rule, queue, priority))
    }

    /// Sorted set of tenants of unknown weight that have jobs of a priority staged.
    pub(super) fn unknown(&self, rule: &str, queue: &str, priority: i32) -> String {
        format!("{}:unknown", self.level(rule, queue, priority))
    }

    /// Hash of tenants' jobs by state.
    pub(super) fn tenants(&self) -> String {
        self.key("tenants")
    }

    /// Hash of documents of tenants that have terms of their own.
    pub(super) fn tenancy(&self) -> String {
        self.key("tenancy")
    }

    /// Hash of what tenants and tiers are allowed.
    pub(super) fn quotas(&self) -> String {
        self.key("quotas")
    }

    /// Set of tenants that the file names.
    pub(super) fn file_tenants(&self) -> String {
        self.key("tenancy:file")
    }

    /// Hash of what limited tenants have enqueued lately.
    pub(super) fn books(&self, length: u64, turn: u64) -> String {
        self.key(&format!("books:{length}:{turn}"))
    }

    /// Hash of what belongs to no queue and no job.
    pub(super) fn state(&self) -> String {
        self.key("state")
    }

    /// List of what a rule has promoted, or a release handed back to a source, and what is not delivered yet.
    pub(super) fn outbox(&self, name: &str) -> String {
        self.key(&format!("outbox:{name}"))
    }

    /// Hash of how far inboxes have been taken in.
    pub(super) fn inboxes(&self) -> String {
        self.key("inboxes")
    }

    /// Channel on which scripts tell what happens.
    pub(super) fn signals(&self) -> String {
        self.key("signals")
    }

    /// Sorted set of limits by when they were last used.
    pub(super) fn limits(&self) -> String {
        self.key("limits")
    }

    /// Hash of the API keys that were made at run time.
    pub(super) fn api_keys(&self) -> String {
        self.key("keys")
    }

    /// Hash of what a worker tells about itself.
    pub(super) fn worker(&self, name: &str) -> String {
        self.key(&format!("worker:{name}"))
    }

    /// Sorted set of the jobs that workers hold, by name of the worker.
    pub(super) fn leased(&self) -> String {
        self.key("held")
    }

    /// Sorted set of jobs that ended in a state, by when.
    pub(super) fn finished(&self, state: &str) -> String {
        self.key(&format!("finished:{state}"))
    }

    /// Sorted set of workers by the time they were last seen.
    pub(super) fn workers(&self) -> String {
        self.key("workers")
    }
}
