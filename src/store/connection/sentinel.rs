//! Sentinels: the processes that know which Redis server is the primary of a service.

use crate::config::Host;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, Client, ErrorKind, RedisError, RedisResult};
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Time limit for the answer of a sentinel.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// Time to wait for the other sentinels after the first answer. A dead one must not delay a
/// failover.
const OTHERS_WITHIN: Duration = Duration::from_millis(100);
/// The channels on which a sentinel announces a new primary of any service: the first one as soon
/// as there is one, the second one when the other replicas follow it.
const SWITCHES: [&str; 2] = ["+promoted-slave", "+switch-master"];

/// The sentinels of a service.
pub(in crate::store) struct Sentinels {
    nodes: Vec<Node>,
    service: String,
}

struct Node {
    client: Client,
    /// Kept open, because the sentinel is asked once a second.
    connection: Mutex<Option<MultiplexedConnection>>,
}

/// A sentinel's answer.
struct Named {
    primary: Host,
    /// Grows with each failover, so the highest epoch is the newest.
    epoch: u64,
}

impl Sentinels {
    pub(super) fn new(clients: Vec<Client>, service: &str) -> Self {
        let nodes = clients.into_iter().map(|client| Node { client, connection: Mutex::new(None) });
        Sentinels { nodes: nodes.collect(), service: service.to_owned() }
    }

    /// Returns the primary according to the sentinels with the newest configuration. A sentinel
    /// that was cut off from the others still names the old primary. Several entries are names of
    /// the same server.
    pub(super) async fn primary(&self) -> RedisResult<Vec<Host>> {
        let mut asked: FuturesUnordered<_> = self.nodes.iter().map(|node| node.ask(&self.service)).collect();
        let mut deadline = Instant::now() + ANSWER_WITHIN;
        let (mut newest, mut named) = (0, Vec::new());
        let mut failure = RedisError::from((ErrorKind::Io, "no sentinel answered in time"));
        while let Ok(Some(answer)) = tokio::time::timeout_at(deadline, asked.next()).await {
            match answer {
                Ok(Named { primary, epoch }) => {
                    deadline = deadline.min(Instant::now() + OTHERS_WITHIN);
                    if epoch > newest {
                        named.clear();
                    }
                    newest = newest.max(epoch);
                    if epoch == newest && !named.contains(&primary) {
                        named.push(primary);
                    }
                }
                Err(error) => failure = error,
            }
        }
        if named.is_empty() { Err(failure) } else { Ok(named) }
    }

    /// Subscribes to announcements of new primaries, at any sentinel.
    pub(super) async fn switches(&self) -> RedisResult<PubSub> {
        let mut last = Err((ErrorKind::EmptySentinelList, "no sentinel is configured").into());
        for node in &self.nodes {
            let subscribe = async {
                let mut subscription = node.client.get_async_pubsub().await?;
                subscription.subscribe(&SWITCHES).await?;
                Ok(subscription)
            };
            last = match tokio::time::timeout(ANSWER_WITHIN, subscribe).await {
                Ok(Ok(subscription)) => return Ok(subscription),
                Ok(Err(error)) => Err(error),
                Err(_) => Err((ErrorKind::Io, "a sentinel did not answer in time").into()),
            };
        }
        last
    }
}

impl Node {
    async fn ask(&self, service: &str) -> RedisResult<Named> {
        let mut kept = self.connection.lock().await;
        // Take the connection out, so that it is not used again if its answer does not arrive in
        // time.
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => {
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(Some(ANSWER_WITHIN))
                    .set_response_timeout(Some(ANSWER_WITHIN));
                self.client.get_multiplexed_async_connection_with_config(&config).await?
            }
        };
        // During a failover only the second command returns the new primary, and does so at once.
        let mut questions = redis::pipe();
        questions.cmd("SENTINEL").arg("MASTER").arg(service);
        questions.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(service);
        let (state, address): (HashMap<String, String>, Option<(String, u16)>) =
            questions.query_async(&mut connection).await?;
        *kept = Some(connection);
        let Some((name, port)) = address else {
            return Err((ErrorKind::MasterNameNotFoundBySentinel, "the sentinel does not know the service").into());
        };
        let epoch = state.get("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or(0);
        Ok(Named { primary: Host { name, port }, epoch })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn without_an_answer_there_is_no_primary() {
        assert!(Sentinels::new(Vec::new(), "main").primary().await.is_err());
    }
}
