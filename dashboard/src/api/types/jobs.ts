// Answers about jobs, crons and workflows.

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
  since?: string;
  until?: string;
  summary?: string;
  holders?: { job_id: string; queue: string }[];
}

/** Why a job waits. One that does not wait has no checks. */
export interface Explanation {
  checks?: Check[];
  binding?: string | null;
  summary?: string;
  eta?: { at: string; of?: string; basis?: string };
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
