//! What scripts note by the way: who was stopped by a limit, who was let go and when, which queue starves.

use super::{Core, Error, reply};
use crate::job::escape::unescape;
use redis::Value;
use std::time::Duration;

impl Core {
    /// Acts on notes: kind, name, strategy and milliseconds each.
    pub(super) fn apply_notes(&self, notes: Value) -> Result<(), Error> {
        for note in reply::texts(notes, "notes")?.chunks_exact(4) {
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
        Ok(())
    }
}
