//! Signals: messages that scripts send to all processes. A signal may be lost, so only latency may
//! depend on it.

use super::PrimaryClient;
use super::client::{Connection, reconnect_backoff};
use futures_util::StreamExt;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

/// Number of signals that a slow receiver may lag behind before it misses some.
const BACKLOG: usize = 1024;

/// A change to which a loop may want to react at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A rule without waiting tenants has one now.
    Staged { rule: String },
    /// A main queue has fallen to its low-water mark.
    Low { queue: String },
    /// A rule may be planned again: the holder of its lock has stopped, or a pause is over.
    Freed { rule: String },
    /// The plan rules changed.
    Rules,
    /// The API keys changed.
    Keys,
    /// A queue may have a runnable job: it had none before, or a limit has room again.
    Ready { queue: String },
    /// A round was recorded.
    Round { rule: String },
    /// Signals may have been missed, because the connection was lost.
    Missed,
}

impl Signal {
    fn parse(text: &str) -> Option<Signal> {
        Some(match text.split_once(' ').unwrap_or((text, "")) {
            ("staged", rule) => Signal::Staged { rule: rule.to_owned() },
            ("low", queue) => Signal::Low { queue: queue.to_owned() },
            ("ready", queue) => Signal::Ready { queue: queue.to_owned() },
            ("freed", rule) => Signal::Freed { rule: rule.to_owned() },
            ("rules", _) => Signal::Rules,
            ("keys", _) => Signal::Keys,
            ("round", rule) => Signal::Round { rule: rule.to_owned() },
            _ => return None, // sent by a newer version
        })
    }
}

/// Creates the broadcast channel that distributes signals in this process.
pub(in crate::store) fn channel() -> broadcast::Sender<Signal> {
    broadcast::channel(BACKLOG).0
}

/// Receives signals until `stop`. Reconnects whenever the connection breaks.
pub(in crate::store) async fn listen(
    target: PrimaryClient,
    connection: Connection,
    channel: String,
    signals: broadcast::Sender<Signal>,
    stop: CancellationToken,
) {
    let mut backoff = reconnect_backoff();
    let mut forbidden = false;
    loop {
        let pass_on = async {
            let mut connection = match target.listen(&channel).await {
                Ok(connection) => connection,
                Err(error) => {
                    if error.code() == Some("NOPERM") {
                        if !std::mem::replace(&mut forbidden, true) {
                            tracing::warn!(
                                channel,
                                "the Redis user may not subscribe to this channel; polling once a second"
                            );
                        }
                        _ = signals.send(Signal::Missed);
                    }
                    return;
                }
            };
            forbidden = false;
            backoff.reset();
            // An error means that there are no receivers now, which is fine.
            _ = signals.send(Signal::Missed);
            let mut messages = connection.on_message();
            while let Some(message) = messages.next().await {
                if let Some(signal) = message.get_payload::<String>().ok().as_deref().and_then(Signal::parse) {
                    _ = signals.send(signal);
                }
            }
        };
        // After a failover the old server still accepts subscriptions but publishes nothing.
        let replaced = async {
            match connection.sentinels() {
                Some(_) => connection.replaced().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = pass_on => {}
            () = replaced => {}
            () = stop.cancelled() => return,
        }
        tokio::select! {
            () = tokio::time::sleep(backoff.next_delay()) => {}
            () = stop.cancelled() => return,
        }
    }
}
