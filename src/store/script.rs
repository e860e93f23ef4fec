//! Lua scripts: one file a verb, with shared parts included as text.
//!
//! Redis keeps a script's functions between calls as a library of its own (FUNCTION LOAD, FCALL): making them anew takes longer
//! than most calls do. Where a Redis has no functions, or its user may not load them, EVALSHA does the same from the same text.

use super::connection::Connection;
use super::error::Error;
use redis::{Cmd, Value};
use std::sync::LazyLock;

/// What the names of our libraries begin with, whatever their version.
const PREFIX: &str = "fairgate_";

/// A script, and what Redis knows it by.
pub(super) struct Script {
    pub(super) name: &'static str,
    /// Of ours, it defines `handle`, which takes keys and arguments of a call.
    source: &'static str,
    /// Whether it runs on our own Redis. Another system's keeps nothing of ours but the text of scripts.
    is_ours: bool,
    /// The digest of the text that EVALSHA runs.
    sha: LazyLock<String>,
    /// The name of its library and function, which changes with the text: versions live beside each other.
    function: LazyLock<String>,
}

macro_rules! script {
    ($name:ident, $is_ours:literal, $($part:literal),+) => {
        pub(super) static $name: Script = Script {
            name: stringify!($name),
            source: concat!($(include_str!(concat!("lua/", $part, ".lua")), "\n"),+),
            is_ours: $is_ours,
            sha: LazyLock::new(|| digest(&$name.text())),
            function: LazyLock::new(|| $name.function_name()),
        };
    };
}

macro_rules! scripts {
    ($($name:ident: $($part:literal),+;)+) => {
        $(script!($name, true, $($part),+);)+

        static OURS: &[&Script] = &[$(&$name),+];
    };
}

