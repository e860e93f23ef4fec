//! Sections that are plain lists of settings. `default.toml` documents the keys.

use std::time::Duration;

use super::convert::{Choice, show_duration};
use super::reader::SettingsReader;
use super::size::ByteSize;

/// Shortest time that is not zero.
pub(super) const INSTANT: Duration = Duration::from_millis(1);

/// Minimum ratio of `dead_after` to `heartbeat_interval`, so that two lost heartbeats do not end a
/// worker.
const BEATS_BEFORE_DEATH: u32 = 3;

/// `[limits]`: bounds on requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of a request body.
    pub max_body: ByteSize,
    /// Maximum size of a job; at most `max_body`.
    pub max_envelope: ByteSize,
    /// Maximum size of a job's `meta`.
    pub max_meta: ByteSize,
    /// Maximum size of a job's result.
    pub max_result: ByteSize,
    /// Maximum number of jobs in a batch request.
    pub max_batch: usize,
    /// Maximum nesting depth of JSON.
    pub max_nesting: usize,
    /// Maximum size of all headers of a request together.
    pub max_header: ByteSize,
    /// Maximum time that a request may take.
    pub request_timeout: Duration,
    /// Maximum number of open connections.
    pub max_connections: usize,
}

impl Limits {
    pub(super) fn read(reader: &mut SettingsReader<'_>) -> Self {
        let limits = Self {
            max_body: reader.get("max_body"),
            max_envelope: reader.get("max_envelope"),
            max_meta: reader.get("max_meta"),
            max_result: reader.get("max_result"),
            max_batch: reader.get_in("max_batch", 1..=10_000),
            max_nesting: reader.get_in("max_nesting", 1..=128),
            max_header: reader.get_in("max_header", ByteSize::kib(8)..=ByteSize::kib(1024)),
            request_timeout: reader.get_in("request_timeout", INSTANT..),
            max_connections: reader.get_in("max_connections", 1..),
        };
        let keys = ["max_envelope", "max_body"];
        if reader.is_sound(&keys) && limits.max_envelope > limits.max_body {
            let Self { max_envelope, max_body, .. } = &limits;
            let message = format!("limits.max_envelope ({max_envelope}) is above limits.max_body ({max_body})");
            reader.conflict(&keys, message, Some("raise max_body or lower max_envelope"));
        }
        limits
    }
}

impl Limits {
    /// Returns the limits that the validation of jobs needs.
    pub fn of_jobs(&self) -> crate::domain::job::RequestLimits {
        crate::domain::job::RequestLimits {
            max_envelope: self.max_envelope.bytes(),
            max_meta: self.max_meta.bytes(),
            max_result: self.max_result.bytes(),
            max_batch: self.max_batch,
            max_nesting: self.max_nesting,
        }
    }
}

/// `[jobs]`: defaults of jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jobs {
    /// Maximum duration of one attempt.
    pub timeout: Duration,
    /// Visibility timeout: time after which a lease without an answer or heartbeat ends.
    pub visibility_timeout: Duration,
}

impl Jobs {
    pub(super) fn read(reader: &mut SettingsReader<'_>) -> Self {
        Self {
            timeout: reader.get_in("timeout", INSTANT..),
            visibility_timeout: reader.get_in("visibility_timeout", INSTANT..),
        }
    }
}

/// `[workers]`: heartbeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workers {
    /// Interval at which workers are asked to send heartbeats.
    pub heartbeat_interval: Duration,
    /// Time without a heartbeat after which a worker counts as dead; at least three heartbeat
    /// intervals.
    pub dead_after: Duration,
}

impl Workers {
    pub(super) fn read(reader: &mut SettingsReader<'_>) -> Self {
        let heartbeat_interval = reader.get_in("heartbeat_interval", INSTANT..);
        let dead_after = reader.get_in("dead_after", INSTANT..);
        let keys = ["dead_after", "heartbeat_interval"];
        let least = heartbeat_interval.saturating_mul(BEATS_BEFORE_DEATH);
        if reader.is_sound(&keys) && dead_after < least {
            let message = format!(
                "workers.dead_after ({}) is below three times workers.heartbeat_interval ({})",
                show_duration(dead_after),
                show_duration(heartbeat_interval)
            );
            reader.conflict(&keys, message, Some(&format!("set dead_after to {} or more", show_duration(least))));
        }
        Self { heartbeat_interval, dead_after }
    }
}

