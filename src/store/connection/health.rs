//! Checks of a Redis server: whether fairgate can use it, and whether its settings can lose jobs.

use super::{RawConnection, migration, replication};
use crate::clock::Clock;
use crate::store::{Address, Error, OlderData, SCHEMA, keys, reply};
use redis::Cmd;
use std::time::{Duration, Instant};

/// The oldest supported Redis: scripts use `ZADD LT` and `XTRIM MINID`.
const OLDEST: (u32, u32) = (6, 2);
/// The oldest supported Redis of an external main queue.
const OLDEST_OTHER: (u32, u32) = (5, 0);
/// Largest tolerated clock difference. A larger one makes timestamps confusing, but nothing else
/// depends on it.
const TOLERATED_SKEW_MS: i64 = 2000;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Good,
    Warning,
    Bad,
}

/// The result of one check, with advice if there is something to do.
#[derive(Clone, Debug)]
pub struct CheckFinding {
    pub severity: Severity,
    pub what: String,
    pub advice: Option<String>,
}

/// The results of all checks.
#[derive(Clone, Debug, Default)]
pub struct ServerChecks {
    pub findings: Vec<CheckFinding>,
}

impl ServerChecks {
    /// Returns true if fairgate can use this server.
    pub fn is_usable(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity != Severity::Bad)
    }

    pub(super) fn add(&mut self, severity: Severity, what: impl Into<String>, advice: Option<&str>) {
        self.findings.push(CheckFinding { severity, what: what.into(), advice: advice.map(str::to_owned) });
    }

    /// Connects and runs all checks. `wait_replicas` is the number of replicas that must confirm
    /// each job.
    pub async fn of(address: &Address, namespace: &str, deadline: Duration, wait_replicas: usize) -> ServerChecks {
        let mut report = ServerChecks::default();
        match tokio::time::timeout(deadline, report.run(address, namespace, wait_replicas)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => report.add(
                Severity::Bad,
                format!("Redis cannot be used: {error}"),
                Some("check store.url, the password, and that the server runs and accepts connections from this host"),
            ),
            Err(_) => report.add(
                Severity::Bad,
                format!("Redis did not answer within {deadline:?}"),
                Some("check store.url and the network"),
            ),
        }
        report
    }

    async fn run(&mut self, address: &Address, namespace: &str, wait_replicas: usize) -> Result<(), Error> {
        let failed = |error: redis::RedisError| Error::from_redis(&error).0;
        let mut connection = address.open().map_err(failed)?.connect().await.map_err(failed)?.connection;
        let started = Instant::now();
        ask(&mut connection, "PING", &[]).await?;
        let round_trip = started.elapsed();
        self.add(Severity::Good, format!("reachable, round trip {:.2} ms", round_trip.as_secs_f64() * 1e3), None);

        let info = info(ask(&mut connection, "INFO", &[]).await?)?;
        let field = |name: &str| field(&info, name).unwrap_or_default().to_owned();
        self.check_version(&info);
        self.check_role(&field("role"));
        self.check_durability(&field, &mut connection).await;
        let key = keys::Keys::new(namespace).schema();
        self.check_replicas(&mut connection, &address.topology, &key, wait_replicas).await?;
        self.check_clock(&mut connection, round_trip).await?;
        self.check_schema(&mut connection, namespace).await
    }

    fn check_version(&mut self, info: &str) {
        let version = field(info, "redis_version").unwrap_or_default();
        match is_supported(version) {
            true => self.add(Severity::Good, server_name(info), None),
            false => self.add(Severity::Bad, too_old(version, OLDEST), Some("use Redis 6.2 to 8, or Valkey")),
        }
    }

    fn check_role(&mut self, role: &str) {
        match role {
            "slave" | "replica" => self.add(
                Severity::Bad,
                "this server is a read-only replica",
                Some("point store.url at the primary, or use redis+sentinel://"),
            ),
            role => self.add(Severity::Good, format!("role {role}"), None),
        }
    }

    async fn check_durability(&mut self, field: &impl Fn(&str) -> String, connection: &mut RawConnection) {
        let append_only = field("aof_enabled") == "1";
        let fsync = setting(connection, "appendfsync").await;
        match (append_only, fsync.as_deref()) {
            (false, _) => self.add(
                Severity::Warning,
                "appendonly is off: accepted jobs since the last snapshot are lost when Redis stops",
                Some("set `appendonly yes`"),
            ),
            (true, Some("no")) => self.add(
                Severity::Warning,
                "appendfsync is `no`: the operating system decides when jobs reach the disk",
                Some("set `appendfsync everysec` (at most a second is lost) or `always`"),
            ),
            (true, fsync) => self.add(
                Severity::Good,
                format!("appendonly is on, appendfsync {}", fsync.unwrap_or("unknown (CONFIG is not allowed)")),
                None,
            ),
        }
        let policy = Some(field("maxmemory_policy")).filter(|policy| !policy.is_empty());
        match policy.as_deref() {
            Some("noeviction") => self.add(Severity::Good, "maxmemory-policy is noeviction", None),
            Some(policy) => self.add(
                Severity::Warning,
                format!("maxmemory-policy is {policy}: when memory is full, Redis deletes jobs to make room"),
                Some("set `maxmemory-policy noeviction`; fairgate then returns HTTP 503 until there is room"),
            ),
            None => {}
        }
        if field("aof_last_write_status") == "err" || field("rdb_last_bgsave_status") == "err" {
            self.add(Severity::Warning, "the last write to disk failed", Some("check the disk and the log of Redis"));
        }
    }

    async fn check_clock(&mut self, connection: &mut RawConnection, round_trip: Duration) -> Result<(), Error> {
        let ours = Clock::System.now_ms();
        let time = reply::texts(ask(connection, "TIME", &[]).await?, "TIME")?;
        let number = |index: usize| time.get(index).and_then(|text| text.parse::<i64>().ok()).unwrap_or(0);
        let skew = number(0) * 1000 + number(1) / 1000 - ours;
        if skew.abs() > TOLERATED_SKEW_MS + round_trip.as_millis() as i64 {
            let what = format!("the clock of Redis differs from the local clock by {skew} ms");
            self.add(Severity::Warning, what, Some("run NTP on both hosts; fairgate uses the clock of Redis"));
        } else {
            self.add(Severity::Good, format!("clocks differ by {skew} ms"), None);
        }
        Ok(())
    }

    async fn check_schema(&mut self, connection: &mut RawConnection, namespace: &str) -> Result<(), Error> {
        let key = keys::Keys::new(namespace).schema();
        match reply::text(ask(connection, "GET", &[&key]).await?, "GET")?.as_str() {
            "" => self.add(Severity::Good, format!("namespace `{namespace}` is unused"), None),
            SCHEMA => self.add(Severity::Good, format!("namespace `{namespace}` has schema {SCHEMA}"), None),
            other => self.add(Severity::Bad, other_schema(&key, other), None),
        }
        Ok(())
    }
}