// What only some jobs need stands in scripts of their own: asking for each job whether it does would slow the others down.
scripts! {
    ENQUEUE: "call", "tally", "lane", "did", "job", "unplanned", "store", "enqueue";
    STAGE:
        "call", "tally", "lane", "did", "throttle", "tenant", "held", "limit", "job", "plan", "fair", "standing", "staging", "level", "stage",
        "book", "admit", "store", "enqueue";
    FETCH: "call", "tally", "lane", "did", "job", "window", "source", "unlimited", "fetch";
    DISPATCH:
        "call", "tally", "lane", "did", "throttle", "tenant", "held", "limit", "job", "finish", "fair", "standing", "level", "quota", "park",
        "window", "pick", "source", "stop", "choose", "remove", "reshard", "pool", "floor", "turn", "filter", "fetch";
    ACK:
        "call", "tally", "lane", "did", "throttle", "tenant", "held", "limit", "job", "plan", "fair", "standing", "staging", "level", "stage",
        "store", "finish", "workflow", "answer", "ack";
    NACK:
        "call", "tally", "lane", "did", "throttle", "tenant", "held", "limit", "job", "plan", "fair", "standing", "staging", "level", "stage",
        "store", "finish", "workflow", "failure", "answer", "nack";
    CANCEL:
        "call", "tally", "lane", "did", "throttle", "tenant", "held", "limit", "job", "plan", "fair", "standing", "staging", "level", "stage",
        "store", "finish", "workflow", "remove", "detach", "cancel";
    ACTIVATE:
        "call", "tally", "lane", "did", "throttle", "tenant", "held", "limit", "job", "plan", "fair", "standing", "staging", "level", "stage",
        "activate";
    RELEASE:
        "call", "tally", "lane", "did", "throttle", "tenant", "held", "limit", "job", "fair", "standing", "level", "hand_back", "release";
    RECALL:
        "call", "tally", "lane", "did", "throttle", "tenant", "held", "limit", "job", "fair", "standing", "level", "hand_back", "recall";
    READ: "call", "tally", "lane", "did", "job", "read";
    WAITS: "call", "tally", "lane", "did", "throttle", "tenant", "held", "job", "quota", "waits";
    HEARTBEAT: "call", "tally", "lane", "did", "job", "worker", "heartbeat";
    DEREGISTER:
        "call", "tally", "lane", "did", "throttle", "tenant", "held", "limit", "job", "fair", "standing", "level", "worker", "deregister";
    TICK:
        "call", "tally", "lane", "did", "throttle", "tenant", "held", "limit", "job", "plan", "fair", "standing", "staging", "level", "stage",
        "store", "finish", "workflow", "remove", "detach", "workflow_cancel_job", "failure", "sweep", "clock_step", "worker", "quota", "park", "starve", "tick";
    RETAIN: "call", "tally", "lane", "did", "job", "finish", "retain";
    REVIVE:
        "call", "tally", "lane", "did", "throttle", "tenant", "held", "limit", "job", "plan", "fair", "standing", "staging", "level", "stage",
        "revive";
    FORGET: "call", "tally", "lane", "did", "job", "finish", "forget";
    RULES: "call", "tally", "lane", "did", "job", "plan", "rules";
    ELDEST: "call", "tally", "lane", "did", "job", "plan", "eldest";
    POLICY: "call", "policy";
    CONFIGURE: "call", "tally", "headcount", "configure";
    CENSUS: "call", "headcount", "census";
    LIMITS: "call", "tally", "lane", "throttle", "tenant", "held", "quota", "inspect";
    OVERRIDE:
        "call", "tally", "lane", "did", "throttle", "tenant", "held", "limit", "job", "finish", "fair", "standing", "level", "quota", "park",
        "override";
    POOLS: "call", "pools";
    BEGIN:
        "call", "tally", "lane", "did", "throttle", "tenant", "held", "limit", "job", "plan", "fair", "standing", "staging", "level", "stage",
        "finish", "remove", "detach", "failure", "unique", "bound", "book", "admit", "store", "workflow", "outline", "begin";
    CALL_OFF:
        "call", "tally", "lane", "did", "throttle", "tenant", "held", "limit", "job", "plan", "fair", "standing", "staging", "level", "stage",
        "store", "finish", "workflow", "remove", "detach", "workflow_cancel_job", "outline", "call_off";
    SHOW: "call", "outline", "show";
    LIST_WORKFLOWS: "call", "outline", "list_workflows";
    AUDIT: "call", "tally", "lane", "did", "job", "headcount", "audit";
    ROUND: "call", "tally", "lane", "did", "throttle", "tenant", "job", "plan", "fair", "standing", "staging", "observe", "round";
    REWEIGH: "call", "tally", "lane", "did", "throttle", "tenant", "job", "plan", "fair", "standing", "staging", "reweigh";
    PROMOTE:
        "call", "tally", "lane", "did", "throttle", "tenant", "held", "limit", "job", "plan", "fair", "standing", "staging", "level", "stage",
        "window", "pick", "own", "promote";
    FOLD: "call", "fold";
    STATISTICS: "call", "deeds", "statistics";
    LATELY: "call", "deeds", "lately";
    NOISE: "call", "tally", "lane", "throttle", "tenant", "headcount", "deeds", "runnable", "noise";
    PUNISH:
        "call", "tally", "lane", "did", "throttle", "tenant", "held", "limit", "job", "plan", "fair", "standing", "staging", "level", "headcount",
        "punish";
    RECORD: "call", "tally", "lane", "did", "throttle", "tenant", "job", "plan", "fair", "staging", "record";
    RENEW: "call", "renew";
    SHADOW: "call", "shadow";
    ANNOUNCE: "call", "announce";
    PAUSE: "call", "pause";
    STATUS: "call", "tally", "lane", "did", "throttle", "tenant", "job", "plan", "fair", "staging", "observe", "status";
    SURVEY: "call", "tally", "lane", "did", "throttle", "tenant", "job", "plan", "fair", "staging", "stage", "survey";
    KEEP_KEY: "call", "keep_key";
    DROP_KEY: "call", "drop_key";
    ADMIT:
        "call", "tally", "lane", "did", "throttle", "tenant", "held", "limit", "job", "plan", "fair", "standing", "staging", "level", "stage",
        "finish", "remove", "detach", "failure", "unique", "bound", "book", "admit", "store", "enqueue";
    DIRECT: "call", "tally", "lane", "did", "job", "worker", "direct";
    FIND: "call", "tally", "lane", "did", "job", "find";
    TRACE: "call", "tally", "lane", "did", "job", "trace";
    PROGRESS: "call", "tally", "lane", "did", "job", "progress";
    CHECKPOINT: "call", "tally", "lane", "did", "job", "checkpoint";
    BOUNDING: "call", "bounding";
    PAUSING: "call", "pausing";
    SCHEDULE: "call", "schedule";
    UNSCHEDULE: "call", "unschedule";
    TIMETABLE: "call", "timetable";
    RETIME: "call", "retime";
    FIRE:
        "call", "tally", "lane", "did", "throttle", "tenant", "held", "limit", "job", "plan", "fair", "standing", "staging", "level", "stage",
        "finish", "remove", "detach", "failure", "unique", "bound", "book", "admit", "store", "fire";
    DRAIN:
        "call", "tally", "lane", "did", "throttle", "tenant", "held", "limit", "job", "plan", "fair", "standing", "staging", "level", "stage",
        "book", "admit", "store", "drain";
    FORWARD:
        "call", "tally", "lane", "did", "throttle", "tenant", "held", "limit", "job", "plan", "fair", "standing", "staging", "level", "stage",
        "window", "pick", "forward", "promote";
    CONFIRM: "call", "confirm";
    REGISTER_IMPORTER: "call", "register_importer";
    HOLD_RELEASE: "call", "hold_release";
    LIST_STAGED: "call", "tally", "lane", "did", "throttle", "tenant", "job", "plan", "fair", "staging", "stage", "list_staged";
    READ_STAGED: "call", "tally", "lane", "did", "job", "read_staged";
    UNSTAGE:
        "call", "tally", "lane", "did", "throttle", "tenant", "job", "plan", "fair", "standing", "staging", "stage",
        "sidekiq/restore", "unstage";
    TAKE_BACK: "call", "tally", "lane", "did", "throttle", "tenant", "job", "finish", "failure", "take_back";
    SUBSCRIBE: "call", "subscribe";
    ENLIST: "call", "enlist";
    COLLECT: "call", "collect";
    SETTLE: "call", "settle";
    REDELIVER: "call", "redeliver";
}

