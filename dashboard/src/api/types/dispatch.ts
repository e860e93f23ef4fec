// Answers about queues, limits, pools and workers.

import type { Page } from "./caller";

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
