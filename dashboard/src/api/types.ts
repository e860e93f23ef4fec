// The parts of the API's answers that the dashboard reads. docs/openapi.md describes the whole of them.

export type Role = "producer" | "worker" | "operator" | "admin";

export interface CurrentKey {
  required: boolean;
  id: string | null;
  name: string | null;
  role: Role;
  tenant: string | null;
}

export interface Pagination {
  has_more: boolean;
  limit: number;
  next_cursor?: string;
  offset?: number;
  page?: number;
  per_page?: number;
  total?: number;
  truncated?: boolean;
}

export interface Page<Item> {
  items: Item[];
  pagination: Pagination;
}

export interface Health {
  status: "ok" | "unhealthy";
  backend: { status: string; type: string; latency_ms?: number; error?: string };
  queues: { active: number; paused: number };
  workers: { connected: number; stale: number };
  uptime_seconds: number;
  version: string;
}

export interface Stats {
  jobs: Record<string, number>;
  queues: number;
  workers: number;
  throughput: { processed_per_minute: number; failed_per_minute: number };
  uptime_seconds: number;
}

export interface Served {
  tenant_id: string;
  jobs: number;
  weight: number;
}

export interface Round {
  at?: string;
  round: number | null;
  rule: string;
  outcome: "promoted" | "skipped" | "lost_lock" | "failed" | "shadow";
  reason: string | null;
  error?: string | null;
  promoted: number;
  batch?: number;
  depth?: number;
  latency_ms?: number;
  duration_ms?: number;
  drain_per_s?: number;
  tenants: number;
  served: Served[];
  weights_source?: string;
}

export interface Gate {
  open: boolean;
  reason: string | null;
  latency_threshold_ms?: number;
  max_depth?: number;
}

export interface Rule {
  rule: string;
  state: "running" | "stalled" | "paused" | "shadow" | "draining";
  source: "file" | "api" | "removed";
  types: string[];
  queue: string | null;
  gate: Gate;
  fairness: { jain_index: number; max_deviation_jobs: number; worst_wait_bound_jobs: number | null };
  staged: { jobs: number; tenants: number; oldest_age_ms: number | null };
  main_queue: {
    kind: string;
    name: string | null;
    main_queue: string;
    depth: number;
    active: number;
    latency_ms: number;
    drain_per_s: number;
    trouble: string | null;
    queues: { name: string; depth: number; latency_ms: number; staged: number; open: boolean; reason: string | null }[];
  };
  rounds: { total: number; promoted_total: number; skipped_total: number; last_at: string | null; next_at: string | null };
  waste: { idle_worker_seconds_total: number } | null;
  weights: {
    source?: string;
    age_ms: number | null;
    breaker: "closed" | "open" | "half_open" | null;
    errors_total: number;
    failing_since: string | null;
    fallback: string | null;
    last_error: string | null;
    next_attempt_at: string | null;
  };
  options: Record<string, unknown> & { weights?: { static?: Record<string, number>; default_weight?: number; webhook?: { url: string } } };
  last_rounds: Round[];
}

export interface RuleTenant {
  tenant_id: string;
  queue: string;
  pending: number;
  oldest_age_ms: number | null;
  promoted_total: number;
  share: number;
  expected_share: number;
  weight: number;
  wait_bound_jobs: number | null;
  held: boolean;
  awaits_weight: boolean;
}

export interface Preview {
  batch: number;
  order: string[];
  tenants: Served[];
  gate: Gate;
  truncated: boolean;
  why: string;
}

export interface Window {
  limit: number;
  period: string;
}

export interface TenantLimits {
  enforcement?: "hard" | "soft";
  max_concurrency?: number | null;
  max_queue_depth?: number | null;
  max_scheduled?: number | null;
  max_enqueue_rate?: Window | null;
}

export interface TenantJobs {
  active: number;
  available: number;
  pending: number;
  retryable: number;
  scheduled: number;
}

export interface Tenant {
  tenant_id: string;
  fairness_weight: number;
  priority_boost: number;
  source: string;
  tier: string | null;
  jobs: TenantJobs;
  total_jobs: number;
  limits: TenantLimits;
}

export interface TenantChange {
  at?: string;
  by?: string;
  reason?: string | null;
  from?: unknown;
  to?: unknown;
}

export interface Usage {
  current: number;
  limit: number;
  period?: string;
}

export interface TenantStats {
  tenant_id: string;
  counted: boolean;
  jobs: TenantJobs & { completed_24h: number | null; failed_24h: number | null };
  limits: { [name in "max_concurrency" | "max_queue_depth" | "max_scheduled" | "max_enqueue_rate"]?: Usage };
  fairness: { weight: number; actual_share: number | null; effective_share: number | null };
  throughput: { enqueued_per_minute: number | null; processed_per_minute: number | null };
  total_jobs: number;
}

export interface Evidence {
  signal: string;
  value: number;
  compared_with: number;
  ratio: number;
  threshold: number;
  conclusive: boolean;
}