// On the Redis of a Sidekiq, whose keys are its own.
script!(LOOK, false, "sidekiq/look");
script!(CREW, false, "sidekiq/crew");
script!(DELIVER, false, "sidekiq/deliver");
script!(CLAIM, false, "sidekiq/claim");
script!(GIVE_BACK, false, "sidekiq/restore", "sidekiq/give_back");
script!(FAIRPLAY, false, "sidekiq/fairplay");
script!(YIELD, false, "sidekiq/yield");
script!(WORK, false, "sidekiq/work");

/// Scripts after which a client is told that its job is accepted or its answer kept, or a Sidekiq that its job was taken in.
const CONFIRMED: &[&str] = &["ENQUEUE", "STAGE", "ADMIT", "ACK", "NACK", "BEGIN", "SCHEDULE", "DRAIN"];

fn digest(text: &str) -> String {
    sha1_smol::Sha1::from(text).digest().to_string()
}

impl Script {
    fn function_name(&self) -> String {
        format!("{PREFIX}{}_{}", self.name.to_lowercase(), &digest(self.source)[..12])
    }

    /// The text that EVAL runs.
    fn text(&self) -> String {
        if !self.is_ours {
            return self.source.to_owned();
        }
        format!("return (function()\n{}return handle end)()(KEYS, ARGV)", self.source)
    }

