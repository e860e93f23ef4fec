//! The results of the HTTP benchmark, as a table and as JSON.

use crate::bar::Bar;
use crate::load::Measured;
use serde_json::{Value, json};
use std::fmt::{self, Display, Formatter};

/// A row of the table.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub name: &'static str,
    pub measured: Measured,
    /// `None` for raw runs.
    pub cpu: Option<Cpu>,
}

impl Row {
    /// Adds a further turn.
    pub fn add(&mut self, turn: Row) {
        let share = turn.measured.jobs as f64 / (self.measured.jobs + turn.measured.jobs).max(1) as f64;
        let mean = |so_far: f64, of_turn: f64| so_far + (of_turn - so_far) * share;
        self.cpu = turn.cpu.map(|of_turn| {
            let so_far = self.cpu.unwrap_or_default();
            Cpu {
                server_us: mean(so_far.server_us, of_turn.server_us),
                redis_us: mean(so_far.redis_us, of_turn.redis_us),
                load_us: mean(so_far.load_us, of_turn.load_us),
            }
        });
        self.name = turn.name;
        self.measured.add(turn.measured);
    }
}

/// CPU time per job, in µs. On shared cores it determines the rate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    pub server_us: f64,
    pub redis_us: f64,
    pub load_us: f64,
}

/// All measurements of one run.
#[derive(Clone, Debug, Default)]
pub struct BenchReport {
    pub connections: usize,
    pub seconds: u64,
    pub jobs_per_batch: usize,
    pub durable: bool,
    pub redis: String,
    /// Over TCP, like the HTTP requests to the server.
    pub raw_set: Row,
    pub raw_set_unix: Row,
    pub raw_enqueue: Row,
    pub enqueue: Row,
    pub batches: Row,
    pub fetch_ack: Row,
    pub life: Row,
    /// Another server under the same load: enqueue, then fetch + ack.
    pub other: Option<[Row; 2]>,
    /// Resident memory of the server before its first request, in bytes.
    pub idle_memory: u64,
    /// The same after the last request.
    pub loaded_memory: u64,
}

/// Rates of the Go reference server on two shared cores, used if it does not run at the same time.
const GO_ENQUEUES: f64 = 8200.0;
pub const GO_CYCLES: f64 = 2800.0;

impl BenchReport {
    fn rows(&self) -> Vec<&Row> {
        let raw = [&self.raw_set, &self.raw_set_unix, &self.raw_enqueue];
        let ours = [&self.enqueue, &self.batches, &self.fetch_ack, &self.life];
        raw.into_iter().chain(ours).chain(self.other.iter().flatten()).collect()
    }

    /// The number of failed requests.
    pub fn errors(&self) -> u64 {
        self.rows().iter().map(|row| row.measured.errors).sum()
    }

    fn of_raw_enqueue(&self, row: &Row) -> f64 {
        row.measured.rate() / self.raw_enqueue.measured.rate().max(1e-9)
    }

    fn of_raw_set(&self, row: &Row) -> f64 {
        row.measured.rate() / self.raw_set.measured.rate().max(1e-9)
    }

    fn bars(&self) -> Vec<Bar> {
        let idle = mebibytes(self.idle_memory);
        let (enqueues, cycles) = (self.enqueue.measured.rate(), self.fetch_ack.measured.rate());
        let (reference, theirs) = match &self.other {
            Some(other) => ("the other server's", other.each_ref().map(|row| row.measured.rate().max(1e-9))),
            None => ("the Go server's, elsewhere", [GO_ENQUEUES, GO_CYCLES]),
        };
        vec![
            Bar::at_least("enqueue, of raw FCALL", self.of_raw_enqueue(&self.enqueue), 0.5),
            Bar::at_least("enqueue, of raw SET, both over TCP", self.of_raw_set(&self.enqueue), 0.4),
            Bar::at_least("enqueue in batches, of raw FCALL", self.of_raw_enqueue(&self.batches), 1.5),
            Bar::at_least(format!("enqueue, of {reference}"), enqueues / theirs[0], 4.0),
            Bar::at_least(format!("fetch + ack, of {reference}"), cycles / theirs[1], 4.0),
            Bar::below("idle memory, below, in MiB", idle, 25.0),
        ]
    }

    fn settings(&self) -> String {
        let aof = if self.durable { "append-only file, fsync every second" } else { "no persistence" };
        format!("{} on a unix socket, {aof}, {} CPUs", self.redis, cpus())
    }

