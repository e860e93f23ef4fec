//! What scripts tell all processes, as it happens. A signal may be lost: nothing may depend on one but speed.

use super::address::Target;
use super::connection::{Connection, FIRST_BACKOFF, LONGEST_BACKOFF};
use futures_util::StreamExt;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

/// Signals that a slow listener may lag behind; then it is told that it missed some.
const BACKLOG: usize = 1024;

/// Something happened that a loop may want to act on at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A rule that had no tenant waiting has one.
    Staged { rule: String },
    /// A main queue holds fewer jobs than its planner wants.
    Low { queue: String },
    /// A rule may be planned again: whoever had its lock has stopped, or a pause is over.
    Freed { rule: String },
    /// The plan rules changed.
    Rules,
    /// The API keys changed.
    Keys,
    /// A queue may have a job that can go: it had none, or a limit has room again.
    Ready { queue: String },
    /// A round was recorded.
    Round { rule: String },
    /// Signals may have been missed: the connection was away.
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
            _ => return None, // a newer process knows more of them
        })
    }
}

/// Where signals of the channel arrive in this process.
pub(super) fn channel() -> broadcast::Sender<Signal> {
    broadcast::channel(BACKLOG).0
}

/// Listens until `stop`, on a connection that is made anew whenever it breaks.
pub(super) async fn listen(
    target: Target,
    connection: Connection,
    channel: String,
    signals: broadcast::Sender<Signal>,
    stop: CancellationToken,
) {
    let mut backoff = FIRST_BACKOFF;
    let mut forbidden = false;
    loop {
        let pass_on = async {
            let mut connection = match target.listen(&channel).await {
                Ok(connection) => connection,
                Err(error) => {
                    if error.code() == Some("NOPERM") {
                        if !std::mem::replace(&mut forbidden, true) {
                            tracing::warn!(channel, "the Redis user may not use this channel: looking once a second");
                        }
                        _ = signals.send(Signal::Missed);
                    }
                    return;
                }
            };
            forbidden = false;
            backoff = FIRST_BACKOFF;
            // Nobody listening is fine: the receivers come and go.
            _ = signals.send(Signal::Missed);
            let mut messages = connection.on_message();
            while let Some(message) = messages.next().await {
                if let Some(signal) = message.get_payload::<String>().ok().as_deref().and_then(Signal::parse) {
                    _ = signals.send(signal);
                }
            }
        };
        // Sentinel may have named another server: the old one still takes subscriptions, and has nothing to say.
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
            () = tokio::time::sleep(backoff) => {}
            () = stop.cancelled() => return,
        }
        backoff = (backoff * 2).min(LONGEST_BACKOFF);
    }
}
