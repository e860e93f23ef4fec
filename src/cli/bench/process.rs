//! What the kernel tells about a process: memory and CPU time.

use std::fs;
use std::time::Duration;

/// Resident memory in bytes; 0 if the process is gone.
pub(super) fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// CPU time of all its threads so far. From `schedstat`, because `stat` counts in ticks of 10 ms.
pub(super) fn cpu_time(pid: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let nanoseconds = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanoseconds.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_about_ourselves() {
        assert!(resident(std::process::id()) > 100 * 1024);
        assert!(cpu_time(std::process::id()) > Duration::ZERO);
        assert_eq!((resident(u32::MAX), cpu_time(u32::MAX)), (0, Duration::ZERO));
    }
}
