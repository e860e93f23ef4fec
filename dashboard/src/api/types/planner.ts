// Answers about plan rules.

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
