//! Memory, CPU time and core affinity of processes.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::fs;
use std::time::Duration;

/// Resident memory in bytes; 0 if the process is gone.
pub fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// CPU time of all threads of a process so far. Read from `schedstat`, because `stat` counts in ticks of 10 ms.
pub fn cpu_time(pid: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let nanoseconds = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanoseconds.sum())
}

/// Pins this thread, and everything it starts later, to the last core available to it.
pub fn pin_to_one_core() -> nix::Result<()> {
    let this_thread = Pid::from_raw(0);
    let allowed = sched_getaffinity(this_thread)?;
    let last = (0..CpuSet::count()).rev().find(|core| allowed.is_set(*core).unwrap_or(false));
    let mut one = CpuSet::new();
    one.set(last.unwrap_or(0))?;
    sched_setaffinity(this_thread, &one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_memory_and_cpu_time_of_this_process() {
        assert!(resident(std::process::id()) > 100 * 1024);
        assert!(cpu_time(std::process::id()) > Duration::ZERO);
        assert_eq!((resident(u32::MAX), cpu_time(u32::MAX)), (0, Duration::ZERO));
    }

    #[test]
    fn a_pinned_thread_starts_pinned_threads() {
        let cores = || std::thread::available_parallelism().map_or(0, usize::from);
        let before = cores();
        let inside = std::thread::spawn(move || {
            pin_to_one_core().unwrap();
            (cores(), std::thread::spawn(cores).join().unwrap())
        });
        assert_eq!((inside.join().unwrap(), cores()), ((1, 1), before));
    }
}
