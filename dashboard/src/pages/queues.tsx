// All queues.

import { get, part } from "../api/client";
import { SLOW_MS, usePoll } from "../api/poll";
import { missing, session } from "../api/session";
import type { Page, Pagination, Queue, QueueStats } from "../api/types";
import { Count, Pill, Span } from "../components/figures";
import { Empty, Head, Loaded, Pager } from "../components/page";
import { Table } from "../components/table";
import { useStore } from "../lib/store";
import { link } from "../routes";
import { PauseQueue } from "./queue";

const LIMIT = 20;

interface Row {
  name: string;
  stats: QueueStats;
  throughput: Queue["throughput"] | null;
}

interface Rows {
  rows: Row[];
  pagination: Pagination;
}

/** Reads a page of queues, and for each of them the depth and the oldest job. */
async function read(offset: number, seesAll: boolean, signal: AbortSignal): Promise<Rows> {
  const page = await get<Page<Partial<Queue> & { name: string }>>(seesAll ? "/admin/queues" : "/queues", { offset, limit: LIMIT }, signal);
  const rows = page.items.map(async ({ name, throughput }) => ({
    name,
    throughput: throughput ?? null,
    stats: await get<QueueStats>(`/queues/${part(name)}/stats`, {}, signal),
  }));
  return { rows: await Promise.all(rows), pagination: page.pagination };
}

export function Queues({ query }: { query: Record<string, string> }) {
  const seesAll = missing("read-all", useStore(session)) === null;
  const offset = Number(query.offset ?? 0) || 0;
  const queues = usePoll(`queues ${offset}`, (signal) => read(offset, seesAll, signal), SLOW_MS);
  const jobs = (queue: string, state: string) => link(["jobs"], { queue, state });
  const number = (row: Row, state: string) => Number(row.stats[state] ?? 0);
  const states = [["available", "Available"], ["active", "Active"], ["pending", "Staged"], ["retryable", "Retry"], ["scheduled", "Scheduled"]] as const;
  return (
    <>
      <Head title="Queues" />
      <Loaded from={queues}>
        {({ rows, pagination }) => (
          <>
            <Table
              name="Queues"
              list={String(offset)}
              rows={rows}
              keyOf={(row) => row.name}
              columns={[
                { id: "name", label: "Queue", value: (row) => row.name, render: (row) => <a href={link(["queues", row.name])}>{row.name}</a> },
                { id: "state", label: "State", value: (row) => String(row.stats.paused), render: (row) => <Pill state={row.stats.paused ? "paused" : "open"} /> },
                { id: "actions", label: "Pause", render: (row) => <PauseQueue name={row.name} isPaused={row.stats.paused} onDone={queues.refresh} about={row.name} /> },
                ...states.map(([state, label]) => ({
                  id: state,
                  label,
                  align: "end" as const,
                  value: (row: Row) => number(row, state),
                  render: (row: Row) => <Count value={number(row, state)} href={jobs(row.name, state)} />,
                })),
                { id: "oldest", label: "Oldest", align: "end", value: (row) => row.stats.latency_ms, render: (row) => <Span ms={row.stats.latency_ms} /> },
                { id: "wait", label: "Avg wait", align: "end", value: (row) => row.throughput?.avg_wait_ms ?? null, render: (row) => <Span ms={row.throughput?.avg_wait_ms} /> },
                { id: "started", label: "Started/min", align: "end", value: (row) => row.throughput?.started_per_minute ?? null, render: (row) => <Count value={row.throughput?.started_per_minute} /> },
              ]}
              empty={<Empty title="No queue yet">A queue exists as soon as a job names it. Jobs that name none are in <code>default</code>.</Empty>}
            />
            <Pager pagination={pagination} shown={rows.length} />
          </>
        )}
      </Loaded>
    </>
  );
}
