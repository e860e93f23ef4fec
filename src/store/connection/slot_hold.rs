//! The time for which a Redis Cluster has refused the namespace's slot.
//!
//! Every script declares one key, the namespace's prefix, under which no key exists. All keys that
//! it accesses lie in the same slot. While the slot moves to another node, the old node answers ASK
//! to every script, because the declared key is missing. ASK must not be followed: a script on the
//! new node would see only the keys that have arrived there, take the others for missing and, for
//! example, restart its sequences. The same holds for a plain write, such as that of the schema
//! version. So the call is held and sent again until all keys have arrived and MOVED names the new
//! owner. `address::open_cluster` disables the client library's own retries, which would follow
//! ASK.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Shortest and longest pause between two attempts of a held call.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(10);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Refusals further apart than this belong to different moves of the slot, because held calls retry
/// more often.
const GAP: Duration = Duration::from_secs(1);

/// Refusals of the slot, for all calls of a connection.
#[derive(Default)]
pub(super) struct SlotHold {
    /// Times of the first and the last refusal of the current move.
    span: Mutex<Option<(Instant, Instant)>>,
}

impl SlotHold {
    /// Records a refusal. Returns the time of the first one.
    pub(super) fn record_refusal(&self, now: Instant, reason: &crate::store::Error) -> Instant {
        let mut span = self.span.lock().unwrap_or_else(PoisonError::into_inner);
        let first = match *span {
            Some((first, last)) if now.saturating_duration_since(last) < GAP => first,
            _ => {
                tracing::warn!(%reason, "Redis Cluster does not serve the slot of the namespace; calls are waiting");
                now
            }
        };
        *span = Some((first, now));
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_belong_together_unless_a_second_lies_between() {
        let (hold, start, reason) = (SlotHold::default(), Instant::now(), crate::store::Error::Busy);
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(hold.record_refusal(at(0), &reason), at(0));
        assert_eq!(hold.record_refusal(at(900), &reason), at(0));
        assert_eq!(hold.record_refusal(at(1800), &reason), at(0));
        assert_eq!(hold.record_refusal(at(2900), &reason), at(2900));
    }
}