/// `[retention]`: lifetime of finished jobs and other records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Lifetime of completed jobs.
    pub completed: Duration,
    /// Lifetime of cancelled jobs.
    pub cancelled: Duration,
    /// Lifetime of discarded jobs.
    pub discarded: Duration,
    /// Lifetime of dead letters.
    pub dead_letter: Duration,
    /// Time after which a queue without jobs is forgotten.
    pub idle_queues: Duration,
    /// Maximum number of completed jobs.
    pub max_completed: u64,
    /// Maximum number of dead letters.
    pub max_dead_letters: u64,
    /// Maximum number of events kept for clients that reconnect.
    pub max_events: u64,
}

impl Retention {
    pub(super) fn read(reader: &mut SettingsReader<'_>) -> Self {
        Self {
            completed: reader.get("completed"),
            cancelled: reader.get("cancelled"),
            discarded: reader.get("discarded"),
            dead_letter: reader.get("dead_letter"),
            idle_queues: reader.get_in("idle_queues", Duration::from_secs(60)..),
            max_completed: reader.get("max_completed"),
            max_dead_letters: reader.get("max_dead_letters"),
            max_events: reader.get("max_events"),
        }
    }
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `Pretty` on a terminal, `Json` elsewhere.
    #[default]
    Auto,
    /// Human-readable lines.
    Pretty,
    /// One JSON object per line.
    Json,
}

impl Choice for LogFormat {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("pretty", Self::Pretty), ("json", Self::Json)];
}

/// `[log]`: log output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Format of the lines.
    pub format: LogFormat,
    /// Filter directives of `tracing`, such as `info`; not empty.
    pub level: String,
}

impl Log {
    pub(super) fn read(reader: &mut SettingsReader<'_>) -> Self {
        let filter = "a level such as info, or a filter such as info,fairgate::planner=debug";
        Self {
            format: reader.get("format"),
            level: reader.get_such("level", filter, |level: &String| !level.trim().is_empty()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::mistakes;

    #[test]
    fn comparisons_name_both_keys_and_point_at_what_was_set() {
        let text = mistakes("\n[limits]\nmax_body = \"1MiB\"", &[]);
        assert!(text.contains("limits.max_envelope (10MiB) is above limits.max_body (1MiB)"), "{text}");
        assert!(text.contains("fairgate.toml:3:12"), "{text}");
        let text = mistakes("[workers]\nheartbeat_interval = \"20s\"", &[]);
        assert!(
            text.contains("workers.dead_after (30s) is below three times workers.heartbeat_interval (20s)"),
            "{text}"
        );
        assert!(text.contains("set dead_after to 1m or more"), "{text}");
    }

    #[test]
    fn a_refused_value_is_not_compared() {
        let text = mistakes("[limits]\nmax_body = \"tiny\"\n[workers]\ndead_after = \"0s\"", &[]);
        assert!(text.ends_with("2 errors in fairgate.toml"), "{text}");
    }

    #[test]
    fn ranges_are_kept() {
        for (section, setting) in [
            ("limits", "max_batch = 0"),
            ("limits", "max_batch = 10001"),
            ("limits", "max_nesting = 129"),
            ("limits", "max_header = \"4KiB\""),
            ("limits", "max_connections = 0"),
            ("jobs", "timeout = \"0s\""),
            ("store", "call_timeout = \"99ms\""),
            ("log", "level = \" \""),
            ("log", "format = \"xml\""),
        ] {
            let text = mistakes(&format!("[{section}]\n{setting}"), &[]);
            assert!(text.ends_with("1 error in fairgate.toml"), "{setting}: {text}");
        }
    }
}