    /// The library's text. While it is loaded nothing but its registration is allowed, so its first call sets it up.
    fn library(&self) -> String {
        let (name, source) = (self.function(), self.source);
        format!(
            "#!lua name={name}\nlocal handle\nredis.register_function('{name}', function(keys, arguments)\n\
             if not handle then handle = (function()\n{source}return handle end)() end\n\
             return handle(keys, arguments) end)"
        )
    }

    /// The name under which FCALL knows the script.
    pub(super) fn function(&self) -> &str {
        &self.function
    }

    /// Whether somebody is told that what it wrote is safe: it waits for `store.wait_replicas`.
    fn is_confirmed(&self) -> bool {
        self.is_ours && CONFIRMED.contains(&self.name)
    }

    /// Calls the script. `fill` appends the arguments and is told whether the call is sent again.
    pub(super) async fn call(&self, link: &Connection, fill: impl Fn(&mut Cmd, bool)) -> Result<Value, Error> {
        let send = async |verb: &str, script: &str, before: bool| {
            let make = |again| {
                let mut command = redis::cmd(verb);
                command.arg(script);
                fill(&mut command, again || before);
                command
            };
            match self.is_confirmed() {
                true => link.call_confirmed(self.name, make).await,
                false => link.call(self.name, make).await,
            }
        };
        let mut before = false;
        // Twice, because Redis may have been restarted or emptied of functions, or never had this one.
        for is_loaded in [false, true] {
            if !self.is_ours || !link.has_functions() || (is_loaded && !self.load(link).await?) {
                break;
            }
            match send("FCALL", self.function(), before).await {
                Err(Error::NoScript { again }) => before = again,
                // A full Redis refuses a function whole, but a script only where it would take more memory.
                Err(error) if error.is_full() => {
                    before = true;
                    break;
                }
                outcome => return outcome,
            }
        }
        match send("EVALSHA", &self.sha, before).await {
            // EVAL also stores the script.
            Err(Error::NoScript { again }) => send("EVAL", &self.text(), again).await,
            outcome => outcome,
        }
    }

    /// Loads the library; false if there can be none here, which is then known.
    async fn load(&self, link: &Connection) -> Result<bool, Error> {
        let library = self.library();
        let make = |_| redis::cmd("FUNCTION").arg("LOAD").arg("REPLACE").arg(&library).to_owned();
        match link.call("FUNCTION", make).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_full() => Ok(false),
            Err(Error::Backend(reason)) => {
                tracing::info!(reason, "Redis loads no functions for us; scripts are sent instead, which is slower");
                link.without_functions();
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// Name and text of each script, as a library and as EVAL runs it: whether Redis takes them all is shown by a test.
pub fn script_texts() -> impl Iterator<Item = (&'static str, String, String)> {
    OURS.iter().map(|script| (script.name, script.library(), script.text()))
}

/// Deletes libraries that other versions of us have left behind. One that a process still uses is loaded again by it.
pub(super) async fn forget_others(link: &Connection) -> Result<(), Error> {
    let make = |_| redis::cmd("FUNCTION").arg("LIST").arg("LIBRARYNAME").arg(format!("{PREFIX}*")).to_owned();
    let listed = link.call("FUNCTION", make).await?;
    let names: Vec<std::collections::HashMap<String, Value>> = redis::from_redis_value(listed).unwrap_or_default();
    for name in names.iter().filter_map(|library| library.get("library_name")) {
        let Ok(name) = redis::from_redis_value::<String>(name.clone()) else { continue };
        if !OURS.iter().any(|script| script.function() == name) {
            link.call("FUNCTION", |_| redis::cmd("FUNCTION").arg("DELETE").arg(&name).to_owned()).await?;
        }
    }
    Ok(())
}
