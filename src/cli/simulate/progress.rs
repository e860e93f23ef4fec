//! A progress bar on standard error, if that is a terminal.

use crate::domain::simulation::{Progress, Scenario};
use indicatif::{ProgressBar, ProgressStyle};

const TEMPLATE: &str = "simulating {msg} {wide_bar} {human_pos}/{human_len} jobs";

/// The progress bar of one simulation.
pub(super) struct ProgressLine(ProgressBar);

impl ProgressLine {
    /// Creates a bar, which indicatif hides if standard error is not a terminal.
    pub(super) fn new(scenario: &Scenario) -> ProgressLine {
        let bar = ProgressBar::new(scenario.expected_jobs());
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        bar.set_message(format!("{} ({})", scenario.name, scenario.mode.name()));
        ProgressLine(bar)
    }

    pub(super) fn show(&self, progress: Progress) {
        // Retries and chance make more jobs than expected.
        self.0.set_length(progress.expected.max(progress.dispatched));
        self.0.set_position(progress.dispatched);
    }

    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
