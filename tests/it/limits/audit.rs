//! Invariants of the keys in Redis that hold at any time.

use crate::support::TestApp;
use fairgate::domain::limit::{LimitKey, LimitScope};
use redis::FromRedisValue;
use redis::aio::MultiplexedConnection;
use std::collections::{BTreeMap, BTreeSet};

const PREFIX: &str = "fg:{default}:";

type Scores = Vec<(String, f64)>;

/// All data about lanes and limits in Redis.
#[derive(Default)]
struct Keys {
    /// By queue and lane: ids and scores.
    lanes: BTreeMap<(String, String), Scores>,
    /// By queue: lanes that may run, with the score of their first job; lanes of tenants are found through their level.
    ready: BTreeMap<String, BTreeMap<String, f64>>,
    /// Queues with an entry in `live`.
    live: BTreeSet<String>,
    parked: BTreeMap<(String, String), String>,
    /// By limit and queue: lanes and scores.
    waits: BTreeMap<(String, String), BTreeMap<String, f64>>,
    limits: BTreeMap<String, BTreeMap<String, String>>,
    at: BTreeMap<String, BTreeMap<String, i64>>,
    runs: BTreeMap<String, BTreeSet<String>>,
    counts: BTreeMap<String, BTreeMap<String, i64>>,
    leases: BTreeSet<String>,
    wakes: BTreeMap<String, f64>,
    state: BTreeMap<String, String>,
    /// By id: state, queue and lane.
    jobs: BTreeMap<String, (String, String, String)>,
}

/// Runs one command for each key; returns the replies with the rest of the key's name.
async fn read<T: FromRedisValue>(
    connection: &mut MultiplexedConnection,
    keys: &[String],
    start: &str,
    command: &[&str],
) -> Vec<(String, T)> {
    let names: Vec<&str> = keys.iter().filter_map(|key| key.strip_prefix(PREFIX)?.strip_prefix(start)).collect();
    let mut replies = Vec::new();
    for some in names.chunks(500) {
        let mut pipe = redis::pipe();
        for name in some {
            pipe.cmd(command[0]).arg(format!("{PREFIX}{start}{name}")).arg(&command[1..]);
        }
        replies.extend(pipe.query_async::<Vec<T>>(connection).await.expect("Redis tells"));
    }
    names.into_iter().map(str::to_owned).zip(replies).collect()
}

impl Keys {
    async fn read(app: &TestApp) -> Keys {
        const ALL: [&str; 4] = ["ZRANGE", "0", "-1", "WITHSCORES"];
        let mut connection = app.redis.connection().await;
        let c = &mut connection;
        let all: Vec<String> = redis::cmd("KEYS").arg(format!("{PREFIX}*")).query_async(c).await.expect("keys");
        let mut keys = Keys::default();
        for (name, scores) in read::<Scores>(c, &all, "lane:", &ALL).await {
            let (queue, lane) = name.split_once(':').expect("queue and lane");
            keys.lanes.insert((queue.to_owned(), lane.to_owned()), scores);
        }
        for (queue, scores) in read::<Scores>(c, &all, "ready:", &ALL).await {
            let own = scores.into_iter().filter(|(lane, _)| !lane.starts_with('@'));
            keys.ready.entry(queue.clone()).or_default().extend(own);
        }
        let of_tenants: Vec<String> = all.iter().filter(|key| key.contains(":lanes:")).cloned().collect();
        for (name, scores) in read::<Scores>(c, &of_tenants, "level:", &ALL).await {
            let (queue, _) = name.split_once(':').expect("queue and level");
            keys.ready.entry(queue.to_owned()).or_default().extend(scores);
        }
        for (queue, lanes) in read::<Vec<(String, String)>>(c, &all, "parked:", &["HGETALL"]).await {
            keys.parked.extend(lanes.into_iter().map(|(lane, entry)| ((queue.clone(), lane), entry)));
        }
        for (name, lanes) in read::<Scores>(c, &all, "wait:", &ALL).await {
            let (limit, queue) = name.rsplit_once(':').expect("limit and queue");
            keys.waits.insert((limit.to_owned(), queue.to_owned()), lanes.into_iter().collect());
        }
        keys.read_limits(c, &all).await;
        keys.counts = read(c, &all, "counts:", &["HGETALL"]).await.into_iter().collect();
        for (_, scores) in read::<Scores>(c, &all, "leases", &ALL).await {
            keys.leases = scores.into_iter().map(|(id, _)| id).collect();
        }
        for (_, scores) in read::<Scores>(c, &all, "live", &ALL).await {
            keys.live = scores.into_iter().map(|(queue, _)| queue).collect();
        }
        for (_, scores) in read::<Scores>(c, &all, "wakes", &ALL).await {
            keys.wakes = scores.into_iter().collect();
        }
        for (_, fields) in read(c, &all, "state", &["HGETALL"]).await {
            keys.state = fields;
        }
        for (id, text) in read::<String>(c, &all, "job:", &["GET"]).await {
            let parts: Vec<&str> = text.split('\u{1e}').collect();
            let fixed: Vec<&str> = parts[1].split('\u{1f}').collect();
            let state = parts[0].split('\u{1f}').next().unwrap_or_default();
            // With concurrency limits per tenant, the tenant is part of the name of the job's lane.
            let tenant = fixed[3..].chunks_exact(2).find(|pair| pair[0] == "tenant").map_or("_default", |pair| pair[1]);
            let is_strict = keys.state.get("policy").is_some_and(|letters| letters.contains('x'));
            let own = if is_strict { format!(";s=1;t={tenant}") } else { String::new() };
            keys.jobs.insert(id, (state.to_owned(), fixed[0].to_owned(), fixed[2].to_owned() + &own));
        }
        keys
    }

