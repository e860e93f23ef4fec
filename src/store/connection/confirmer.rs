//! Confirmation by replicas: waits until writes to the primary have reached some of them.
//!
//! WAIT blocks its connection, so it has a connection of its own to the same server. WAIT covers
//! the last write of its own connection, so a write is sent before it: replication keeps the order,
//! so a replica that has this write has all earlier ones. That also covers a repeated call, which
//! finds its work done and writes nothing. Callers that wait at the same time share one WAIT.

use super::{PrimaryClient, RawConnection, replication};
use crate::store::SCHEMA;
use crate::store::error::Error;
use redis::{Pipeline, RedisResult, Value};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;

/// The confirmation that calls require.
#[derive(Clone)]
pub(in crate::store) struct Confirmation {
    pub(in crate::store) replicas: usize,
    pub(in crate::store) timeout: Duration,
    /// The key that is written before each WAIT: the schema version, whose value does not change.
    pub(in crate::store) schema_key: String,
}

/// The connection that sends WAIT.
pub(super) struct Confirmer {
    connection: RawConnection,
    wanted: Confirmation,
    /// The number of the last WAIT that was started.
    begun: AtomicU64,
    /// The number and reply of the last WAIT that was answered. Locked while a WAIT is in flight.
    last: Mutex<(u64, RedisResult<usize>)>,
}

impl Confirmer {
    /// Opens the connection. It must reach the same server as `calls`, because replicas of another
    /// server confirm nothing.
    pub(super) async fn open(
        target: &PrimaryClient,
        calls: &mut RawConnection,
        wanted: Confirmation,
    ) -> Result<Self, Error> {
        let mut connection = target.connect().await.map_err(|error| Error::from_redis(&error).0)?.connection;
        if matches!(calls, RawConnection::Single(_))
            && replication::run_id(calls).await? != replication::run_id(&mut connection).await?
        {
            return Err(Error::Unavailable(
                "the connections for calls and for WAIT reached different servers".to_owned(),
            ));
        }
        Ok(Confirmer { connection, wanted, begun: AtomicU64::new(0), last: Mutex::new((0, Ok(0))) })
    }

    /// Waits until everything written before this call is confirmed or the timeout passes. Returns
    /// the number of replicas that confirmed.
    pub(super) async fn confirm(&self) -> RedisResult<usize> {
        // A WAIT in flight may have started before the caller's write; the next one cannot have.
        let begun = self.begun.load(Ordering::SeqCst);
        let mut last = self.last.lock().await;
        if last.0 <= begun {
            let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
            *last = (number, self.wait().await);
        }
        last.1.clone()
    }

    async fn wait(&self) -> RedisResult<usize> {
        let Confirmation { replicas, timeout, schema_key } = &self.wanted;
        let mut commands = Pipeline::new();
        commands.cmd("SET").arg(schema_key).arg(SCHEMA);
        commands.cmd("WAIT").arg(replicas).arg(timeout.as_millis() as u64);
        let replies = self.connection.clone().send_to_slot(&commands, schema_key).await?;
        let replies = replies.into_iter().map(Value::extract_error).collect::<RedisResult<Vec<_>>>()?;
        redis::from_redis_value(replies.into_iter().nth(1).unwrap_or(Value::Nil)).map_err(Into::into)
    }

    /// Returns the error for a call that too few replicas confirmed.
    pub(super) fn shortfall(&self, confirmed: usize) -> Option<Error> {
        let Confirmation { replicas: wanted, timeout: within, .. } = self.wanted;
        (confirmed < wanted).then_some(Error::Unconfirmed { confirmed, wanted, within })
    }
}