    /// The report as JSON.
    pub fn json(&self) -> Value {
        let row = |row: &&Row| {
            let measured = &row.measured;
            let cpu = row.cpu.map(|cpu| json!({"server": cpu.server_us, "redis": cpu.redis_us, "load": cpu.load_us}));
            json!({
                "name": row.name, "jobs": measured.jobs, "seconds": measured.seconds, "rate": measured.rate(),
                "p50_ms": measured.p50_ms, "p99_ms": measured.p99_ms,
                "of_raw_enqueue": self.of_raw_enqueue(row), "of_raw_set": self.of_raw_set(row),
                "cpu_us_per_job": cpu, "errors": measured.errors, "first_error": measured.first_error,
            })
        };
        json!({
            "settings": {
                "connections": self.connections, "seconds": self.seconds, "jobs_per_batch": self.jobs_per_batch,
                "durable": self.durable, "redis": self.redis, "cpus": cpus(),
            },
            "rows": self.rows().iter().map(row).collect::<Vec<_>>(),
            "memory_bytes": {"idle": self.idle_memory, "after_load": self.loaded_memory},
            "bars": self.bars().iter().map(Bar::json).collect::<Vec<_>>(),
        })
    }
}

impl Display for BenchReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.settings())?;
        let (connections, seconds, batch) = (self.connections, self.seconds, self.jobs_per_batch);
        writeln!(f, "{connections} connections, {seconds} s each, jobs of 211 bytes, batches of {batch}\n")?;
        let heads =
            ["per second", "p50 ms", "p99 ms", "of FCALL", "of SET", "CPU us: server", "Redis", "load", "errors"];
        write!(f, "{:<22}", "")?;
        heads.iter().try_for_each(|head| write!(f, "  {head:>6}"))?;
        writeln!(f)?;
        for row in self.rows() {
            let measured = &row.measured;
            write!(f, "{:<22}  {:>10.0}", row.name, measured.rate())?;
            write!(f, "  {:>6.2}  {:>6.2}", measured.p50_ms, measured.p99_ms)?;
            write!(f, "  {:>10.2}  {:>6.2}", self.of_raw_enqueue(row), self.of_raw_set(row))?;
            match row.cpu {
                Some(cpu) => write!(f, "  {:>14.1}  {:>6.1}  {:>6.1}", cpu.server_us, cpu.redis_us, cpu.load_us)?,
                None => write!(f, "  {:>14}  {:>6}  {:>6}", "", "", "")?,
            }
            writeln!(f, "  {:>6}", measured.errors)?;
        }
        let (idle, loaded) = (mebibytes(self.idle_memory), mebibytes(self.loaded_memory));
        writeln!(f, "\nresident memory of the server: {idle:.1} MiB idle, {loaded:.1} MiB after the load\n")?;
        for bar in self.bars() {
            writeln!(f, "{bar}")?;
        }
        for row in self.rows() {
            if let Some(error) = &row.measured.first_error {
                writeln!(f, "\n{} requests of {:?} failed; the first: {error}", row.measured.errors, row.name)?;
            }
        }
        Ok(())
    }
}

pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(0, usize::from)
}

pub fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(jobs: u64, errors: u64) -> Row {
        Row { name: "a row", measured: Measured { jobs, seconds: 1.0, errors, ..Measured::default() }, cpu: None }
    }

    #[test]
    fn a_bar_is_met_at_its_bound() {
        let mut report = BenchReport {
            raw_set: row(100_000, 0),
            raw_enqueue: row(80_000, 0),
            enqueue: row(40_000, 0),
            batches: row(119_999, 0),
            fetch_ack: row(11_200, 0),
            idle_memory: 25 << 20,
            ..BenchReport::default()
        };
        let met: Vec<bool> = report.bars().iter().map(|bar| bar.is_met).collect();
        assert_eq!(met, [true, true, false, true, true, false]);
        report.idle_memory -= 1;
        assert!(report.bars()[5].is_met);
    }

    #[test]
    fn turns_are_weighted_by_their_jobs() {
        let cpu = |us| Some(Cpu { server_us: us, redis_us: us, load_us: us });
        let mut sum = Row::default();
        sum.add(Row { cpu: cpu(10.0), ..row(100, 0) });
        sum.add(Row { cpu: cpu(20.0), ..row(300, 1) });
        assert_eq!((sum.name, sum.measured.jobs, sum.measured.rate(), sum.measured.errors), ("a row", 400, 200.0, 1));
        assert_eq!(sum.cpu.expect("known").redis_us, 17.5);
    }

    #[test]
    fn errors_of_every_row_count_and_show() {
        let mut report = BenchReport { enqueue: row(1, 2), life: row(1, 3), ..BenchReport::default() };
        report.life.measured.first_error = Some("fetch answered 503".to_owned());
        assert_eq!(report.errors(), 5);
        assert!(report.to_string().contains("3 requests of \"a row\" failed; the first: fetch answered 503"));
        assert_eq!(report.json()["rows"][6]["errors"], 3);
    }
}
