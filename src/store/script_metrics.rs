//! Notes in the replies of scripts, for metrics and timers: limits exceeded and released, starved
//! queues, and times at which something is due.

use super::Core;
use crate::domain::escape::unescape;
use std::time::Duration;

impl Core {
    /// Records the notes in a reply to a command. Each consists of kind, name, strategy and
    /// milliseconds.
    pub(super) fn apply_notes(&self, notes: &[String]) {
        for note in notes.chunks_exact(4) {
            let [kind, name, strategy, ms] = note else { continue };
            let ms = ms.parse().unwrap_or(0);
            match kind.as_str() {
                "exceeded" => self.metrics.dispatch.exceeded(name, strategy),
                "released" => self.metrics.dispatch.released(name, ms),
                "tenant" => self.metrics.tenants.exceeded(&unescape(name), strategy, "held"),
                "starved" => self.metrics.dispatch.starved(name),
                "due" => self.due_timer.set(Duration::from_millis(ms)),
                _ => {}
            }
        }
    }
}
