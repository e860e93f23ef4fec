// The limits that hold a tenant back.

import type { Tenant, TenantStats } from "../api/types";
import { count } from "../lib/format";

export interface Limiting {
  limit: string;
  text: string;
  /** True if the limit stops the tenant now. */
  isReached: boolean;
}

/** The limits of a tenant of the list, with what counts against them. Its enqueue rate is only in its statistics. */
export function limitsOf({ jobs, limits }: Tenant): Limiting[] {
  const waiting = jobs.pending + jobs.available + jobs.scheduled;
  const usage: [string, number | null | undefined, number][] = [
    ["concurrency", limits.max_concurrency, jobs.active],
    ["queue depth", limits.max_queue_depth, waiting],
    ["scheduled jobs", limits.max_scheduled, jobs.scheduled],
  ];
  return usage.flatMap(([limit, most, current]) =>
    most === null || most === undefined ? [] : [{ limit, text: `${limit} ${count(current)} of ${count(most)}`, isReached: current >= most }],
  );
}

/** The limits of a tenant with statistics. */
export function limitsInUse(stats: TenantStats): Limiting[] {
  const names: [keyof TenantStats["limits"], string][] = [
    ["max_concurrency", "concurrency"],
    ["max_queue_depth", "queue depth"],
    ["max_scheduled", "scheduled jobs"],
    ["max_enqueue_rate", "enqueue rate"],
  ];
  return names.flatMap(([name, limit]) => {
    const usage = stats.limits[name];
    if (!usage) return [];
    return [{ limit, text: `${limit} ${count(usage.current)} of ${count(usage.limit)}`, isReached: usage.current >= usage.limit }];
  });
}