/// Checks a new connection to the store: the server's version, its role, and the schema of the
/// data. Writes the schema version into an unused namespace, and migrates data of an older
/// schema if it may.
pub(in crate::store) async fn check_server(
    mut connection: RawConnection,
    schema_key: String,
    older: OlderData,
    deadline: Duration,
) -> Result<(), Error> {
    let checks = async {
        // Ask concurrently, so that callers wait for only one round trip.
        let (mut first, mut second, key) = (connection.clone(), connection.clone(), [&*schema_key]);
        let (server, primary, schema) = tokio::join!(
            ask(&mut first, "INFO", &["server"]),
            replication::primary_of(&mut second),
            ask(&mut connection, "GET", &key),
        );
        let server = info(server?)?;
        let version = field(&server, "redis_version").unwrap_or_default();
        if !is_supported(version) {
            return Err(Error::Schema(too_old(version, OLDEST)));
        }
        if let Some(primary) = primary? {
            return Err(Error::Unavailable(format!("connected to a replica of {primary}")));
        }
        let found = reply::text(schema?, "GET")?;
        if found.is_empty() {
            return ask(&mut connection, "SETNX", &[&schema_key, SCHEMA]).await.map(drop);
        }
        let schema = match older {
            OlderData::Migrate => migration::migrate(&mut connection, &schema_key, found).await?,
            OlderData::Refuse => found,
        };
        match schema == SCHEMA {
            true => Ok(()),
            false => Err(Error::Schema(other_schema(&schema_key, &schema))),
        }
    };
    tokio::time::timeout(deadline, checks).await.unwrap_or(Err(Error::Timeout(deadline)))
}

