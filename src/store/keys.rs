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

    /// Sorted set of dead letters by the time they were discarded.
    pub(super) fn dead(&self) -> String {
        self.key("dead")
    }

    /// Sorted set of main queues for which a rule has jobs staged.
    pub(super) fn plan_queues(&self, rule: &str) -> String {
        self.key(&format!("plan:{rule}:queues"))
    }

    /// Stream of a rule's rounds.
    pub(super) fn rounds(&self, rule: &str) -> String {
        self.key(&format!("plan:{rule}:rounds"))
    }

    /// Hash of the tenants that have jobs staged.
    pub(super) fn busy(&self, rule: &str, queue: &str) -> String {
        self.key(&format!("fair:{rule}:{queue}:busy"))
    }

    /// Sorted set of tenants of weight 0.
    pub(super) fn held(&self, rule: &str, queue: &str) -> String {
        self.key(&format!("fair:{rule}:{queue}:held"))
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
    pub(super) fn books(&self) -> String {
        self.key("books")
    }

    /// Channel on which scripts tell what happens.
    pub(super) fn signals(&self) -> String {
        self.key("signals")
    }

    /// Sorted set of workers by the time they were last seen.
    pub(super) fn workers(&self) -> String {
        self.key("workers")
    }
}
