// Pools, and the workers that fetch from them.

import { call, get, part } from "../api/client";
import { SLOW_MS, usePoll } from "../api/poll";
import type { Page, Pool, Worker, WorkerPage } from "../api/types";
import { Action } from "../components/action";
import { Bar, Count, Pill, When } from "../components/figures";
import { Empty, Head, Loaded, Pager, Section } from "../components/page";
import { type Column, Table } from "../components/table";
import { count, plural, shortId } from "../lib/format";
import { link } from "../routes";

const LIMIT = 50;
/** The jobs of a worker that its row names. */
const MOST_JOBS = 3;

export function Workers({ query }: { query: Record<string, string> }) {
  const offset = Number(query.offset ?? 0) || 0;
  const pools = usePoll("pools", (signal) => get<Page<Pool>>("/admin/pools", { limit: LIMIT }, signal), SLOW_MS);
  const workers = usePoll(`workers ${offset}`, (signal) => get<WorkerPage>("/admin/workers", { offset, limit: LIMIT }, signal));
  return (
    <>
      <Head title="Pools and workers" />
      <Section title="Pools">
        <Loaded from={pools}>
          {({ items }) => (
            <Table
              name="Pools"
              rows={items}
              keyOf={(pool) => pool.name}
              columns={POOL_COLUMNS}
              empty={<Empty title="No pool">Workers name their queues themselves. A pool lets the server choose the queue; add a <code>[[pool]]</code> to the configuration.</Empty>}
            />
          )}
        </Loaded>
      </Section>
      <Loaded from={workers}>
        {({ items, summary, pagination }) => (
          <Section title="Workers" note={`${plural(summary.running, "running", "running")}, ${count(summary.quiet)} quiet, ${count(summary.stale)} without a heartbeat`}>
            <Table
              name="Workers"
              list={String(offset)}
              rows={items}
              keyOf={(worker) => worker.id}
              columns={workerColumns(workers.refresh)}
              empty={<Empty title="No worker is known">A worker appears with its first fetch, heartbeat or registration.</Empty>}
            />
            <Pager pagination={pagination} shown={items.length} />
          </Section>
        )}
      </Loaded>
    </>
  );
}

const POOL_COLUMNS: Column<Pool>[] = [
  { id: "name", label: "Pool", value: (pool) => pool.name, render: (pool) => <strong>{pool.name}</strong> },
  {
    id: "queues",
    label: "Queues",
    render: (pool) => pool.queues.map((queue, index) => <span key={queue}>{index > 0 ? ", " : ""}<a href={link(["queues", queue])}>{queue}</a>{pool.weights?.[queue] === undefined ? "" : ` (${pool.weights[queue]})`}</span>),
  },
  { id: "strategy", label: "Strategy", value: (pool) => pool.strategy, render: (pool) => pool.strategy },
  {
    id: "active",
    label: "Active jobs",
    value: (pool) => pool.active_jobs,
    render: (pool) => pool.concurrency === null ? <Count value={pool.active_jobs} /> : (
      <span class="with-bar">
        <Bar value={pool.active_jobs} most={pool.concurrency} label={`${count(pool.active_jobs)} of ${count(pool.concurrency)}`} tone={pool.active_jobs >= pool.concurrency ? "warn" : "busy"} />
        <span class="number">{count(pool.active_jobs)} of {count(pool.concurrency)}</span>
      </span>
    ),
  },
  { id: "workers", label: "Workers", align: "end", value: (pool) => pool.active_workers, render: (pool) => <Count value={pool.active_workers} /> },
  { id: "limited", label: "Limited by", render: (pool) => pool.concurrency !== null && pool.active_jobs >= pool.concurrency ? <Pill state="held">concurrency</Pill> : <span class="dim">–</span> },
];

function workerColumns(onDone: () => void): Column<Worker>[] {
  return [
    { id: "id", label: "Worker", value: (worker) => worker.id, render: (worker) => <span class="id" title={worker.id}>{worker.id}</span> },
    { id: "state", label: "State", value: (worker) => worker.state, render: (worker) => <Pill state={worker.state} /> },
    { id: "jobs", label: "Active jobs", align: "end", value: (worker) => worker.active_jobs, render: (worker) => <Count value={worker.active_jobs} /> },
    { id: "ids", label: "Jobs", render: (worker) => <JobLinks ids={worker.active_job_ids ?? []} /> },
    { id: "heartbeat", label: "Last heartbeat", value: (worker) => worker.last_heartbeat_at, render: (worker) => <When time={worker.last_heartbeat_at} /> },
    { id: "actions", label: "Actions", render: (worker) => <WorkerActions worker={worker} onDone={onDone} /> },
  ];
}

function JobLinks({ ids }: { ids: string[] }) {
  if (ids.length === 0) return <span class="dim">–</span>;
  return (
    <span class="served">
      {ids.slice(0, MOST_JOBS).map((id) => <a key={id} class="id" href={link(["jobs", id])} title={id}>{shortId(id)}</a>)}
      {ids.length > MOST_JOBS ? <span class="dim">and {ids.length - MOST_JOBS} more</span> : null}
    </span>
  );
}

function WorkerActions({ worker, onDone }: { worker: Worker; onDone: () => void }) {
  const { id, state } = worker;
  const change = async (action: string) => void (await call("POST", `/admin/workers/${part(id)}/${action}`));
  return (
    <span class="actions">
      {state === "quiet" ? (
        <Action label="Resume" needs="operate-all" about={id} onDone={onDone} run={async () => { await change("resume"); return `Worker ${id} gets jobs again.`; }} />
      ) : (
        <Action label="Quiet" needs="operate-all" about={id} onDone={onDone} run={async () => { await change("quiet"); return `Worker ${id} gets no more jobs.`; }} />
      )}
      <Action
        label="Terminate"
        needs="admin-all"
        kind="danger"
        about={id}
        onDone={onDone}
        confirm={{ title: `Terminate worker ${id}?`, text: "It is asked to exit with its next heartbeat." }}
        run={async () => { await change("terminate"); return `Worker ${id} is asked to exit.`; }}
      />
    </span>
  );
}