/// Checks a new connection to the Redis of an external main queue. Scripts there read the clock
/// before they write, which needs Redis 5.
pub(in crate::store) async fn check_other_server(
    mut connection: RawConnection,
    deadline: Duration,
) -> Result<(), Error> {
    let checks = async {
        let version = match ask(&mut connection, "INFO", &["server"]).await {
            Ok(server) => field(&info(server)?, "redis_version").unwrap_or_default().to_owned(),
            // If the user may not run INFO, accept the server; unsupported commands fail later.
            Err(Error::Backend(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        match version.is_empty() || is_at_least(&version, OLDEST_OTHER) {
            true => Ok(()),
            false => Err(Error::Schema(too_old(&version, OLDEST_OTHER))),
        }
    };
    tokio::time::timeout(deadline, checks).await.unwrap_or(Err(Error::Timeout(deadline)))
}

/// Returns a setting of the server; `None` if CONFIG is forbidden, as on hosted servers.
pub(super) async fn setting(connection: &mut RawConnection, name: &str) -> Option<String> {
    match ask(connection, "CONFIG", &["GET", name]).await {
        Ok(redis::Value::Map(pairs)) => {
            pairs.into_iter().next().and_then(|(_, value)| reply::text(value, "CONFIG").ok())
        }
        Ok(value) => reply::texts(value, "CONFIG").ok().and_then(|texts| texts.into_iter().nth(1)),
        Err(_) => None,
    }
}

pub(super) async fn ask(connection: &mut RawConnection, name: &str, arguments: &[&str]) -> Result<redis::Value, Error> {
    let mut command = Cmd::new();
    command.arg(name).arg(arguments);
    connection.send(&command).await.map_err(|error| Error::from_redis(&error).0)
}

/// Returns the text of INFO. A cluster returns one for each node; any of them will do.
fn info(value: redis::Value) -> Result<String, Error> {
    match value {
        redis::Value::Map(nodes) => reply::text(nodes.into_iter().next().unwrap_or_default().1, "INFO"),
        value => reply::text(value, "INFO"),
    }
}

/// A field of INFO.
pub(in crate::store) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// Name and version of the server that INFO describes. Valkey gives the Redis version that it is compatible with as
/// `redis_version`.
pub(in crate::store) fn server_name(info: &str) -> String {
    let version = field(info, "redis_version").unwrap_or("of unknown version");
    match (field(info, "valkey_version"), field(info, "server_name")) {
        (Some(valkey), _) => format!("Valkey {valkey}, compatible with Redis {version}"),
        (None, Some(name)) => format!("{name} {version}"),
        (None, None) => format!("Redis {version}"),
    }
}

fn is_supported(version: &str) -> bool {
    is_at_least(version, OLDEST)
}

fn is_at_least(version: &str, oldest: (u32, u32)) -> bool {
    let mut numbers = version.split('.').map(|part| part.trim().parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= oldest
}

fn too_old(version: &str, (major, minor): (u32, u32)) -> String {
    format!("Redis {version} is too old: fairgate needs {major}.{minor} or newer")
}

/// The error for data of another schema.
fn other_schema(key: &str, found: &str) -> String {
    let advice = match migration::is_known(found) {
        true => "stop all processes of the older version, then start `fairgate serve`, which migrates the data",
        false => "use the version that wrote it, or another store.namespace",
    };
    format!("`{key}`: the data has schema {found:?}, and this version uses {SCHEMA:?}; {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_by_its_own_version() {
        for (info, expected) in [
            ("# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n", "Redis 7.0.15"),
            (
                "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\n",
                "Valkey 9.1.2, compatible with Redis 7.2.4",
            ),
            ("", "Redis of unknown version"),
        ] {
            assert_eq!(server_name(info), expected);
        }
    }

    #[test]
    fn versions_are_compared_by_number() {
        for (version, ours, other) in [
            ("7.0.15", true, true),
            ("6.2.0", true, true),
            ("6.0.16", false, true),
            ("10.1", true, true),
            ("4.0.9", false, false),
        ] {
            assert_eq!((is_supported(version), is_at_least(version, OLDEST_OTHER)), (ours, other), "{version}");
        }
        assert_eq!(too_old("4.0.9", OLDEST_OTHER), "Redis 4.0.9 is too old: fairgate needs 5.0 or newer");
    }
}