export interface Noise {
  enabled: boolean;
  noisy: boolean;
  throttled: boolean;
  noisy_since: string | null;
  verdict: {
    evidence: Evidence[];
    share: number;
    fair_share: number;
    hurt: { tenant_id: string; waiting: number; share: number; fair_share: number; lost: number }[];
  } | null;
  throttle: { action: string; reason: string; since: string; until: string; original_weight: number; effective_weight: number } | null;
}

export interface JobFailure {
  attempt: number;
  occurred_at?: string;
  code?: string;
  type?: string;
  message?: string;
  backtrace?: unknown;
}

export interface WaitingFor {
  reason: string;
  rule?: string;
  tenant?: string;
  queue?: string;
  key?: string;
  limit?: string;
  scope?: string;
  strategy?: string;
  tenant_state?: string;
  since?: string;
  until?: string;
  gate?: { open: boolean; reason: string | null };
}

export interface Job {
  id: string;
  type: string;
  queue: string;
  state: string;
  args: unknown[];
  meta: Record<string, unknown>;
  priority: number;
  attempt: number;
  max_attempts: number;
  created_at: string;
  enqueued_at?: string;
  scheduled_at?: string;
  started_at?: string;
  activated_at?: string;
  completed_at?: string;
  cancelled_at?: string;
  discarded_at?: string;
  next_retry_at?: string;
  expires_at?: string;
  result?: unknown;
  error?: JobFailure;
  errors?: JobFailure[];
  worker_id?: string;
  workflow_id?: string;
  tags?: string[];
  waiting_for?: WaitingFor;
  x_staged?: boolean;
  x_promoted_to?: string;
}

export interface Check {
  name: string;
  state: string;
  since?: string | null;
  summary?: string;
}

export interface Explanation {
  checks: Check[];
  binding?: string | null;
  eta?: unknown;
}

export interface Queue {
  name: string;
  paused: boolean;
  state: string;
  counts: Record<string, number>;
  throughput: { avg_wait_ms: number; started_per_minute: number; processed_per_minute: number | null; failed_per_minute: number | null };
}

export interface QueueStats {
  name: string;
  paused: boolean;
  depth: number;
  latency_ms: number;
  oldest_available_at: string | null;
  [state: string]: unknown;
}

export interface Limit {
  key: string;
  scope: string;
  waiting_count: number;
  concurrency?: { limit: number; active: number; available?: number };
  rate?: { limit: number; period: string; current_count: number; window_resets_at?: string };
  throttle?: { limit: number; period: string; next_allowed_at?: string };
  hold_until?: string;
  override?: { expires_at: string | null };
  partition?: { key: string; name: string; scope: string };
  partitions?: Limit[];
  partitions_total?: number;
}

export interface Pool {
  name: string;
  queues: string[];
  strategy: string;
  concurrency: number | null;
  active_jobs: number;
  active_workers: number;
  isolated: boolean;
  source: string;
  weights?: Record<string, number>;
}

export interface Worker {
  id: string;
  state: string;
  active_jobs: number;
  active_job_ids?: string[];
  last_heartbeat_at: string;
  started_at: string | null;
}

export interface WorkerPage extends Page<Worker> {
  summary: { total: number; running: number; quiet: number; stale: number };
}

export interface Cron {
  name: string;
  expression: string;
  timezone: string;
  type: string;
  enabled: boolean;
  overlap_policy: string;
  next_run_at: string | null;
  last_run_at: string | null;
  run_count: number;
  queue?: string;
  description?: string;
}

export interface WorkflowPart {
  index?: number;
  id?: string;
  type: string;
  state: string;
  job_id?: string;
  steps?: WorkflowPart[];
  jobs?: WorkflowPart[];
  callbacks?: Record<string, WorkflowPart>;
}

export interface Workflow {
  id: string;
  type: string;
  name?: string;
  state: string;
  created_at: string;
  started_at: string;
  completed_at?: string;
  cancelled_at?: string;
  metadata: { job_count: number; completed_count: number; failed_count: number };
  steps?: WorkflowPart[];
  jobs?: WorkflowPart[];
  callbacks?: Record<string, WorkflowPart>;
}

export interface DeadLetterStats {
  total: number;
  by_queue: Record<string, number>;
  by_error_type: Record<string, number>;
  oldest_at: string | null;
  newest_at: string | null;
}

export interface Waits {
  jobs: number;
  p50_ms: number | null;
  p95_ms: number | null;
}

export interface Shadow {
  rule: string;
  watcher?: string | null;
  queue?: string;
  since?: string;
  looked_at?: string;
  trouble?: string | null;
  line?: { jobs: number; tenants: number; truncated: boolean };
  taken_total?: number;
  drain_per_s?: number;
  would?: { staged: number; tenants: number; rounds_total: number; promoted_total: number };
  as_is?: Waits;
  planned?: Waits;
  tenants?: { tenant_id: string; weight: number | null; waiting: number; oldest_age_ms: number | null; as_is: Waits; planned: Waits }[];
  tenants_total?: number;
}

export interface EventRecord {
  id: string;
  type: string;
  time: string;
  subject?: string;
  data: Record<string, unknown>;
}
