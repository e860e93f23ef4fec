// Workflows by state.

import { get } from "../api/client";
import { SLOW_MS, usePoll } from "../api/poll";
import type { Page, Workflow } from "../api/types";
import { Bar, Count, Pill, When } from "../components/figures";
import { Filters } from "../components/filter";
import { CursorPager, Empty, Head, Loaded } from "../components/page";
import { Table } from "../components/table";
import { count, shortId } from "../lib/format";
import { link } from "../routes";

const LIMIT = 50;
const STATES = ["running", "completed", "failed", "cancelled"];
const TYPES = ["chain", "group", "batch", "dag"];

export function Workflows({ query }: { query: Record<string, string> }) {
  const { state = "", type = "", cursor = "" } = query;
  const key = `workflows ${state} ${type} ${cursor}`;
  const workflows = usePoll(key, (signal) => get<Page<Workflow>>("/workflows", { state, type, cursor, limit: LIMIT }, signal), SLOW_MS);
  return (
    <>
      <Head title="Workflows" />
      <Filters
        filters={[
          { name: "state", label: "State", value: state, options: [{ value: "", label: "All states" }, ...STATES.map((name) => ({ value: name, label: name }))] },
          { name: "type", label: "Type", value: type, options: [{ value: "", label: "All types" }, ...TYPES.map((name) => ({ value: name, label: name }))] },
        ]}
      />
      <Loaded from={workflows}>
        {({ items, pagination }) => (
          <>
            <Table
              name="Workflows"
              list={key}
              rows={items}
              keyOf={(workflow) => workflow.id}
              columns={[
                { id: "name", label: "Workflow", render: (workflow) => <a href={link(["workflows", workflow.id])} title={workflow.id}>{workflow.name ?? shortId(workflow.id)}</a> },
                { id: "type", label: "Type", render: (workflow) => workflow.type },
                { id: "state", label: "State", render: (workflow) => <Pill state={workflow.state} {...(workflow.state === "running" ? { tone: "busy" as const } : {})} /> },
                { id: "progress", label: "Jobs completed", render: (workflow) => <Progress workflow={workflow} /> },
                { id: "failed", label: "Failed", align: "end", render: (workflow) => <Count value={workflow.metadata.failed_count} href={link(["workflows", workflow.id])} /> },
                { id: "created", label: "Created", render: (workflow) => <When time={workflow.created_at} /> },
                { id: "ended", label: "Ended", render: (workflow) => <When time={workflow.completed_at ?? workflow.cancelled_at} /> },
              ]}
              empty={state || type ? <Empty title="No workflow matches"><a href={link(["workflows"])}>Show all</a></Empty> : <Empty title="No workflow yet">A workflow runs several jobs in order or side by side: <code>POST /ojs/v1/workflows</code>.</Empty>}
            />
            <CursorPager pagination={pagination} isFirst={cursor === ""} />
          </>
        )}
      </Loaded>
    </>
  );
}

export function Progress({ workflow }: { workflow: Workflow }) {
  const { completed_count: done, job_count: all } = workflow.metadata;
  const label = `${count(done)} of ${count(all)}`;
  return <span class="with-bar"><Bar value={done} most={all} label={label} tone={workflow.state === "failed" ? "bad" : "good"} /><span class="number">{label}</span></span>;
}
