// One workflow with its jobs.

import { call, get, part } from "../api/client";
import { usePoll } from "../api/poll";
import type { Workflow as WorkflowData, WorkflowPart } from "../api/types";
import { Action } from "../components/action";
import { Figure, Pill, When } from "../components/figures";
import { Empty, Head, Loaded, Section } from "../components/page";
import { Table } from "../components/table";
import { count, shortId } from "../lib/format";
import { link } from "../routes";
import { Progress } from "./workflows";

/** A job of a workflow, with its place in it. */
interface Row {
  place: string;
  part: WorkflowPart;
}

/** The most jobs that the page lists. */
const MOST = 300;

/** Lists the jobs of a workflow, with those of nested workflows. */
export function rowsOf(workflow: Pick<WorkflowPart, "steps" | "jobs" | "callbacks">, place = ""): Row[] {
  const numbered = [...(workflow.steps ?? []), ...(workflow.jobs ?? [])].map((inner, index): [string, WorkflowPart] => [inner.id ?? String((inner.index ?? index) + 1), inner]);
  const named = Object.entries(workflow.callbacks ?? {});
  return [...numbered, ...named].flatMap(([name, inner]) => {
    const own = place === "" ? name : `${place} › ${name}`;
    const isNested = inner.steps !== undefined || inner.jobs !== undefined;
    return isNested ? rowsOf(inner, own) : [{ place: own, part: inner }];
  });
}

export function Workflow({ id }: { id: string }) {
  const workflow = usePoll(`workflow ${id}`, (signal) => get<WorkflowData>(`/workflows/${part(id)}`, {}, signal));
  const cancel = workflow.data?.state === "running" ? (
    <Action
      label="Cancel"
      needs="produce"
      kind="danger"
      onDone={workflow.refresh}
      confirm={{ title: "Cancel this workflow?", text: "Its jobs that have not ended are cancelled.", confirm: "Cancel the workflow" }}
      run={async () => { await call("DELETE", `/workflows/${part(id)}`); return "The workflow is cancelled."; }}
    />
  ) : null;
  return (
    <>
      <Head title={workflow.data?.name ?? "Workflow"} back={{ href: link(["workflows"]), label: "Workflows" }} note={<code>{id}</code>} actions={cancel} />
      <Loaded from={workflow}>{(data) => <Content workflow={data} />}</Loaded>
    </>
  );
}

function Content({ workflow }: { workflow: WorkflowData }) {
  const rows = rowsOf(workflow);
  return (
    <>
      <dl class="figures">
        <Figure label="State" value={<Pill state={workflow.state} {...(workflow.state === "running" ? { tone: "busy" as const } : {})} />} />
        <Figure label="Type" value={workflow.type} />
        <Figure label="Jobs completed" value={<Progress workflow={workflow} />} />
        <Figure label="Failed" value={count(workflow.metadata.failed_count)} {...(workflow.metadata.failed_count > 0 ? { tone: "bad" as const } : {})} />
        <Figure label="Created" value={<When time={workflow.created_at} />} />
        <Figure label="Ended" value={<When time={workflow.completed_at ?? workflow.cancelled_at} />} />
      </dl>
      <Section title="Jobs" note={rows.length > MOST ? `the first ${MOST} of ${rows.length}` : undefined}>
        <Table
          name="Jobs of the workflow"
          rows={rows.slice(0, MOST)}
          keyOf={(row) => row.place}
          columns={[
            { id: "place", label: "Step", render: (row) => row.place },
            { id: "type", label: "Type", render: (row) => row.part.type },
            { id: "state", label: "State", render: (row) => <Pill state={row.part.state} /> },
            { id: "job", label: "Job", render: (row) => row.part.job_id ? <a class="id" href={link(["jobs", row.part.job_id])}>{shortId(row.part.job_id)}</a> : <span class="dim">not created yet</span> },
          ]}
          empty={<Empty title="The workflow has no jobs" />}
        />
      </Section>
    </>
  );
}
