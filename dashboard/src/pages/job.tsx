// The story of a job.

import { call, get, part } from "../api/client";
import { usePoll } from "../api/poll";
import { missing, session } from "../api/session";
import type { Explanation, Job as JobData } from "../api/types";
import { Action } from "../components/action";
import { Figure, Pill, When } from "../components/figures";
import { Head, Loaded, Section } from "../components/page";
import { Table } from "../components/table";
import { reason, story } from "../data/story";
import { moment, shortId, words } from "../lib/format";
import { useStore } from "../lib/store";
import { link } from "../routes";

const ENDED = ["completed", "discarded", "cancelled"];

export function Job({ id }: { id: string }) {
  const job = usePoll(`job ${id}`, (signal) => get<JobData>(`/jobs/${part(id)}`, {}, signal));
  return (
    <>
      <Head title={job.data?.type ?? "Job"} back={{ href: link(["jobs"]), label: "Jobs" }} note={<code>{id}</code>} actions={job.data ? <Actions job={job.data} onDone={job.refresh} /> : null} />
      <Loaded from={job}>{(data) => <Story job={data} />}</Loaded>
    </>
  );
}

function Actions({ job, onDone }: { job: JobData; onDone: () => void }) {
  const hasEnded = ENDED.includes(job.state);
  return (
    <>
      {job.state === "discarded" || job.state === "cancelled" ? (
        <Action label="Retry" needs="admin" kind="primary" onDone={onDone} run={async () => { await call("POST", `/admin/jobs/${part(job.id)}/retry`); return "The job is enqueued again."; }} />
      ) : null}
      {hasEnded ? null : (
        <Action
          label="Cancel"
          needs="produce"
          kind="danger"
          onDone={onDone}
          confirm={{ title: "Cancel this job?", text: job.state === "active" ? "Its worker is told with its next heartbeat." : "It will not run.", confirm: "Cancel the job" }}
          run={async () => { await call("POST", `/jobs/${part(job.id)}/cancel`, { body: {} }); return "The job is cancelled."; }}
        />
      )}
    </>
  );
}

function Story({ job }: { job: JobData }) {
  const tenant = typeof job.meta?.tenant_id === "string" ? job.meta.tenant_id : null;
  const failures = job.errors ?? (job.error ? [job.error] : []);
  const reads = missing("read", useStore(session)) === null;
  return (
    <>
      <dl class="figures">
        <Figure label="State" value={<Pill state={job.state} />} note={job.waiting_for ? reason(job.waiting_for) : undefined} />
        <Figure label="Queue" value={job.queue} href={link(["queues", job.queue])} note={job.priority === 0 ? undefined : `priority ${job.priority}`} />
        <Figure label="Tenant" value={tenant ?? "–"} {...(tenant ? { href: link(["tenants", tenant]) } : {})} />
        <Figure label="Attempt" value={`${job.attempt} of ${job.max_attempts}`} note={failures.length > 0 ? `${failures.length} failed` : undefined} />
        {job.workflow_id ? <Figure label="Workflow" value="Open" href={link(["workflows", job.workflow_id])} /> : null}
        {job.worker_id ? <Figure label="Worker" value={job.worker_id} href={link(["workers"])} /> : null}
      </dl>
      {reads && !ENDED.includes(job.state) ? <Checks id={job.id} /> : null}
      <div class="columns">
        <Section title="Timeline">
          <ol class="timeline">
            {story(job).map((step, index) => (
              <li key={index} class={`step step-${step.tone}`}>
                <strong>{step.title}</strong> <When time={step.at} />
                <span class="dim"> {moment(step.at)}</span>
                {step.text ? <p>{step.text}</p> : null}
              </li>
            ))}
          </ol>
        </Section>
        <div>
          <Section title="Arguments"><Json value={job.args} /></Section>
          <Section title="Meta"><Json value={job.meta} /></Section>
          {job.result === undefined ? null : <Section title="Result"><Json value={job.result} /></Section>}
        </div>
      </div>
      {failures.some((failure) => failure.backtrace) ? (
        <Section title="Backtrace of the last failure"><Json value={failures.at(-1)?.backtrace} /></Section>
      ) : null}
      <details class="section"><summary>The whole job as JSON</summary><Json value={job} /></details>
    </>
  );
}

/** The checks between the job and a worker. */
function Checks({ id }: { id: string }) {
  const explanation = usePoll(`checks ${id}`, (signal) => get<Explanation>(`/jobs/${part(id)}/explain`, {}, signal)).data;
  if (!explanation?.checks) return null;
  const { binding, eta, summary, checks: all } = explanation;
  return (
    <Section title="What it waits for" note={eta ? <>expected <When time={eta.at} />{eta.basis ? `, by ${eta.basis}` : ""}</> : undefined}>
      {summary ? <p>{summary}</p> : null}
      <Table
        name="Checks before the job starts"
        rows={all}
        keyOf={(check) => check.name}
        columns={[
          { id: "name", label: "Check", render: (check) => check.name === binding ? <strong>{words(check.name)}</strong> : words(check.name) },
          { id: "state", label: "State", render: (check) => <Pill state={check.state} {...(check.state === "blocking" ? { tone: "warn" as const } : {})} /> },
          { id: "since", label: "Since", render: (check) => <When time={check.since} /> },
          { id: "summary", label: "Finding", render: (check) => <span>{check.summary}{check.holders?.map(({ job_id }) => <span key={job_id}> <a class="id" href={link(["jobs", job_id])}>{shortId(job_id)}</a></span>)}</span> },
        ]}
        empty={null}
      />
    </Section>
  );
}

function Json({ value }: { value: unknown }) {
  return <pre class="json" tabIndex={0}>{JSON.stringify(value, null, 2)}</pre>;
}
