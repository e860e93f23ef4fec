//! The activity of queues, counted from events by minute: jobs that arrived and ended, and run times.

use super::activity::MS_A_MINUTE;
use super::codec::event::EventFields;
use super::{Error, Store, reply};

/// Numbers of a queue's jobs that ended within a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndedJobs {
    pub completed: u64,
    pub discarded: u64,
}

impl EndedJobs {
    fn read(text: &str) -> EndedJobs {
        let [completed, discarded] = numbers(text);
        EndedJobs { completed, discarded }
    }
}

/// The activity of a queue within a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct QueueActivity {
    pub(super) ended: EndedJobs,
    /// Jobs that became available or were staged. A promotion is not an arrival.
    pub(super) arrived: u64,
    /// Attempts that ended with an answer of their worker.
    pub(super) attempts: u64,
    /// Sum of the run times of those attempts, in milliseconds.
    pub(super) run_ms: u64,
}

impl QueueActivity {
    /// Returns the activity that an event reports; `None` for events that report none.
    pub(super) fn of_event(event: &EventFields<'_>) -> Option<QueueActivity> {
        let none = QueueActivity::default();
        match event.kind {
            "job.staged" => Some(QueueActivity { arrived: 1, ..none }),
            "job.enqueued" => (!is_promoted(event.data)).then_some(QueueActivity { arrived: 1, ..none }),
            "job.completed" => {
                Some(QueueActivity { ended: EndedJobs { completed: 1, discarded: 0 }, ..none }.ran(event))
            }
            "job.discarded" => Some(QueueActivity { ended: EndedJobs { completed: 0, discarded: 1 }, ..none }),
            "job.failed" => Some(none.ran(event)).filter(QueueActivity::has_flow),
            _ => None,
        }
    }

    fn ran(self, event: &EventFields<'_>) -> QueueActivity {
        match run_ms(event.data) {
            Some(run_ms) => QueueActivity { attempts: 1, run_ms, ..self },
            None => self,
        }
    }

    pub(super) fn add(&mut self, other: QueueActivity) {
        self.ended.completed += other.ended.completed;
        self.ended.discarded += other.ended.discarded;
        self.arrived += other.arrived;
        self.attempts += other.attempts;
        self.run_ms += other.run_ms;
    }

    /// Returns true if jobs ended.
    pub(super) fn has_ended(&self) -> bool {
        self.ended != EndedJobs::default()
    }

    /// Returns true if jobs arrived or attempts ended.
    pub(super) fn has_flow(&self) -> bool {
        self.arrived + self.attempts > 0
    }

    /// Returns the value in the hash of ended jobs.
    pub(super) fn ended_text(&self) -> String {
        format!("{} {}", self.ended.completed, self.ended.discarded)
    }

    /// Returns the value in the hash of the flow, which `lua/queue/flow` reads.
    pub(super) fn flow_text(&self) -> String {
        format!("{} {} {}", self.arrived, self.attempts, self.run_ms)
    }

    fn read(ended: &str, flow: &str) -> QueueActivity {
        let [arrived, attempts, run_ms] = numbers(flow);
        QueueActivity { ended: EndedJobs::read(ended), arrived, attempts, run_ms }
    }
}

fn numbers<const COUNT: usize>(text: &str) -> [u64; COUNT] {
    let mut words = text.split(' ');
    std::array::from_fn(|_| words.next().and_then(|word| word.parse().ok()).unwrap_or(0))
}

/// Returns true if the data of a `job.enqueued` is about a job that was staged before.
fn is_promoted(data: &str) -> bool {
    data.contains("\"promoted\":true")
}

