// The story of a job: what happened to it and when, and why it is not running.

import type { Job, WaitingFor } from "../api/types";
import { words } from "../lib/format";

export interface Step {
  at: string;
  title: string;
  text?: string;
  tone: "calm" | "busy" | "good" | "bad";
}

/** The steps of a job in order of time. Of the attempts, the server keeps the failures and the start of the last one. */
export function story(job: Job): Step[] {
  const steps: Step[] = [{ at: job.created_at, title: "Created", tone: "calm" }];
  const add = (at: string | undefined, title: string, tone: Step["tone"], text?: string) => {
    if (at) steps.push(text === undefined ? { at, title, tone } : { at, title, tone, text });
  };
  add(job.scheduled_at, job.state === "scheduled" ? "Scheduled for" : "Was scheduled for", "calm");
  add(job.activated_at, "Activated", "calm");
  if (job.enqueued_at !== job.created_at) {
    add(job.enqueued_at, job.x_promoted_to ? `Promoted to ${job.x_promoted_to}` : "Made available", "busy");
  }
  for (const failure of job.errors ?? (job.error ? [job.error] : [])) {
    add(failure.occurred_at, `Attempt ${failure.attempt} failed`, "bad", failure.message ?? failure.code ?? failure.type);
  }
  add(job.started_at, `Attempt ${job.attempt} started`, "busy", job.worker_id ? `by worker ${job.worker_id}` : undefined);
  if (job.state === "retryable") add(job.next_retry_at, "Next attempt", "calm");
  // The server sets the time of completion of every job that has ended.
  if (job.state === "completed") add(job.completed_at, "Completed", "good");
  add(job.cancelled_at, "Cancelled", "bad");
  add(job.discarded_at, "Discarded", "bad");
  // Steps at the same moment stay in the order in which they are listed here.
  return steps.sort((one, other) => Date.parse(one.at) - Date.parse(other.at));
}

/** The reason why a job waits, as a sentence. */
export function reason(waiting: WaitingFor): string {
  const { reason: name, rule, tenant, queue, key, limit, gate, tenant_state } = waiting;
  switch (name) {
    case "staged": {
      const place = `Staged by rule ${rule ?? "?"}${tenant ? ` in the queue of tenant ${tenant}` : ""}`;
      if (gate && !gate.open) return `${place}. The gate is closed: ${words(gate.reason)}.`;
      if (tenant_state === "held") return `${place}. The tenant is held: its weight is 0.`;
      if (tenant_state === "awaits_weight") return `${place}. Its weight is not known yet.`;
      if (tenant_state === "blocked") return `${place}. The tenant is blocked.`;
      return `${place}, waiting for its turn.`;
    }
    case "rate_limit":
      return `Held back by the limit ${key ?? queue ?? ""}.`;
    case "tenant_limit":
      return `Tenant ${tenant ?? ""} is at its limit${limit ? `: ${words(limit)}` : ""}.`;
    case "queue_paused":
      return `Queue ${queue ?? ""} is paused.`;
    case "scheduled":
      return "Scheduled for later.";
    case "retry":
      return "Waiting for its next attempt.";
    case "activation":
      return "Waiting to be activated by its producer.";
    default:
      return `${words(name)}.`;
  }
}