    async fn read_limits(&mut self, c: &mut MultiplexedConnection, all: &[String]) {
        let of = |suffix: &str| -> Vec<String> {
            let is_part = |key: &String| [":run", ":at", ":tags"].iter().any(|part| key.ends_with(part));
            let fits = |key: &String| if suffix.is_empty() { !is_part(key) } else { key.ends_with(suffix) };
            all.iter().filter(|key| fits(key)).cloned().collect()
        };
        self.limits = read(c, &of(""), "limit:", &["HGETALL"]).await.into_iter().collect();
        for (name, fields) in read(c, &of(":at"), "limit:", &["HGETALL"]).await {
            self.at.insert(name.trim_end_matches(":at").to_owned(), fields);
        }
        for (name, ids) in read(c, &of(":run"), "limit:", &["SMEMBERS"]).await {
            self.runs.insert(name.trim_end_matches(":run").to_owned(), ids);
        }
    }
}

/// Keys of the limits that a lane is under.
fn limits_of(queue: &str, lane: &str) -> Vec<String> {
    let part = |name: &str| lane.split(';').find_map(|part| part.strip_prefix(name).map(str::to_owned));
    // A partition of a key is under that key as well.
    let whole = part("k=").and_then(|key| key.split_once('|').map(|(whole, _)| whole.to_owned()));
    let mut keys: Vec<String> = [part("k="), whole, part("y=")].into_iter().flatten().collect();
    if let (Some(_), Some(tenant)) = (part("s="), part("t=")) {
        keys.push(format!("+{tenant}:{queue}"));
    }
    keys
}

/// Fails the test if the keys are inconsistent.
pub(super) async fn audit(app: &TestApp) {
    let keys = Keys::read(app).await;
    audit_lanes(&keys);
    audit_counts(&keys);
    audit_limits(&keys);
    audit_who_sleeps(app, &keys).await;
}

/// A lane is in exactly one place, under the score of its first job.
fn audit_lanes(keys: &Keys) {
    let mut places: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
    for (queue, lanes) in &keys.ready {
        for (lane, score) in lanes {
            let place = (queue.clone(), lane.clone());
            let head = keys.lanes.get(&place).map(|jobs| jobs[0].1);
            assert_eq!(head, Some(*score), "ready:{queue} has {lane} under the score of its first job");
            places.entry(place).or_default().push("ready");
        }
    }
    for (place, entry) in &keys.parked {
        let (queue, lane) = place;
        let limit = entry.split('\u{1f}').next().unwrap_or_default();
        let waits = keys.waits.get(&(limit.to_owned(), queue.clone())).and_then(|lanes| lanes.get(lane));
        let head = keys.lanes.get(place).map(|jobs| jobs[0].1);
        if !lane.contains(";t=") {
            assert_eq!(waits.copied(), head, "{lane} of {queue} waits for {limit} under the score of its first job");
        }
        assert!(waits.is_some() && head.is_some(), "{lane} of {queue} is parked for {limit}");
        places.entry(place.clone()).or_default().push("parked");
    }
    let strays: Vec<_> = keys.lanes.keys().filter(|lane| places.get(*lane).map_or(0, Vec::len) != 1).collect();
    assert!(strays.is_empty(), "in exactly one place: {strays:?} {places:?}");
    let waiting: usize = keys.waits.values().map(BTreeMap::len).sum();
    let parked = keys.state.get("parked").map_or(0, |number| number.parse().unwrap());
    assert_eq!((waiting, parked), (keys.parked.len(), keys.parked.len()), "waiting lanes are parked and counted");
    let alive: BTreeSet<String> =
        keys.ready.iter().filter(|(_, lanes)| !lanes.is_empty()).map(|(queue, _)| queue.clone()).collect();
    assert_eq!(keys.live, alive, "queues with ready lanes");
}