/// Returns the run time in the data of an event. An error in the data may contain anything.
fn run_ms(data: &str) -> Option<u64> {
    let own = data.split_once("\"error\":").map_or(data, |(before, _)| before);
    let (_, rest) = own.split_once("\"duration_ms\":")?;
    rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

impl Store {
    /// Returns the activity of queues in a minute. `queues` are names in the store.
    pub(super) async fn queue_activity_in(&self, minute: i64, queues: &[&str]) -> Result<Vec<QueueActivity>, Error> {
        if queues.is_empty() {
            return Ok(Vec::new());
        }
        let read = async |key: String| {
            let mut command = redis::cmd("HMGET");
            command.arg(key).arg(queues);
            reply::texts(self.core.command("fold", command).await?, "activity")
        };
        let (ended, flows) = (read(self.core.keys.ended(minute)).await?, read(self.core.keys.flow(minute)).await?);
        Ok(ended.iter().zip(flows).map(|(ended, flow)| QueueActivity::read(ended, &flow)).collect())
    }

    /// Returns the numbers of jobs that ended within the last 60 seconds, per queue; `None` if
    /// activity is not recorded.
    pub async fn recently_ended(&self, queues: &[&str]) -> Result<Option<Vec<EndedJobs>>, Error> {
        if !self.sum_activity().await? {
            return Ok(None);
        }
        let now = self.core.clock.now_ms();
        let minute = now.div_euclid(MS_A_MINUTE);
        // The share of the previous minute's bucket that lies within the last 60 s.
        let part = 1.0 - now.rem_euclid(MS_A_MINUTE) as f64 / MS_A_MINUTE as f64;
        let within = |before: u64, now: u64| (before as f64 * part).round() as u64 + now;
        let names: Vec<_> = queues.iter().map(|queue| self.scope.qualified(queue)).collect();
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        let before = self.queue_activity_in(minute - 1, &names).await?;
        let these = self.queue_activity_in(minute, &names).await?;
        let sums = before.iter().zip(these).map(|(before, now)| EndedJobs {
            completed: within(before.ended.completed, now.ended.completed),
            discarded: within(before.ended.discarded, now.ended.discarded),
        });
        Ok(Some(sums.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: &str, data: &str) -> Option<QueueActivity> {
        QueueActivity::of_event(&EventFields {
            kind,
            subject: "",
            job_type: "",
            queue: "q",
            trace: "",
            tenant: None,
            data,
        })
    }

    #[test]
    fn a_promotion_is_not_an_arrival() {
        let arrived = |kind, data| of(kind, data).map(|activity| activity.arrived);
        assert_eq!(arrived("job.staged", "\"state\":\"pending\""), Some(1));
        assert_eq!(arrived("job.enqueued", "\"state\":\"available\""), Some(1));
        assert_eq!(arrived("job.enqueued", "\"state\":\"available\",\"promoted\":true"), None);
        assert_eq!(arrived("job.enqueued", "\"promoted\":true,\"main_queue\":\"legacy\""), None);
        assert_eq!((arrived("job.started", ""), arrived("job.scheduled", "")), (None, None));
    }

    #[test]
    fn run_times_are_those_that_the_server_measured() {
        for (kind, data, expected) in [
            ("job.completed", "\"attempt\":1,\"duration_ms\":1500", Some((1, 1500))),
            ("job.completed", "\"attempt\":1", Some((0, 0))),
            ("job.failed", "\"attempt\":2,\"duration_ms\":7,\"error\":{\"duration_ms\":9}", Some((1, 7))),
            ("job.failed", "\"attempt\":2,\"error\":{\"details\":{\"duration_ms\":9}}", None),
            ("job.completed", "\"duration_ms\":x", Some((0, 0))),
            ("job.completed", "\"duration_ms\":-5", Some((0, 0))),
        ] {
            assert_eq!(of(kind, data).map(|own| (own.attempts, own.run_ms)), expected, "{kind} {data}");
        }
    }

    #[test]
    fn values_are_read_as_they_were_written() {
        let sum =
            QueueActivity { ended: EndedJobs { completed: 1, discarded: 2 }, arrived: 3, attempts: 4, run_ms: 500 };
        assert_eq!(QueueActivity::read(&sum.ended_text(), &sum.flow_text()), sum);
        assert_eq!(QueueActivity::read("", "x"), QueueActivity::default());
    }
}
