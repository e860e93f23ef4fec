// Jobs whose attempts are exhausted.

import { call, get, part } from "../api/client";
import { SLOW_MS, usePoll } from "../api/poll";
import type { DeadLetterStats, Job, Page } from "../api/types";
import { Action } from "../components/action";
import { Figure, When } from "../components/figures";
import { Filters } from "../components/filter";
import { Empty, Head, Loaded, Pager } from "../components/page";
import { Table } from "../components/table";
import { count, plural, shortId } from "../lib/format";
import { link } from "../routes";

const LIMIT = 50;
/** The causes that are counted at the top. */
const MOST_CAUSES = 4;

interface Changed {
  succeeded: number;
  failed: number;
  remaining: number;
}

export function DeadLetters({ query }: { query: Record<string, string> }) {
  const { queue = "", type = "", error_type = "" } = query;
  const offset = Number(query.offset ?? 0) || 0;
  const filter = { queue, type, error_type };
  const key = `dead ${queue} ${type} ${error_type} ${offset}`;
  const stats = usePoll("dead stats", (signal) => get<DeadLetterStats>("/dead-letter/stats", {}, signal), SLOW_MS);
  const jobs = usePoll(key, (signal) => get<Page<Job>>("/dead-letter", { ...filter, offset, limit: LIMIT }, signal), SLOW_MS);
  const done = () => {
    stats.refresh();
    jobs.refresh();
  };
  const total = jobs.data?.pagination.total ?? 0;
  return (
    <>
      <Head title="Dead letters" note="Jobs that failed as often as they may. They stay until they are retried, deleted, or too old." actions={total > 0 ? <All filter={filter} total={total} onDone={done} /> : null} />
      <Loaded from={stats}>{(data) => (data.total > 0 ? <Causes stats={data} /> : null)}</Loaded>
      <Filters
        filters={[
          { name: "queue", label: "Queue", value: queue, placeholder: "default" },
          { name: "type", label: "Type", value: type, placeholder: "report.daily" },
          { name: "error_type", label: "Error type", value: error_type, placeholder: "timeout" },
        ]}
      />
      <Loaded from={jobs}>
        {({ items, pagination }) => (
          <>
            <Table
              name="Dead letters"
              list={key}
              rows={items}
              keyOf={(job) => job.id}
              columns={[
                { id: "id", label: "Job", render: (job) => <a class="id" href={link(["jobs", job.id])} title={job.id}>{shortId(job.id)}</a> },
                { id: "type", label: "Type", value: (job) => job.type, render: (job) => job.type },
                { id: "queue", label: "Queue", value: (job) => job.queue, render: (job) => <a href={link(["queues", job.queue])}>{job.queue}</a> },
                { id: "error", label: "Error", render: (job) => <span class="why bad-text">{job.error?.message ?? job.error?.code ?? "–"}</span> },
                { id: "attempt", label: "Attempts", align: "end", value: (job) => job.attempt, render: (job) => <span class="number">{job.attempt}</span> },
                { id: "at", label: "Died", value: (job) => job.discarded_at ?? null, render: (job) => <When time={job.discarded_at} /> },
                { id: "actions", label: "Actions", render: (job) => <One job={job} onDone={done} /> },
              ]}
              empty={queue || type || error_type ? <Empty title="No dead letter matches"><a href={link(["dead-letters"])}>Show all</a></Empty> : <Empty title="No dead letters">Jobs appear here if their retry policy has <code>on_exhaustion: dead_letter</code> and all attempts failed.</Empty>}
            />
            <Pager pagination={pagination} shown={items.length} />
          </>
        )}
      </Loaded>
    </>
  );
}

function Causes({ stats }: { stats: DeadLetterStats }) {
  const causes = Object.entries(stats.by_error_type).sort(([, one], [, other]) => other - one).slice(0, MOST_CAUSES);
  return (
    <dl class="figures">
      <Figure label="All dead letters" value={count(stats.total)} href={link(["dead-letters"])} note={<>oldest <When time={stats.oldest_at} /></>} />
      {causes.map(([cause, amount]) => <Figure key={cause} label={cause} value={count(amount)} href={link(["dead-letters"], { error_type: cause })} />)}
    </dl>
  );
}

function One({ job, onDone }: { job: Job; onDone: () => void }) {
  const path = `/dead-letter/${part(job.id)}`;
  const about = `job ${shortId(job.id)}`;
  return (
    <span class="actions">
      <Action label="Retry" needs="admin" about={about} onDone={onDone} run={async () => { await call("POST", `${path}/retry`, { body: {} }); return `Job ${shortId(job.id)} is enqueued again.`; }} />
      <Action label="Delete" needs="admin" kind="danger" about={about} onDone={onDone} confirm={{ title: "Delete this job?", text: `${job.type}, ${job.id}. It cannot be restored.` }} run={async () => { await call("DELETE", path); return `Job ${shortId(job.id)} is deleted.`; }} />
    </span>
  );
}

/** Changes all jobs that the filter matches. */
function All({ filter, total, onDone }: { filter: Record<string, string>; total: number; onDone: () => void }) {
  const set = Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== ""));
  const body = { confirm: true, limit: 10_000, filter: set };
  const which = Object.keys(set).length === 0 ? "all dead letters" : "the dead letters that match the filter";
  const report = (verb: string, { succeeded, failed, remaining }: Changed) =>
    `${plural(succeeded, "job")} ${verb}${failed > 0 ? `, ${count(failed)} failed` : ""}${remaining > 0 ? `, ${count(remaining)} remain` : ""}.`;
  return (
    <>
      <Action label="Retry all" needs="admin" onDone={onDone} confirm={{ title: `Retry ${plural(total, "job")}?`, text: `This enqueues ${which} again.` }} run={async () => report("enqueued again", await call<Changed>("POST", "/dead-letter/retry", { body }))} />
      <Action label="Delete all" needs="admin" kind="danger" onDone={onDone} confirm={{ title: `Delete ${plural(total, "job")}?`, text: `This deletes ${which}. They cannot be restored.` }} run={async () => report("deleted", await call<Changed>("DELETE", "/dead-letter", { body }))} />
    </>
  );
}
