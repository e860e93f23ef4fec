//! The columns of each list.

use super::column::Column;

/// Jobs.
pub(in crate::cli) const JOBS: &[Column] = &[
    Column::text("ID", "/id"),
    Column::text("STATE", "/state"),
    Column::text("TYPE", "/type"),
    Column::text("QUEUE", "/queue"),
    Column::text("TENANT", "/meta/tenant_id"),
    Column::number("ATTEMPT", "/attempt"),
    Column::text("CREATED", "/created_at"),
];
/// Queues, with the jobs of the last minute.
pub(in crate::cli) const QUEUES: &[Column] = &[
    Column::text("QUEUE", "/name"),
    Column::text("STATE", "/state"),
    Column::number("STAGED+PENDING", "/counts/pending"),
    Column::number("AVAILABLE", "/counts/available"),
    Column::number("ACTIVE", "/counts/active"),
    Column::number("SCHEDULED", "/counts/scheduled"),
    Column::number("RETRYABLE", "/counts/retryable"),
    Column::number("STARTED/MIN", "/throughput/started_per_minute"),
    Column::number("FAILED/MIN", "/throughput/failed_per_minute"),
    Column::duration("AVG WAIT", "/throughput/avg_wait_ms"),
];
/// Tenants that have jobs or settings.
pub(in crate::cli) const TENANTS: &[Column] = &[
    Column::text("TENANT", "/tenant_id"),
    Column::number("WEIGHT", "/fairness_weight"),
    Column::number("JOBS", "/total_jobs"),
    Column::number("STAGED+PENDING", "/jobs/pending"),
    Column::number("AVAILABLE", "/jobs/available"),
    Column::number("ACTIVE", "/jobs/active"),
    Column::number("MAX ACTIVE", "/limits/max_concurrency"),
    Column::text("SETTINGS", "/source"),
];
/// Rate limits.
pub(in crate::cli) const LIMITS: &[Column] = &[
    Column::text("LIMIT", "/key"),
    Column::number("ACTIVE", "/concurrency/active"),
    Column::number("OF", "/concurrency/limit"),
    Column::number("STARTS", "/rate/current_count"),
    Column::number("OF", "/rate/limit"),
    Column::text("PERIOD", "/rate/period"),
    Column::number("WAITING", "/waiting_count"),
    Column::text("STOPPED UNTIL", "/hold_until"),
];
/// Workers.
pub(in crate::cli) const WORKERS: &[Column] = &[
    Column::text("WORKER", "/id"),
    Column::text("STATE", "/state"),
    Column::text("POOL", "/pool"),
    Column::number("ACTIVE", "/active_jobs"),
    Column::text("LAST HEARTBEAT", "/last_heartbeat_at"),
];
/// Plan rules.
pub(in crate::cli) const RULES: &[Column] = &[
    Column::text("RULE", "/rule"),
    Column::text("STATE", "/state"),
    Column::number("STAGED", "/staged/jobs"),
    Column::number("TENANTS", "/staged/tenants"),
    Column::duration("OLDEST", "/staged/oldest_age_ms"),
    Column::text("OPEN", "/gate/open"),
    Column::text("CLOSED BY", "/gate/reason"),
    Column::duration("LATENCY", "/main_queue/latency_ms"),
    Column::duration("OF", "/gate/latency_threshold_ms"),
    Column::number("DEPTH", "/main_queue/depth"),
    Column::number("JOBS/S", "/main_queue/drain_per_s"),
    Column::number("PROMOTED", "/rounds/promoted_total"),
];
/// Tenants with staged jobs of a rule.
pub(in crate::cli) const RULE_TENANTS: &[Column] = &[
    Column::text("TENANT", "/tenant_id"),
    Column::text("QUEUE", "/queue"),
    Column::number("STAGED", "/pending"),
    Column::duration("OLDEST", "/oldest_age_ms"),
    Column::number("WEIGHT", "/weight"),
    Column::text("HELD", "/held"),
    Column::part("SHARE", "/share"),
    Column::part("EXPECTED", "/expected_share"),
    Column::number("NEXT WITHIN", "/wait_bound_jobs"),
];
