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

script!(ENQUEUE, "call", "lane", "job", "unplanned", "enqueue");
script!(STAGE, "call", "lane", "job", "plan", "fair", "staging", "stage", "enqueue");
script!(FETCH, "call", "lane", "take", "job", "fetch");
script!(ACK, "call", "lane", "job", "finish", "answer", "ack");
script!(NACK, "call", "lane", "job", "finish", "failure", "answer", "nack");
script!(CANCEL, "call", "lane", "take", "job", "plan", "fair", "staging", "stage", "finish", "detach", "cancel");
script!(ACTIVATE, "call", "lane", "job", "plan", "fair", "staging", "stage", "activate");
script!(RELEASE, "call", "lane", "job", "release");
script!(READ, "call", "lane", "job", "read");
script!(HEARTBEAT, "call", "lane", "job", "worker", "heartbeat");
script!(DEREGISTER, "call", "lane", "job", "worker", "deregister");
script!(
    TICK, "call", "lane", "take", "job", "plan", "fair", "staging", "stage", "finish", "detach", "failure", "sweep",
    "worker", "tick"
);
script!(RETAIN, "call", "lane", "job", "finish", "retain");
script!(REVIVE, "call", "lane", "job", "plan", "fair", "staging", "stage", "revive");
script!(FORGET, "call", "lane", "job", "finish", "forget");
script!(RULES, "call", "lane", "job", "plan", "rules");
script!(ROUND, "call", "lane", "job", "plan", "fair", "staging", "observe", "round");
script!(REWEIGH, "call", "lane", "job", "plan", "fair", "staging", "reweigh");
script!(PROMOTE, "call", "lane", "job", "plan", "fair", "staging", "stage", "pick", "promote");
script!(RECORD, "call", "lane", "job", "plan", "record");
script!(RENEW, "call", "renew");
script!(ANNOUNCE, "call", "announce");
script!(PAUSE, "call", "pause");
script!(STATUS, "call", "lane", "job", "plan", "fair", "staging", "observe", "status");
script!(SURVEY, "call", "lane", "job", "plan", "fair", "staging", "stage", "survey");

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
