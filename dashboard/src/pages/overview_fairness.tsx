// The parts of the overview about one rule: jobs per tenant over time, and shares against expected shares.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { get, part } from "../api/client";
import { FAST_MS, usePoll } from "../api/poll";
import type { Page, Round, RuleTenant } from "../api/types";
import { Chart } from "../components/chart";
import { Count, ShareBar } from "../components/figures";
import { Empty, Loaded, Section } from "../components/page";
import { Table } from "../components/table";
import { dispatched, finished, type History, type Sample } from "../data/history";
import { count, percent, plural } from "../lib/format";
import { link, setQuery } from "../routes";

/** The rounds and tenants that the chart and the shares read. */
const MOST_ROUNDS = 200;
const MOST_TENANTS = 10;
/** The server takes a sample every five minutes. */
const HISTORY_MS = 60_000;

export function Dispatched({ rule, names }: { rule: string; names: string[] }) {
  const [range, setRange] = useState("live");
  const rules = names.length < 2 || range === "day" ? null : (
    <label class="inline">
      Rule <select value={rule} onChange={(event) => setQuery({ rule: event.currentTarget.value })}>{names.map((name) => <option key={name}>{name}</option>)}</select>
    </label>
  );
  const ranges = (
    <label class="inline">
      Show <select value={range} onChange={(event) => setRange(event.currentTarget.value)}><option value="live">live</option><option value="day">last day</option></select>
    </label>
  );
  const actions = <>{rules}{ranges}</>;
  return range === "day" ? (
    <Section title="Jobs finished per tenant" note="of all queues, in the last day" actions={actions}><LastDay /></Section>
  ) : (
    <Section title="Jobs promoted per tenant" note={<>by rule <a href={link(["rules", rule])}>{rule}</a>, since its oldest recorded round</>} actions={actions}>
      <Live rule={rule} />
    </Section>
  );
}

function Live({ rule }: { rule: string }) {
  const rounds = usePoll(`rounds ${rule}`, (signal) => get<Page<Round>>(`/admin/planner/${part(rule)}/rounds`, { limit: MOST_ROUNDS }, signal), FAST_MS);
  return (
    <Loaded from={rounds}>
      {({ items }) => {
        const history = dispatched(rule, items, Date.now());
        return <Cumulative title="Jobs promoted per tenant over time" history={history} empty={<Empty title="No job was promoted yet">Enqueue jobs of two tenants, and this chart shows how they take turns.</Empty>} />;
      }}
    </Loaded>
  );
}

function LastDay() {
  const samples = usePoll("history", (signal) => get<{ samples: Sample[] }>("/admin/history", { hours: 24 }, signal), HISTORY_MS);
  return (
    <Loaded from={samples}>
      {(data) => <Cumulative title="Jobs finished per tenant in the last day" history={finished(data.samples)} empty={<Empty title="No sample yet">The server takes one every five minutes, if it counts the activity of tenants.</Empty>} />}
    </Loaded>
  );
}

function Cumulative({ title, history, empty }: { title: string; history: History; empty: ComponentChildren }) {
  const { times, lines } = history;
  if (lines.length === 0) return <div class="empty">{empty}</div>;
  const parts = lines.map((line) => `${line.tenant} ${count(line.values.at(-1))}`).join(", ");
  return <Chart title={title} summary={`Totals so far: ${parts}.`} times={times} lines={lines} />;
}

export function Shares({ rule }: { rule: string }) {
  const tenants = usePoll(`shares ${rule}`, (signal) => get<Page<RuleTenant>>(`/admin/planner/${part(rule)}/tenants`, { limit: MOST_TENANTS }, signal), FAST_MS);
  return (
    <Section title="Share against expected share" note="of the last minute, for tenants that wait; the line marks what the weight gives">
      <Loaded from={tenants}>
        {({ items, pagination }) => (
          <>
            <Table
              name={`Shares of the tenants of rule ${rule}`}
              list={rule}
              rows={items}
              keyOf={(row) => `${row.queue}/${row.tenant_id}`}
              columns={[
                { id: "tenant", label: "Tenant", render: (row) => <a href={link(["tenants", row.tenant_id])}>{row.tenant_id}</a>, value: (row) => row.tenant_id },
                { id: "share", label: "Share", render: (row) => <ShareBar share={row.share} expected={row.expected_share} />, value: (row) => row.share },
                { id: "expected", label: "Expected", align: "end", render: (row) => <span class="number">{percent(row.expected_share)}</span>, value: (row) => row.expected_share },
                { id: "pending", label: "Staged", align: "end", render: (row) => <Count value={row.pending} href={link(["jobs"], { tenant: row.tenant_id, state: "pending" })} />, value: (row) => row.pending },
              ]}
              empty={<Empty title="No tenant waits">Jobs pass straight to the main queue as long as nobody else is waiting.</Empty>}
            />
            {pagination.has_more ? <p class="more"><a href={link(["rules", rule])}>All {plural(pagination.total ?? 0, "waiting tenant")}</a></p> : null}
          </>
        )}
      </Loaded>
    </Section>
  );
}
