//! Dispatched jobs over time, for charts.

/// Maximum number of points. With more, every second one is dropped.
const MOST_POINTS: usize = 256;
/// Distance of the points at first, in microseconds.
const FIRST_STEP_US: u64 = 10_000;

/// Cumulative numbers of jobs at evenly spaced times.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    step_us: u64,
    next_us: u64,
    times: Vec<u64>,
    /// For each series, a value for each time.
    series: Vec<Vec<u64>>,
}

impl Timeline {
    /// Creates a timeline with this many series.
    pub(super) fn new(series: usize) -> Timeline {
        Timeline { step_us: FIRST_STEP_US, next_us: 0, times: Vec::new(), series: vec![Vec::new(); series] }
    }

    /// Records the current values at all times up to `now_us`, which they had since the last call.
    pub(super) fn advance(&mut self, now_us: u64, values: impl Fn(usize) -> u64) {
        while self.next_us < now_us {
            self.record(self.next_us, &values);
            self.next_us += self.step_us;
            if self.times.len() >= MOST_POINTS {
                self.thin();
            }
        }
    }

    /// Records the values at the end, and returns the times and the series.
    pub(super) fn finish(mut self, now_us: u64, values: impl Fn(usize) -> u64) -> (Vec<u64>, Vec<Vec<u64>>) {
        self.advance(now_us, &values);
        self.record(now_us, &values);
        (self.times, self.series)
    }

    fn record(&mut self, at_us: u64, values: impl Fn(usize) -> u64) {
        self.times.push(at_us);
        for (number, series) in self.series.iter_mut().enumerate() {
            series.push(values(number));
        }
    }

    fn thin(&mut self) {
        self.step_us *= 2;
        self.next_us = self.next_us.div_ceil(self.step_us) * self.step_us;
        for values in self.series.iter_mut().chain([&mut self.times]) {
            let mut place = 0;
            values.retain(|_| {
                place += 1;
                place % 2 == 1
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_evenly_spaced_and_bounded() {
        let mut timeline = Timeline::new(1);
        for second in 1..=1000 {
            timeline.advance(second * 1_000_000, |_| second);
        }
        let (times, series) = timeline.finish(1_000_500_000, |_| 1001);
        assert!(times.len() <= MOST_POINTS + 1 && times.len() > MOST_POINTS / 2, "{}", times.len());
        let steps: Vec<u64> = times.windows(2).map(|two| two[1] - two[0]).collect();
        let (last, even) = steps.split_last().expect("some");
        assert!(even.iter().all(|step| *step == even[0]) && last <= &even[0], "{steps:?}");
        assert_eq!((times[0], series[0][0]), (0, 1));
        assert_eq!(series[0].last(), Some(&1001));
        assert!(times.iter().zip(&series[0]).all(|(at, value)| (*at / 1_000_000).abs_diff(*value) <= 1));
    }
}
