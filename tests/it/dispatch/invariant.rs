//! What must hold between the keys of lanes, whatever happened: every waiting job is in one lane, and every lane in one place.

use super::Ground;
use redis::aio::MultiplexedConnection;
use std::collections::{BTreeMap, BTreeSet};

const PREFIX: &str = "fg:{default}:";

struct Look {
    redis: MultiplexedConnection,
}

impl Look {
    async fn ask<T: redis::FromRedisValue>(&mut self, words: &[&str]) -> T {
        let mut command = redis::Cmd::new();
        words.iter().for_each(|word| _ = command.arg(*word));
        command.query_async(&mut self.redis).await.expect("Redis carries the command out")
    }

    /// Members of a sorted set with their scores.
    async fn members(&mut self, key: &str) -> Vec<(String, f64)> {
        self.ask(&["ZRANGE", key, "0", "-1", "WITHSCORES"]).await
    }

    async fn keys(&mut self) -> Vec<String> {
        let keys: Vec<String> = self.ask(&["KEYS", &format!("{PREFIX}*")]).await;
        keys.iter().map(|key| key[PREFIX.len()..].to_owned()).collect()
    }
}

/// Looks at all lanes of all queues.
pub async fn check(ground: &Ground) {
    let mut look = Look { redis: ground.app.redis.connection().await };
    let keys = look.keys().await;
    let (mut homes, mut lanes) = (BTreeMap::new(), BTreeMap::new());
    for key in keys.iter().filter(|key| key.starts_with("lane:")) {
        let (queue, lane) = key["lane:".len()..].split_once(':').unwrap();
        let jobs = look.members(&format!("{PREFIX}{key}")).await;
        lanes.insert((queue.to_owned(), lane.to_owned()), jobs[0].1);
        for (id, _) in jobs {
            let other = homes.insert(id.clone(), key.clone());
            assert_eq!(other, None, "{id} is in two lanes, the second is {key}");
        }
    }
    let mut available = BTreeSet::new();
    for key in keys.iter().filter(|key| key.starts_with("job:")) {
        let record: Vec<u8> = look.ask(&["GET", &format!("{PREFIX}{key}")]).await;
        if record.starts_with(b"available\x1f") {
            available.insert(key["job:".len()..].to_owned());
        }
    }
    assert_eq!(homes.keys().cloned().collect::<BTreeSet<_>>(), available, "waiting jobs are those in lanes");
    let mut places = Places::default();
    places.read(&mut look, &keys).await;
    places.compare(&lanes);
    let live: BTreeSet<String> =
        look.members(&format!("{PREFIX}live")).await.into_iter().map(|(queue, _)| queue).collect();
    let ready: BTreeSet<String> = keys.iter().filter_map(|key| Some(key.strip_prefix("ready:")?.to_owned())).collect();
    assert_eq!(live, ready, "queues that are live are those with something ready");
    places.check_levels(&mut look).await;
}

/// Where lanes are: by queue and name, each with the score under which it stands there and the name of the place.
#[derive(Default)]
struct Places {
    of: BTreeMap<(String, String), Vec<(Option<f64>, String)>>,
    /// Levels that stand in `ready`, and the tenants of each that has lanes.
    levels: BTreeSet<(String, String)>,
    tenants: BTreeMap<(String, String), BTreeSet<String>>,
}

impl Places {
    async fn read(&mut self, look: &mut Look, keys: &[String]) {
        for key in keys {
            if let Some(queue) = key.strip_prefix("ready:") {
                for (lane, score) in look.members(&format!("{PREFIX}{key}")).await {
                    match lane.strip_prefix('@') {
                        Some(level) => _ = self.levels.insert((queue.to_owned(), level.to_owned())),
                        None => self.put(queue, lane, Some(score), key),
                    }
                }
            } else if let Some((of, tenant)) = key.strip_prefix("level:").and_then(|key| key.split_once(":lanes:")) {
                let (queue, level) = of.split_once(':').unwrap();
                self.tenants.entry((queue.to_owned(), level.to_owned())).or_default().insert(tenant.to_owned());
                for (lane, score) in look.members(&format!("{PREFIX}{key}")).await {
                    assert!(lane.ends_with(&format!(";t={tenant}")), "{lane} at {tenant}");
                    self.put(queue, lane, Some(score), key);
                }
            } else if let Some(queue) = key.strip_prefix("parked:") {
                let parked: BTreeMap<String, String> = look.ask(&["HGETALL", &format!("{PREFIX}{key}")]).await;
                parked.into_keys().for_each(|lane| self.put(queue, lane, None, key));
            }
        }
    }

    fn put(&mut self, queue: &str, lane: String, score: Option<f64>, place: &str) {
        self.of.entry((queue.to_owned(), lane)).or_default().push((score, place.to_owned()));
    }

    fn compare(&self, lanes: &BTreeMap<(String, String), f64>) {
        for (lane, places) in &self.of {
            assert_eq!(places.len(), 1, "{lane:?} is in {places:?}");
            let head = lanes.get(lane);
            assert!(head.is_some(), "{lane:?} holds nothing and is in {places:?}");
            assert!(places[0].0.is_none() || places[0].0.as_ref() == head, "{lane:?} has another head than {places:?}");
        }
        for lane in lanes.keys() {
            assert!(self.of.contains_key(lane), "{lane:?} is nowhere");
        }
    }

    /// The fair queue of a level holds exactly those tenants that have lanes, and stands in `ready` exactly while there are some.
    async fn check_levels(&self, look: &mut Look) {
        let with_tenants: BTreeSet<_> = self.tenants.keys().cloned().collect();
        assert_eq!(self.levels, with_tenants);
        for ((queue, level), tenants) in &self.tenants {
            let key = format!("{PREFIX}level:{queue}:{level}");
            let busy: Vec<String> = look.ask(&["HKEYS", &format!("{key}:busy")]).await;
            assert_eq!(&busy.into_iter().collect::<BTreeSet<_>>(), tenants, "{key}");
            let counted: usize = look.ask(&["HGET", &key, "n"]).await;
            assert_eq!(counted, tenants.len(), "{key}");
            let mut waiting = BTreeSet::new();
            for class in look.ask::<Vec<String>>(&["SMEMBERS", &format!("{key}:classes")]).await {
                waiting.extend(look.members(&format!("{key}:c:{class}")).await.into_iter().map(|(tenant, _)| tenant));
            }
            assert_eq!(&waiting, tenants, "{key}");
        }
    }
}
