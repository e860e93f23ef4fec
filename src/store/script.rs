//! Lua scripts: one file a verb, with shared parts included as text, called by EVALSHA.

use super::error::Error;
use super::link::Link;
use redis::{Cmd, Value};
use std::sync::LazyLock;

/// A script and its digest.
pub(super) struct Script {
    pub(super) name: &'static str,
    source: &'static str,
    sha: LazyLock<String>,
}

macro_rules! script {
    ($name:ident, $($part:literal),+) => {
        pub(super) static $name: Script = Script {
            name: stringify!($name),
            source: concat!($(include_str!(concat!("lua/", $part, ".lua")), "\n"),+),
            sha: LazyLock::new(|| $name.digest()),
        };
    };
}

// What only some jobs need stands in scripts of their own: setting a part up takes as long as handling a job.
script!(ENQUEUE, "call", "lane", "job", "unplanned", "enqueue");
script!(ADMIT, "call", "lane", "tenant", "job", "light", "admit", "enqueue");
script!(
    STAGE, "call", "lane", "tenant", "limit", "job", "plan", "fair", "staging", "level", "stage", "admit", "enqueue"
);
script!(FETCH, "call", "lane", "job", "window", "source", "unlimited", "fetch");
script!(
    DISPATCH, "call", "lane", "tenant", "limit", "job", "finish", "fair", "level", "quota", "park", "window", "pick",
    "source", "choose", "pool", "turn", "remove", "filter", "fetch"
);
script!(ACK, "call", "lane", "job", "finish", "answer", "ack");
script!(NACK, "call", "lane", "tenant", "limit", "job", "fair", "level", "finish", "failure", "answer", "nack");
script!(
    CANCEL, "call", "lane", "tenant", "limit", "job", "plan", "fair", "staging", "level", "stage", "finish", "remove",
    "detach", "cancel"
);
script!(ACTIVATE, "call", "lane", "tenant", "limit", "job", "plan", "fair", "staging", "level", "stage", "activate");
script!(RELEASE, "call", "lane", "tenant", "limit", "job", "fair", "level", "release");
script!(READ, "call", "lane", "job", "read");
script!(HEARTBEAT, "call", "lane", "job", "worker", "heartbeat");
script!(DEREGISTER, "call", "lane", "tenant", "limit", "job", "fair", "level", "worker", "deregister");
script!(
    TICK, "call", "lane", "tenant", "limit", "job", "plan", "fair", "staging", "level", "stage", "finish", "remove",
    "detach", "failure", "sweep", "worker", "quota", "park", "starve", "tick"
);
script!(RETAIN, "call", "lane", "job", "finish", "retain");
script!(REVIVE, "call", "lane", "tenant", "limit", "job", "plan", "fair", "staging", "level", "stage", "revive");
script!(FORGET, "call", "lane", "job", "finish", "forget");
script!(RULES, "call", "lane", "job", "plan", "rules");
script!(ELDEST, "call", "lane", "job", "plan", "eldest");
script!(POLICY, "call", "policy");
script!(CONFIGURE, "call", "configure");
script!(LIMITS, "call", "lane", "tenant", "quota", "inspect");
script!(OVERRIDE, "call", "lane", "tenant", "limit", "job", "finish", "fair", "level", "quota", "park", "override");
script!(POOLS, "call", "pools");
script!(AUDIT, "call", "lane", "job", "audit");
script!(ROUND, "call", "lane", "tenant", "job", "plan", "fair", "staging", "observe", "round");
script!(REWEIGH, "call", "lane", "tenant", "job", "plan", "fair", "staging", "reweigh");
script!(
    PROMOTE, "call", "lane", "tenant", "limit", "job", "plan", "fair", "staging", "level", "stage", "window", "pick",
    "promote"
);
script!(RECORD, "call", "lane", "job", "plan", "record");
script!(RENEW, "call", "renew");
script!(ANNOUNCE, "call", "announce");
script!(PAUSE, "call", "pause");
script!(STATUS, "call", "lane", "tenant", "job", "plan", "fair", "staging", "observe", "status");
script!(SURVEY, "call", "lane", "tenant", "job", "plan", "fair", "staging", "stage", "survey");

impl Script {
    fn digest(&self) -> String {
        sha1_smol::Sha1::from(self.source).digest().to_string()
    }

    /// The digest under which Redis knows the script.
    pub(super) fn sha(&self) -> &str {
        &self.sha
    }

    /// Calls the script. `fill` appends the arguments and is told whether the call is sent again.
    pub(super) async fn call(&self, link: &Link, fill: impl Fn(&mut Cmd, bool)) -> Result<Value, Error> {
        let command = |verb: &str, script: &str, again: bool| {
            let mut command = redis::cmd(verb);
            command.arg(script);
            fill(&mut command, again);
            command
        };
        match link.call(self.name, |again| command("EVALSHA", self.sha(), again)).await {
            // Redis was restarted or its scripts were flushed: EVAL also stores the script again.
            Err(Error::NoScript { again: before }) => {
                link.call(self.name, |again| command("EVAL", self.source, again || before)).await
            }
            outcome => outcome,
        }
    }
}
