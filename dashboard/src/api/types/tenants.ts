// Answers about tenants.

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
