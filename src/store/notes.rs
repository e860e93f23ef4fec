//! What scripts note for metrics: who was stopped by a limit, who was let go, which queue starves.

use super::{Core, Error, reply};
use redis::Value;

impl Core {
    /// Counts notes: kind, name, strategy and milliseconds each.
    pub(super) fn note(&self, notes: Value) -> Result<(), Error> {
        for note in reply::texts(notes, "notes")?.chunks_exact(4) {
            let [kind, name, strategy, ms] = note else { continue };
            let ms = ms.parse().unwrap_or(0);
            match kind.as_str() {
                "exceeded" => self.metrics.dispatch.exceeded(name, strategy),
                "released" => self.metrics.dispatch.released(name, ms),
                "starved" => self.metrics.dispatch.starved(name),
                _ => {}
            }
        }
        Ok(())
    }
}
