//! Watches a connection behind Sentinel and replaces it as soon as another server is the primary.
//!
//! After a planned failover the old primary accepts writes for ten more seconds, until Sentinel has
//! made it a replica, which discards them. The connection does not show that, so Sentinel is asked:
//! when it announces a new primary, and once a second, because an announcement may be lost.

use super::client::reconnect_backoff;
use super::sentinel::Sentinels;
use super::{Connection, replication};
use futures_util::StreamExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

const INTERVAL: Duration = Duration::from_secs(1);
/// Time limit for a server to report its role.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// Watches a connection until `stop`. Returns at once if the address has no sentinels.
pub(super) async fn run(connection: Connection, stop: CancellationToken) {
    let Some(sentinels) = connection.sentinels() else { return };
    let switched = Notify::new();
    let check = async {
        loop {
            _ = tokio::time::timeout(INTERVAL, switched.notified()).await;
            check(&connection, &sentinels).await;
        }
    };
    tokio::select! {
        () = listen(&sentinels, &switched) => {}
        () = check => {}
        () = stop.cancelled() => {}
    }
}

/// Passes on announcements. Reconnects whenever the subscription breaks.
async fn listen(sentinels: &Arc<Sentinels>, switched: &Notify) {
    let mut backoff = reconnect_backoff();
    loop {
        match sentinels.switches().await {
            Ok(mut subscription) => {
                backoff.reset();
                // An announcement may have been missed before.
                switched.notify_one();
                let mut announcements = subscription.on_message();
                while announcements.next().await.is_some() {
                    switched.notify_one();
                }
            }
            Err(error) => tracing::debug!(%error, "cannot subscribe to announcements of Sentinel"),
        }
        tokio::time::sleep(backoff.next_delay()).await;
    }
}

/// Retires the connection if its server is not the primary.
async fn check(connection: &Connection, sentinels: &Sentinels) {
    let Some(mut session) = connection.session() else { return };
    // Without an answer, keep the connection, which may well be good.
    if let (Ok(named), Some(server)) = (sentinels.primary().await, &session.server)
        && !named.contains(server)
    {
        tracing::warn!(old = %server, new = %named[0], "Sentinel named another primary; connecting to it");
        return connection.retire(session.generation);
    }
    let role = tokio::time::timeout(ANSWER_WITHIN, replication::primary_of(&mut session.connection)).await;
    if let Ok(Ok(Some(primary))) = role {
        tracing::warn!(primary, "the Redis server became a replica; asking Sentinel for the primary");
        connection.retire(session.generation);
    }
}
