//! `[noisy_neighbors]`: detection and throttling of noisy neighbours.

use std::time::Duration;

use super::convert::{Choice, show_duration};
use super::reader::SettingsReader;
use crate::domain::noisy::{Action, NoisyNeighbors};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);
/// Longest window. The store keeps counters per minute for longer than this.
const LONGEST_WINDOW: Duration = Duration::from_secs(15 * 60);
const LARGEST_RATIO: f64 = 1e6;
const MOST_THROTTLED: usize = 100;

impl Choice for Action {
    const CHOICES: &'static [(&'static str, Self)] = &[
        ("none", Action::None),
        ("reduce_weight", Action::WeightReduced),
        ("reduce_concurrency", Action::ConcurrencyReduced),
    ];
}

/// Reads the section.
pub(super) fn read(reader: &mut SettingsReader<'_>) -> NoisyNeighbors {
    let ms = |time: Duration| time.as_millis() as u64;
    let base = NoisyNeighbors::default();
    let read = NoisyNeighbors {
        enabled: reader.get("enabled"),
        action: reader.find("action").unwrap_or(base.action),
        statistics: reader.get("statistics"),
        window: ms(reader.get_in("window", MINUTE..=LONGEST_WINDOW)),
        sustain: ms(reader.get_in("sustain", Duration::ZERO..=DAY)),
        queue_depth_ratio: reader.get_in("queue_depth_ratio", 1.0..=LARGEST_RATIO),
        enqueue_rate_ratio: reader.get_in("enqueue_rate_ratio", 1.0..=LARGEST_RATIO),
        active_ratio: reader.get_in("active_ratio", 0.0..=1.0),
        error_rate_ratio: reader.get_in("error_rate_ratio", 1.0..=LARGEST_RATIO),
        worker_time_ratio: reader.get_in("worker_time_ratio", 0.0..=1.0),
        min_jobs: reader.get_in("min_jobs", 1..),
        weight_factor: reader.get_in("weight_factor", 0.01..=1.0),
        concurrency_factor: reader.get_in("concurrency_factor", 0.01..=1.0),
        duration: ms(reader.get_in("duration", SECOND..=DAY)),
        release_ratio: reader.get_in("release_ratio", 0.0..=1.0),
        release_after: ms(reader.get_in("release_after", Duration::ZERO..=DAY)),
        max_throttled: reader.get_in("max_throttled", 1..=MOST_THROTTLED),
    };
    if reader.is_sound(&["window"]) && !read.window.is_multiple_of(ms(MINUTE)) {
        let whole = Duration::from_millis(read.window.next_multiple_of(ms(MINUTE)));
        let message = "noisy_neighbors.window is not a whole number of minutes".to_owned();
        reader.conflict(&["window"], message, Some(&format!("set it to {}", show_duration(whole.min(LONGEST_WINDOW)))));
    }
    read
}

/// Describes the effect of the settings in a sentence.
pub(super) fn describe(noisy: &NoisyNeighbors) -> Option<String> {
    let time = |ms: u64| show_duration(Duration::from_millis(ms));
    let rest = |factor: f64, of: &str| format!("to {}% of {of} for {}", factor * 100.0, time(noisy.duration));
    let does = match noisy.action {
        _ if !noisy.enabled => return None,
        Action::None => return None,
        Action::WeightReduced => rest(noisy.weight_factor, "their weight"),
        Action::ConcurrencyReduced => rest(noisy.concurrency_factor, "their active jobs"),
    };
    let most = noisy.max_throttled;
    Some(format!("tenants that are noisy for {} are throttled {does}; at most {most} at once", time(noisy.sustain)))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{load, mistakes};
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_program() {
        assert_eq!(load("", &[]).config.noisy_neighbors, NoisyNeighbors::default());
    }

    #[test]
    fn what_is_written_holds() {
        let text = "[noisy_neighbors]\naction = \"reduce_weight\"\nwindow = \"2m\"\nqueue_depth_ratio = 20\n";
        let loaded = load(text, &[("FAIRGATE_NOISY_NEIGHBORS__MAX_THROTTLED", "3")]);
        let noisy = &loaded.config.noisy_neighbors;
        assert_eq!((noisy.action, noisy.window, noisy.queue_depth_ratio), (Action::WeightReduced, 120_000, 20.0));
        assert_eq!((noisy.max_throttled, noisy.active_ratio), (3, 0.5));
        let told = super::super::describe(&loaded);
        assert!(
            told.contains("noisy for 15s are throttled to 20% of their weight for 5m; at most 3 at once"),
            "{told}"
        );
    }

    #[test]
    fn mistakes_are_shown_where_they_stand() {
        for (line, expected) in [
            ("action = \"reduce_wieght\"", "did you mean \"reduce_weight\"?"),
            ("window = \"90s\"", "set it to 2m"),
            ("window = \"1h\"", "at most 15m"),
            ("active_ratio = 50", "at most 1"),
            ("error_rate_ratio = 0.5", "at least 1"),
            ("weight_factor = 0", "at least 0.01"),
            ("max_throttled = 0", "at least 1"),
            ("queue_depth_ration = 3", "did you mean \"queue_depth_ratio\"?"),
        ] {
            let text = mistakes(&format!("[noisy_neighbors]\n{line}\n"), &[]);
            assert!(text.contains("fairgate.toml:2") && text.contains(expected), "{line}: {text}");
        }
        let text = mistakes("[noisy_neighbours]\nenabled = true\n", &[]);
        assert!(text.contains("did you mean \"noisy_neighbors\"?"), "{text}");
    }
}
