//! Reasons for which a cron is skipped.

/// Reason for which a cron that is due stores no job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CronSkip {
    /// Daylight saving skips the time.
    DstSkip,
    /// The rules refuse the job.
    JobRefused,
    /// The previous job has not ended, and the overlap policy is `skip`.
    OverlapSkip,
    /// The queue has reached its bound, or the plan rule its limit of staged jobs.
    QueueFull,
    /// The tenant has reached one of its limits.
    TenantLimit,
    /// The job is a duplicate of another one.
    Duplicate,
}

impl CronSkip {
    const ALL: [CronSkip; 6] = [
        CronSkip::DstSkip,
        CronSkip::JobRefused,
        CronSkip::OverlapSkip,
        CronSkip::QueueFull,
        CronSkip::TenantLimit,
        CronSkip::Duplicate,
    ];

    /// Returns the name in events and answers.
    pub fn name(self) -> &'static str {
        match self {
            CronSkip::DstSkip => "dst_skip",
            CronSkip::JobRefused => "job_refused",
            CronSkip::OverlapSkip => "overlap_skip",
            CronSkip::QueueFull => "queue_full",
            CronSkip::TenantLimit => "tenant_limit",
            CronSkip::Duplicate => "duplicate",
        }
    }

    /// Parses the name of a reason.
    pub fn from_name(name: &str) -> Option<CronSkip> {
        CronSkip::ALL.into_iter().find(|reason| reason.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for reason in CronSkip::ALL {
            assert_eq!(CronSkip::from_name(reason.name()), Some(reason));
        }
        assert_eq!(CronSkip::from_name(""), None);
    }
}
