//! A server's role in replication, and its replicas.

use super::health::{ask, setting};
use super::{RawConnection, ServerChecks, Severity};
use crate::config::Topology;
use crate::store::{Error, reply};
use redis::{Pipeline, Value};

/// Returns a replica's primary as `host:port`; `None` for a primary. Uses INFO and not ROLE,
/// because users without administrator rights may only be allowed the former.
pub(super) async fn primary_of(connection: &mut RawConnection) -> Result<Option<String>, Error> {
    let reply = ask(connection, "INFO", &["replication"]).await?;
    if matches!(reply, Value::Map(_)) {
        return Ok(None); // of all nodes of a cluster, whose client finds the primaries itself
    }
    let info = reply::text(reply, "INFO")?;
    let is_replica = matches!(field(&info, "role"), "slave" | "replica");
    Ok(is_replica.then(|| format!("{}:{}", field(&info, "master_host"), field(&info, "master_port"))))
}

/// Returns the id of a server process, which changes when the server restarts.
pub(super) async fn run_id(connection: &mut RawConnection) -> Result<String, Error> {
    let info = reply::text(ask(connection, "INFO", &["server"]).await?, "INFO")?;
    Ok(field(&info, "run_id").to_owned())
}

fn field<'t>(info: &'t str, name: &str) -> &'t str {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or("").trim()
}

impl ServerChecks {
    /// Checks for settings that lose jobs in a failover. In a cluster, `key` selects the node.
    pub(super) async fn check_replicas(
        &mut self,
        connection: &mut RawConnection,
        topology: &Topology,
        key: &str,
        wait_replicas: usize,
    ) -> Result<(), Error> {
        let mut question = Pipeline::new();
        question.cmd("INFO").arg("replication");
        let failed = |error: redis::RedisError| Error::from_redis(&error).0;
        let replies = connection.send_to_slot(&question, key).await.map_err(failed)?;
        let info = reply::text(replies.into_iter().next().unwrap_or(Value::Nil), "INFO")?;
        if field(&info, "role") != "master" {
            return Ok(()); // the role check reports this
        }
        let connected: usize = field(&info, "connected_slaves").parse().unwrap_or(0);
        if wait_replicas > connected {
            self.add(
                Severity::Warning,
                format!("store.wait_replicas is {wait_replicas}, but connected replicas are {connected}: every enqueue request fails with HTTP 503"),
                Some("connect more replicas, or lower store.wait_replicas"),
            );
        }
        if connected == 0 && !matches!(topology, Topology::Sentinel { .. }) {
            return Ok(());
        }
        // Hosted servers forbid CONFIG, so the setting may be unknown.
        match setting(connection, "min-replicas-to-write").await.as_deref() {
            Some("0") => self.add(
                Severity::Warning,
                "min-replicas-to-write is 0: a primary that lost its replicas accepts jobs, and a failover loses them",
                Some("set `min-replicas-to-write 1` and `min-replicas-max-lag 10` on all servers; fairgate then returns HTTP 503"),
            ),
            Some(least) => self.add(Severity::Good, format!("min-replicas-to-write is {least}"), None),
            None => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let info = "# Replication\r\nrole:slave\r\nmaster_host:10.0.0.1\r\nmaster_host_x:no\r\nmaster_port:6379\r\n";
        assert_eq!(
            (field(info, "role"), field(info, "master_host"), field(info, "missing")),
            ("slave", "10.0.0.1", "")
        );
    }
}