fn audit_counts(keys: &Keys) {
    for (queue, counts) in &keys.counts {
        let count = |name: &str| counts.get(name).copied().unwrap_or(0);
        let jobs = |state: &str| keys.jobs.values().filter(|job| job.0 == state && job.1 == *queue).count() as i64;
        let lanes = keys.lanes.iter().filter(|((of, _), _)| of == queue);
        let in_lanes: usize = lanes.clone().map(|(_, jobs)| jobs.len()).sum();
        let blocked: usize =
            lanes.filter(|(lane, _)| keys.parked.contains_key(*lane)).map(|(_, jobs)| jobs.len()).sum();
        assert_eq!((count("available"), jobs("available")), (in_lanes as i64, in_lanes as i64), "available in {queue}");
        assert_eq!(count("blocked"), blocked as i64, "blocked in {queue}");
        assert_eq!(count("active"), jobs("active"), "active in {queue}");
        assert_eq!(count("scheduled"), jobs("scheduled"), "scheduled in {queue}");
        assert_eq!(count("pending"), jobs("pending"), "pending in {queue}");
    }
    let active: BTreeSet<String> =
        keys.jobs.iter().filter(|(_, job)| job.0 == "active").map(|(id, _)| id.clone()).collect();
    assert_eq!(keys.leases, active, "leases match the active jobs");
}

fn audit_limits(keys: &Keys) {
    let under = |limit: &str, queue: &str, lane: &str| limits_of(queue, lane).iter().any(|key| key == limit);
    for (limit, fields) in &keys.limits {
        let number = |name: &str| fields.get(name).map_or(0, |number| number.parse::<i64>().unwrap());
        let lanes = keys.lanes.iter().filter(|((queue, lane), _)| under(limit, queue, lane));
        assert_eq!(number("n"), lanes.map(|(_, jobs)| jobs.len() as i64).sum::<i64>(), "available jobs under {limit}");
        let waits = keys.waits.iter().filter(|((of, _), _)| of == limit);
        assert_eq!(number("w"), waits.clone().map(|(_, lanes)| lanes.len() as i64).sum::<i64>(), "waits for {limit}");
        let mut at: BTreeMap<String, i64> = BTreeMap::new();
        for ((_, queue), lanes) in waits {
            at.insert(format!("w {queue}"), lanes.len() as i64);
        }
        for (queue, lanes) in &keys.ready {
            for lane in lanes.keys().filter(|lane| under(limit, queue, lane)) {
                let level = lane.split(';').next().unwrap();
                *at.entry(format!("r {level} {queue}")).or_default() += 1;
            }
        }
        assert_eq!(keys.at.get(limit).cloned().unwrap_or_default(), at, "lanes under {limit}");
        let leased =
            keys.jobs.iter().filter(|(_, (state, queue, lane))| state == "active" && under(limit, queue, lane));
        let leased: BTreeSet<String> = leased.map(|(id, _)| id.clone()).collect();
        assert_eq!(keys.runs.get(limit).cloned().unwrap_or_default(), leased, "active jobs under {limit}");
    }
    let known = |limit: &String| keys.limits.contains_key(limit);
    assert!(keys.runs.keys().all(known) && keys.at.keys().all(known), "a limit's parts have a limit");
}

fn priority(lane: &str) -> i32 {
    lane.split(';').next().unwrap()[1..].parse().expect("a lane begins with its priority")
}

/// The key of a limit under its name in Redis.
fn key_of(stored: &str) -> LimitKey {
    let signed = |sign, scope| stored.strip_prefix(sign).map(|name| LimitKey::of(scope, name));
    let of_server = signed('#', LimitScope::Queue).or_else(|| signed('~', LimitScope::Type));
    of_server.or_else(|| signed('+', LimitScope::Tenant)).unwrap_or_else(|| LimitKey::key(stored))
}

/// No lane waits for a limit with free slots. If only time can free one, a later check is scheduled: on a ready lane
/// that goes first anyway, or on the waiting lanes.
async fn audit_who_sleeps(app: &TestApp, keys: &Keys) {
    for ((limit, queue), lanes) in &keys.waits {
        let state = app.store().limit(&key_of(limit)).await.unwrap().expect("a limit that is waited for");
        let room = state.room.unwrap_or(u64::MAX).min(lanes.len() as u64) as usize;
        let ready: Vec<i32> = keys.ready.get(queue).map_or_else(Vec::new, |ready| {
            ready.keys().filter(|lane| limits_of(queue, lane).contains(limit)).map(|lane| priority(lane)).collect()
        });
        let wake = keys.wakes.get(limit).map(|at| *at as i64);
        let is_seen_to = wake.is_some_and(|at| at <= state.now);
        assert!(ready.len() >= room || is_seen_to, "{room} of {lanes:?} may run under {limit}: {state:?}");
        let first = lanes.keys().map(|lane| priority(lane)).max().expect("somebody waits");
        let is_full = state.quota.concurrency.is_some_and(|most| state.running >= u64::from(most));
        let is_used_up = state.quota.rate.is_some_and(|rate| state.started >= u64::from(rate.limit));
        let ends = state.hold_until.is_some() || state.overridden.flatten().is_some();
        let by_time = room == 0 && (ends || !is_full && (is_used_up || state.next_start > state.now));
        let is_led = ready.iter().any(|priority| *priority >= first);
        assert!(!by_time || is_led || wake.is_some(), "a check of {limit} is scheduled: {state:?}");
    }
}
