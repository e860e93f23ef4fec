//! The stages in the life of a job that runs or has ended, as far as stored times tell.

use crate::domain::job::{Record, State};

/// A stage in the life of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageName {
    /// It waited for its scheduled time.
    Scheduled,
    /// It waited for its activation.
    Pending,
    /// It waited in staging for its promotion.
    Staged,
    /// It waited in its queue for a worker.
    Queued,
    /// Its last attempt ran.
    Running,
    /// The time until the last failure: earlier attempts, and the waits before and between them.
    EarlierAttempts,
    /// It waited for its last attempt after the failure before, including a second time in staging.
    WaitingForRetry,
}

impl StageName {
    /// All names.
    pub const NAMES: [&'static str; 7] =
        ["scheduled", "pending", "staged", "queued", "running", "earlier_attempts", "waiting_for_retry"];

    /// Returns the name used in API answers.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// A stage and its beginning and end, in milliseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    pub name: StageName,
    pub from: i64,
    pub to: i64,
}

impl Stage {
    /// Returns the duration in milliseconds.
    pub fn ms(&self) -> u64 {
        u64::try_from(self.to - self.from).unwrap_or(0)
    }
}

/// The stored times of a job that runs or has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Life {
    pub created: i64,
    /// Time for which it was scheduled.
    pub due: Option<i64>,
    pub activated: Option<i64>,
    /// Time at which it last became available.
    pub enqueued: Option<i64>,
    /// Time at which the last attempt started.
    pub started: Option<i64>,
    /// Time of the last failed attempt before the last start.
    pub failed: Option<i64>,
    /// Its end, or now.
    pub end: i64,
    pub is_planned: bool,
    /// True if it left for a main queue in another system, where it runs.
    pub has_left: bool,
}

impl Life {
    /// Reads the times of a record. `is_planned` is true if the job is under a plan rule.
    pub fn of(record: &Record, is_planned: bool, now: i64) -> Life {
        let started = record.started();
        let failures = record.failures.iter().map(|failure| failure.at);
        let is_earlier = |at: &i64| started.is_some_and(|started| *at <= started);
        Life {
            created: record.created,
            due: record.due,
            activated: record.activated,
            enqueued: record.enqueued(),
            started: started.filter(|_| record.attempt > 0),
            failed: if record.attempt > 1 { failures.filter(is_earlier).max() } else { None },
            end: record.finished().filter(|_| record.state != State::Active).unwrap_or(now),
            is_planned,
            has_left: record.has_left(),
        }
    }
}

/// Divides the life of a job into stages without gaps. Stages that took no time are left out,
/// except for the last one.
pub fn stages(life: &Life) -> Vec<Stage> {
    let mut marks: Vec<(StageName, i64)> = Vec::new();
    match life.failed {
        Some(failed) => {
            marks.push((StageName::EarlierAttempts, failed));
            marks.extend(life.enqueued.map(|at| (StageName::WaitingForRetry, at)));
        }
        None => {
            marks.extend(life.due.map(|due| (StageName::Scheduled, due)));
            marks.extend(life.activated.map(|at| (StageName::Pending, at)));
            let staged_until = if life.has_left { Some(life.end) } else { life.enqueued };
            if life.is_planned || life.has_left {
                marks.extend(staged_until.map(|at| (StageName::Staged, at)));
            }
        }
    }
    if !life.has_left {
        marks.push((StageName::Queued, life.started.unwrap_or(life.end)));
        marks.extend(life.started.map(|_| (StageName::Running, life.end)));
    }
    let mut from = life.created;
    let mut stages = Vec::with_capacity(marks.len());
    for (place, (name, to)) in marks.iter().enumerate() {
        // A job may end in any stage, and may become available before its time if it is activated.
        let to = (*to).clamp(from, life.end.max(from));
        if to > from || place + 1 == marks.len() {
            stages.push(Stage { name: *name, from, to });
        }
        from = to;
    }
    stages
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(life: &Life) -> Vec<(&'static str, u64)> {
        stages(life).iter().map(|stage| (stage.name.name(), stage.ms())).collect()
    }

    #[test]
    fn a_planned_job_was_staged_queued_and_running() {
        let life = Life {
            created: 100,
            enqueued: Some(400),
            started: Some(450),
            end: 1000,
            is_planned: true,
            ..Life::default()
        };
        assert_eq!(told(&life), [("staged", 300), ("queued", 50), ("running", 550)]);
        let plain = Life { enqueued: Some(100), is_planned: false, ..life };
        assert_eq!(told(&plain), [("queued", 350), ("running", 550)]);
    }

    #[test]
    fn stages_have_no_gaps_and_last_from_the_creation_to_the_end() {
        let base = Life { created: 100, end: 5000, ..Life::default() };
        for life in [
            Life { due: Some(2000), enqueued: Some(2010), started: Some(2500), ..base },
            Life { activated: Some(300), enqueued: Some(300), started: Some(400), ..base },
            Life { failed: Some(900), enqueued: Some(2000), started: Some(2001), ..base },
            Life { due: Some(9000), ..base }, // cancelled before its time
            Life { is_planned: true, ..base },
            Life { has_left: true, ..base },
        ] {
            let all = stages(&life);
            assert!(all.windows(2).all(|pair| pair[0].to == pair[1].from), "{all:?}");
            assert_eq!((all[0].from, all[all.len() - 1].to), (100, 5000), "{all:?}");
        }
    }

    #[test]
    fn a_retried_job_names_the_wait_for_its_last_attempt() {
        let life = Life {
            created: 0,
            enqueued: Some(3000),
            started: Some(3200),
            failed: Some(1000),
            end: 4000,
            ..Life::default()
        };
        let expected = [("earlier_attempts", 1000), ("waiting_for_retry", 2000), ("queued", 200), ("running", 800)];
        assert_eq!(told(&life), expected);
    }

    #[test]
    fn a_job_that_left_was_staged_until_then() {
        assert_eq!(told(&Life { created: 5, end: 25, has_left: true, ..Life::default() }), [("staged", 20)]);
    }
}
