//! Invariants of the lane keys: every waiting job is in one lane, and every lane in one place.

use super::DispatchEnv;
use std::collections::{BTreeMap, BTreeSet};

const PREFIX: &str = "fg:{default}:";

/// A script that reads everything about lanes: keys and their contents.
const READ: &str = "
    local prefix, found = ARGV[1], {}
    for _, key in ipairs(redis.call('KEYS', prefix .. '*')) do
      local name, words = string.sub(key, #prefix + 1), nil
      local kind, is_level = string.match(name, '^%a+'), string.find(name, '^level:')
      local type = redis.call('TYPE', key).ok
      if type == 'string' and kind == 'job' then
        words = {string.match(redis.call('GET', key), '^%a+')}
      elseif type == 'zset' and (kind == 'lane' or kind == 'ready' or name == 'live' or is_level) then
        words = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
      elseif type == 'hash' and (kind == 'parked' or is_level) then
        words = redis.call('HGETALL', key)
      end
      if words then
        table.insert(words, 1, name)
        found[#found + 1] = words
      end
    end
    return found";

/// Keys without their prefix, each with its members and their scores, or its fields and their values.
#[derive(Default)]
struct QueueReading {
    keys: BTreeMap<String, Vec<(String, String)>>,
}

impl QueueReading {
    async fn at(env: &DispatchEnv) -> QueueReading {
        let found: Vec<Vec<String>> = env.redis.command(&["EVAL", READ, "0", PREFIX]).await;
        let pairs = |words: &[String]| {
            words.chunks(2).map(|pair| (pair[0].clone(), pair.get(1).cloned().unwrap_or_default())).collect()
        };
        QueueReading { keys: found.iter().map(|words| (words[0].clone(), pairs(&words[1..]))).collect() }
    }

    /// Keys below a name, without it.
    fn below<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, &'a [(String, String)])> {
        self.keys.iter().filter_map(move |(key, words)| Some((key.strip_prefix(name)?, words.as_slice())))
    }

    fn words(&self, key: &str) -> &[(String, String)] {
        self.keys.get(key).map_or(&[], Vec::as_slice)
    }
}

fn score(text: &str) -> f64 {
    text.parse().expect("a score")
}

/// Checks all lanes of all queues.
pub async fn check(env: &DispatchEnv) {
    let look = QueueReading::at(env).await;
    let (mut homes, mut lanes) = (BTreeSet::new(), BTreeMap::new());
    for (key, jobs) in look.below("lane:") {
        let (queue, lane) = key.split_once(':').unwrap();
        lanes.insert((queue.to_owned(), lane.to_owned()), score(&jobs[0].1));
        for (id, _) in jobs {
            assert!(homes.insert(id.as_str()), "{id} is in two lanes, the second is {key}");
        }
    }
    let available: BTreeSet<&str> =
        look.below("job:").filter(|(_, state)| state[0].0 == "available").map(|(id, _)| id).collect();
    assert_eq!(homes, available, "waiting jobs are those in lanes");
    let mut places = Places::default();
    places.read(&look);
    places.compare(&lanes);
    let live: BTreeSet<&str> = look.words("live").iter().map(|(queue, _)| queue.as_str()).collect();
    let ready: BTreeSet<&str> = look.below("ready:").map(|(queue, _)| queue).collect();
    assert_eq!(live, ready, "live queues are those with ready lanes");
    places.check_levels(&look);
}

/// The score of a lane in an index, and the index.
type Place = (Option<f64>, String);

/// The places of lanes, by queue and name.
#[derive(Default)]
struct Places {
    of: BTreeMap<(String, String), Vec<Place>>,
    /// Levels in `ready`, and the tenants with lanes in each.
    levels: BTreeSet<(String, String)>,
    tenants: BTreeMap<(String, String), BTreeSet<String>>,
}

impl Places {
    fn read(&mut self, look: &QueueReading) {
        for (queue, members) in look.below("ready:") {
            for (lane, at) in members {
                match lane.strip_prefix('@') {
                    Some(level) => _ = self.levels.insert((queue.to_owned(), level.to_owned())),
                    None => self.put(queue, lane, Some(score(at)), "ready"),
                }
            }
        }
        for (key, members) in look.below("level:") {
            let Some((of, tenant)) = key.split_once(":lanes:") else { continue };
            let (queue, level) = of.split_once(':').unwrap();
            self.tenants.entry((queue.to_owned(), level.to_owned())).or_default().insert(tenant.to_owned());
            for (lane, at) in members {
                assert!(lane.ends_with(&format!(";t={tenant}")), "{lane} at {tenant}");
                self.put(queue, lane, Some(score(at)), key);
            }
        }
        for (queue, lanes) in look.below("parked:") {
            lanes.iter().for_each(|(lane, _)| self.put(queue, lane, None, "parked"));
        }
    }

    fn put(&mut self, queue: &str, lane: &str, score: Option<f64>, place: &str) {
        self.of.entry((queue.to_owned(), lane.to_owned())).or_default().push((score, place.to_owned()));
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

    /// The fair queue of a level holds exactly the tenants that have lanes, and the level is in `ready` only while
    /// there are some.
    fn check_levels(&self, look: &QueueReading) {
        assert_eq!(self.levels, self.tenants.keys().cloned().collect());
        for ((queue, level), tenants) in &self.tenants {
            let key = format!("level:{queue}:{level}");
            let mut tenants = tenants.clone();
            let busy: BTreeSet<String> =
                look.words(&format!("{key}:busy")).iter().map(|(tenant, _)| tenant.clone()).collect();
            // Lanes without a tenant join and leave during fetches.
            tenants.extend(busy.get("*").cloned());
            assert_eq!(busy, tenants, "{key}");
            let counted = look.words(&key).iter().find(|(field, _)| field == "n").map(|(_, count)| count.as_str());
            assert_eq!(counted, Some(tenants.len().to_string().as_str()), "{key}");
            let weighed = look.words(&key).iter().find(|(field, _)| field == "w").map(|(_, sum)| score(sum));
            assert_eq!(weighed, Some(weight_of_level(look, &key)), "{key}");
            let below = format!("{key}:c:");
            let waiting = look.below(&below).flat_map(|(_, members)| members).map(|(tenant, _)| tenant.clone());
            assert_eq!(waiting.collect::<BTreeSet<_>>(), tenants, "{key}");
            let classes = look.words(&key).iter().find(|(field, _)| field == "classes").map_or("", |(_, text)| text);
            let unnamed: Vec<_> =
                look.below(&below).filter(|(class, _)| !classes.split(' ').any(|one| one == *class)).collect();
            assert!(unnamed.is_empty(), "{key} names {classes:?}, and not {unnamed:?}");
            let tells = look.words(&key).contains(&("leavers".to_owned(), "1".to_owned()));
            let has_left =
                ["left", "leaving", "moments", "sums"].map(|name| look.words(&format!("{key}:{name}")).len());
            assert!(tells || has_left == [0; 4], "{key} does not count departed tenants: {has_left:?}");
        }
    }
}

/// The total weight of the tenants that wait in a level or still count although they have left.
fn weight_of_level(look: &QueueReading, key: &str) -> f64 {
    let waiting = look.words(&format!("{key}:busy")).iter().map(|(_, text)| score(text.split(' ').next().unwrap()));
    let leaving = look.words(&format!("{key}:sums")).iter().map(|(_, sum)| score(sum));
    waiting.chain(leaving).sum()
}
