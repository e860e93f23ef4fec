//! Suppression of repeated log lines: repetitions of a warning or error are counted, and the count
//! is logged once per period.

use std::collections::HashMap;
use std::collections::hash_map::{DefaultHasher, Entry};
use std::fmt::{Debug, Write};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter};

/// Period in which repetitions of a line are counted instead of logged.
const PERIOD: Duration = Duration::from_secs(60);
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of remembered lines. Beyond it, lines are logged without suppression.
const MOST_LINES: usize = 1000;
/// Maximum number of bytes of a line that are kept for logging its count.
const MOST_TEXT: usize = 500;
/// Fields that identify a single event and are ignored when lines are compared.
const UNIQUE_FIELDS: [&str; 1] = ["request_id"];

/// Filter that passes the first of equal warnings or errors and counts the others. Clones share the
/// counts.
///
/// Lines are equal if they come from the same place in the code and have the same fields.
#[derive(Clone, Default)]
pub struct Repeats(Arc<Mutex<HashMap<u64, Line>>>);

struct Line {
    since: Instant,
    repeats: u64,
    level: Level,
    text: String,
}

impl Repeats {
    /// Logs each count at the end of its period until `stop` is cancelled, then the remaining ones.
    pub async fn run(self, stop: CancellationToken) {
        let mut interval = tokio::time::interval(SWEEP_EVERY);
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                _ = interval.tick() => self.log_counts(|line| line.since.elapsed() >= PERIOD),
            }
        }
        self.log_counts(|_| true);
    }

    /// Logs and forgets the counts of lines whose period is over.
    fn log_counts(&self, is_over: impl Fn(&Line) -> bool) {
        let over: Vec<Line> = self.lines().extract_if(|_, line| is_over(line)).map(|(_, line)| line).collect();
        // The lock is released here, because each of these log lines passes through the filter.
        for Line { repeats, level, text, .. } in over.into_iter().filter(|line| line.repeats > 0) {
            match level {
                Level::ERROR => tracing::error!(repeats, line = text, "repeated"),
                _ => tracing::warn!(repeats, line = text, "repeated"),
            }
        }
    }

    fn lines(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Line>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a line. Returns true if it is to be logged.
    fn is_new(&self, level: Level, key: u64, text: String) -> bool {
        let mut lines = self.lines();
        if lines.len() >= MOST_LINES {
            return true;
        }
        let line = Line { since: Instant::now(), repeats: 0, level, text };
        match lines.entry(key) {
            Entry::Occupied(mut known) if known.get().since.elapsed() < PERIOD => {
                known.get_mut().repeats += 1;
                false
            }
            Entry::Occupied(mut known) => {
                known.insert(line);
                true
            }
            Entry::Vacant(place) => {
                place.insert(line);
                true
            }
        }
    }
}

impl<S: Subscriber> Filter<S> for Repeats {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let metadata = event.metadata();
        if *metadata.level() > Level::WARN || metadata.module_path() == Some(module_path!()) {
            return true;
        }
        let mut text = FieldText::default();
        event.record(&mut text);
        let mut hasher = DefaultHasher::new();
        metadata.callsite().hash(&mut hasher);
        text.0.hash(&mut hasher);
        let mut kept = text.0;
        kept.truncate(kept.floor_char_boundary(MOST_TEXT));
        self.is_new(*metadata.level(), hasher.finish(), kept)
    }
}

/// Text of an event's message and fields.
#[derive(Default)]
struct FieldText(String);

impl Visit for FieldText {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let name = field.name();
        if UNIQUE_FIELDS.contains(&name) {
            return;
        }
        if !self.0.is_empty() {
            self.0.push(' ');
        }
        // Writing to a String cannot fail.
        _ = match name {
            "message" => write!(self.0, "{value:?}"),
            _ => write!(self.0, "{name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use tracing_subscriber::Layer;
    use tracing_subscriber::layer::SubscriberExt;

    #[derive(Clone, Default)]
    struct Output(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Output {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns the lines that are logged while `act` runs.
    fn logged(act: impl FnOnce(&Repeats)) -> Vec<String> {
        let (repeats, output) = (Repeats::default(), Output::default());
        let writer = output.clone();
        let layer = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .without_time()
            .with_target(false)
            .with_writer(move || writer.clone())
            .with_filter(repeats.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || act(&repeats));
        let bytes = output.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap().lines().map(|line| line.trim().to_owned()).collect()
    }

    fn fail(rule: &str, request: u32) {
        tracing::error!(rule, request_id = request, "it failed");
    }

    #[test]
    fn the_same_line_is_logged_once_with_a_count() {
        let lines = logged(|repeats| {
            (0..5).for_each(|request| fail("a", request));
            fail("b", 0);
            repeats.log_counts(|_| true);
        });
        assert_eq!(
            lines[..2],
            [r#"ERROR it failed rule="a" request_id=0"#, r#"ERROR it failed rule="b" request_id=0"#]
        );
        assert_eq!(lines[2..], [r#"ERROR repeated repeats=4 line="it failed rule=\"a\"""#]);
    }

    #[test]
    fn a_line_is_logged_again_after_its_period() {
        let lines = logged(|repeats| {
            (0..3).for_each(|request| fail("a", request));
            repeats.lines().values_mut().for_each(|line| line.since -= PERIOD);
            repeats.log_counts(|line| line.since.elapsed() >= PERIOD);
            fail("a", 4);
        });
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[1].contains("repeats=2") && lines[2].contains("request_id=4"), "{lines:?}");
    }

    #[test]
    fn other_levels_are_logged_as_they_come() {
        assert_eq!(logged(|_| (0..3).for_each(|_| tracing::info!("served"))).len(), 3);
    }

    #[test]
    fn no_more_lines_are_remembered_than_there_is_room_for() {
        let lines = logged(|repeats| {
            (0..MOST_LINES + 10).for_each(|number| fail(&number.to_string(), 0));
            assert_eq!(repeats.lines().len(), MOST_LINES);
        });
        assert_eq!(lines.len(), MOST_LINES + 10);
    }
}
