// Lists of jobs, which the server scans in parts.

import { get, type Query } from "../api/client";
import type { Job, Page } from "../api/types";

/** The parts that one look at the list scans at most. */
const MOST_PARTS = 8;

/**
 * Reads jobs until `limit` of them match. A part of the scan may have fewer, or none, although more jobs match; and a job may
 * be in two of them.
 */
export async function readJobs(filter: Query, limit: number, signal: AbortSignal): Promise<Page<Job>> {
  const jobs = new Map<string, Job>();
  let cursor = filter.cursor;
  for (let part = 1; ; part += 1) {
    const page = await get<Page<Job>>("/jobs", { ...filter, cursor, limit }, signal);
    for (const job of page.items) jobs.set(job.id, job);
    cursor = page.pagination.next_cursor;
    if (jobs.size >= limit / 2 || !page.pagination.has_more || part === MOST_PARTS) {
      return { items: [...jobs.values()], pagination: page.pagination };
    }
  }
}
