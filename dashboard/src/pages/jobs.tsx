// Jobs by state, queue, type and tenant, and the way to a job by its id.

import { useState } from "preact/hooks";
import { SLOW_MS, usePoll } from "../api/poll";
import { missing, session } from "../api/session";
import type { Job } from "../api/types";
import { Pill, When } from "../components/figures";
import { Filters } from "../components/filter";
import { CursorPager, Empty, Head, Loaded } from "../components/page";
import { type Column, Table } from "../components/table";
import { readJobs } from "../data/jobs";
import { shortId } from "../lib/format";
import { useStore } from "../lib/store";
import { link } from "../routes";

const LIMIT = 50;
const STATES = ["available", "active", "scheduled", "retryable", "pending", "completed", "discarded", "cancelled"];

export function Jobs({ query }: { query: Record<string, string> }) {
  const caller = useStore(session);
  const lists = missing("read", caller) === null;
  return (
    <>
      <Head title="Jobs" />
      <ById />
      {lists ? <List query={query} ownTenant={caller?.tenant ?? null} /> : (
        <div class="empty"><Empty title="Your key shows single jobs">Enter the id of a job above. Lists need the role operator or admin.</Empty></div>
      )}
    </>
  );
}

function ById() {
  const [id, setId] = useState("");
  return (
    <form class="filters" onSubmit={(event) => { event.preventDefault(); if (id.trim()) window.location.hash = link(["jobs", id.trim()]); }}>
      <div class="filter filter-wide">
        <label for="job-id">Open a job by its id</label>
        <span class="joined">
          <input id="job-id" type="search" value={id} autocomplete="off" spellcheck={false} placeholder="01a1f5c6-8fc3-74de-8431-12a6862dbf4b" onInput={(event) => setId(event.currentTarget.value)} />
          <button type="submit" class="button button-primary">Open</button>
        </span>
      </div>
    </form>
  );
}

function List({ query, ownTenant }: { query: Record<string, string>; ownTenant: string | null }) {
  const { state = "", queue = "", type = "", tenant = "", cursor = "" } = query;
  const key = `jobs ${state} ${queue} ${type} ${tenant} ${cursor}`;
  const jobs = usePoll(key, (signal) => readJobs({ state, queue, type, tenant, cursor }, LIMIT, signal), SLOW_MS);
  const filters = [
    { name: "state", label: "State", value: state, options: [{ value: "", label: "All states" }, ...STATES.map((name) => ({ value: name, label: name }))] },
    { name: "queue", label: "Queue", value: queue, placeholder: "default" },
    { name: "type", label: "Type", value: type, placeholder: "report.*" },
    ...(ownTenant ? [] : [{ name: "tenant", label: "Tenant", value: tenant, placeholder: "acme" }]),
  ];
  const isFiltered = [state, queue, type, tenant].some((value) => value !== "");
  return (
    <>
      <Filters filters={filters} />
      <Loaded from={jobs}>
        {({ items, pagination }) => (
          <>
            <Table
              name="Jobs"
              list={key}
              rows={items}
              keyOf={(job) => job.id}
              columns={jobColumns(!ownTenant)}
              empty={
                pagination.has_more ? (
                  <Empty title="No match in this part of the jobs">The server scans all jobs in parts. Choose “Next” to look further.</Empty>
                ) : isFiltered ? (
                  <Empty title="No job matches">Change a filter, or <a href={link(["jobs"])}>show all jobs</a>.</Empty>
                ) : (
                  <Empty title="No job yet">Enqueue one: <code>POST /ojs/v1/jobs {'{"type": "email.send", "args": []}'}</code></Empty>
                )
              }
            />
            <CursorPager pagination={pagination} isFirst={cursor === ""} />
          </>
        )}
      </Loaded>
    </>
  );
}

/** The columns of a list of jobs. */
export function jobColumns(withTenant: boolean): Column<Job>[] {
  const tenant: Column<Job> = {
    id: "tenant",
    label: "Tenant",
    render: (job) => typeof job.meta?.tenant_id === "string" ? <a href={link(["tenants", job.meta.tenant_id])}>{job.meta.tenant_id}</a> : <span class="dim">–</span>,
  };
  return [
    { id: "id", label: "Job", render: (job) => <a class="id" href={link(["jobs", job.id])} title={job.id}>{shortId(job.id)}</a> },
    { id: "type", label: "Type", render: (job) => <a href={link(["jobs"], { type: job.type })}>{job.type}</a> },
    ...(withTenant ? [tenant] : []),
    { id: "queue", label: "Queue", render: (job) => <a href={link(["queues", job.queue])}>{job.queue}</a> },
    { id: "state", label: "State", render: (job) => <Pill state={job.state} /> },
    { id: "attempt", label: "Attempt", align: "end", render: (job) => <span class="number">{job.attempt} of {job.max_attempts}</span> },
    { id: "created", label: "Created", render: (job) => <When time={job.created_at} /> },
    { id: "error", label: "Last error", render: (job) => <LastError job={job} /> },
  ];
}

function LastError({ job }: { job: Job }) {
  if (job.error) return <span class="why bad-text">{job.error.message ?? job.error.code ?? job.error.type}</span>;
  return <span class="dim">–</span>;
}
