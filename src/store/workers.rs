//! Verbs on workers: signs of life and goodbyes.

use super::reply;
use super::script::{DEREGISTER, HEARTBEAT};
use super::{Error, Store, or_empty};
use crate::job::escape::escape;

/// A sign of life.
#[derive(Clone, Debug, Default)]
pub struct Heartbeat {
    pub worker: String,
    /// What the worker says of itself.
    pub state: Option<String>,
    pub visibility_ms: Option<u64>,
    /// Jobs whose reservations it extends.
    pub jobs: Vec<String>,
    /// The pool that it is of.
    pub pool: Option<String>,
    /// Whether it registers, and may come to another pool.
    pub registers: bool,
    /// What the worker tells about itself, kept with its record.
    pub fields: Vec<(&'static str, String)>,
}

/// The answer to a sign of life.
#[derive(Clone, Debug, PartialEq)]
pub struct Beat {
    /// What the worker should do: `running`, `quiet` or `terminate`.
    pub directive: String,
    pub server_time: i64,
    pub extended: Vec<String>,
    /// Jobs it named that were cancelled meanwhile.
    pub cancelled: Vec<String>,
}

impl Store {
    /// Records a sign of life and extends the reservations that it names.
    pub async fn heartbeat(&self, beat: &Heartbeat) -> Result<Beat, Error> {
        let answer = HEARTBEAT
            .call(&self.core.link, |command, _| {
                let testing = self.core.settings.test_directives;
                self.core
                    .begin(command)
                    .arg(escape(&self.scope.worker(&beat.worker)))
                    .arg(beat.state.as_deref().unwrap_or(""));
                command.arg(or_empty(beat.visibility_ms)).arg(u8::from(testing)).arg(self.scope.word());
                command.arg(beat.fields.len() + usize::from(beat.registers));
                if beat.registers {
                    command.arg("registers").arg(1);
                }
                beat.fields.iter().for_each(|(name, value)| _ = command.arg(*name).arg(value));
                command.arg(&beat.jobs);
            })
            .await?;
        let mut parts = reply::array(answer, "heartbeat")?.into_iter();
        let mut next = || parts.next().ok_or_else(|| Error::unreadable("heartbeat"));
        let directive = reply::text(next()?);
        if directive == "pool" {
            return Err(Error::OtherPool(reply::text(next()?)));
        }
        Ok(Beat {
            directive,
            server_time: reply::number(next()?),
            extended: reply::texts(next()?, "heartbeat")?,
            cancelled: reply::texts(next()?, "heartbeat")?,
        })
    }

    /// Removes a worker; what it still held is available again. How many jobs that were, or `None` if it is unknown.
    pub async fn deregister(&self, worker: &str) -> Result<Option<usize>, Error> {
        let (mut known, mut handed_back) = (false, 0);
        loop {
            let answer = DEREGISTER
                .call(&self.core.link, |command, again| {
                    self.core.begin(command).arg(escape(&self.scope.worker(worker))).arg(u8::from(again));
                })
                .await?;
            let numbers: Vec<i64> = reply::array(answer, "deregister")?.into_iter().map(reply::number).collect();
            let [was_known, jobs, more] = numbers[..] else { return Err(Error::unreadable("deregister")) };
            known |= was_known == 1 || jobs > 0;
            handed_back += jobs as usize;
            if more == 0 {
                return Ok(known.then_some(handed_back));
            }
        }
    }

    /// How many workers have been heard of lately.
    pub async fn worker_count(&self) -> Result<u64, Error> {
        let mut command = redis::cmd("ZCARD");
        command.arg(self.core.keys.workers());
        Ok(reply::number(self.core.command("workers", command).await?) as u64)
    }
}
