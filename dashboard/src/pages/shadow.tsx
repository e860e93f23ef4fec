// Rules in shadow: how long each tenant's jobs wait now, and how long they would wait with fairgate.

import { get, part } from "../api/client";
import { SLOW_MS, usePoll } from "../api/poll";
import type { Page, Rule, Shadow, Waits } from "../api/types";
import { Count, Figure, Span, When } from "../components/figures";
import { Empty, Head, Loaded, Section } from "../components/page";
import { Table } from "../components/table";
import { count, duration, plural } from "../lib/format";
import { link, setQuery } from "../routes";

const MOST_RULES = 200;

export function Shadows({ query }: { query: Record<string, string> }) {
  const rules = usePoll("rules", (signal) => get<Page<Rule>>("/admin/planner", { limit: MOST_RULES }, signal), SLOW_MS);
  return (
    <>
      <Head title="Shadow" note="A rule in shadow watches a queue of your Sidekiq, changes nothing, and simulates what fairgate would do." />
      <Loaded from={rules}>
        {({ items }) => {
          const names = items.filter((rule) => rule.state === "shadow").map((rule) => rule.rule);
          const chosen = query.rule && names.includes(query.rule) ? query.rule : names[0];
          if (chosen === undefined) {
            return <div class="empty"><Empty title="No rule is in shadow">Set <code>shadow = true</code> on a <code>[[plan]]</code> whose main queue is a Sidekiq, and compare before you switch.</Empty></div>;
          }
          return (
            <>
              {names.length > 1 ? (
                <label class="inline">Rule <select value={chosen} onChange={(event) => setQuery({ rule: event.currentTarget.value })}>{names.map((name) => <option key={name}>{name}</option>)}</select></label>
              ) : null}
              <Report rule={chosen} />
            </>
          );
        }}
      </Loaded>
    </>
  );
}

function Report({ rule }: { rule: string }) {
  const shadow = usePoll(`shadow ${rule}`, (signal) => get<Shadow>(`/admin/planner/${part(rule)}/shadow`, {}, signal), SLOW_MS);
  return (
    <Loaded from={shadow}>
      {(data) =>
        data.tenants === undefined ? (
          <div class="empty"><Empty title="No report yet">{data.watcher ? `Process ${data.watcher} watches; this one has no report.` : "No process watches the queue yet. One with the role planner will."}</Empty></div>
        ) : (
          <>
            {data.trouble ? <div class="notice notice-bad" role="alert">{data.trouble}</div> : null}
            <dl class="figures">
              <Figure label="Jobs in the queue" value={count(data.line?.jobs)} note={`of ${plural(data.line?.tenants ?? 0, "tenant")}`} />
              <Figure label="Started so far" value={count(data.taken_total)} note={`${count(data.drain_per_s)} per s`} />
              <Figure label="Would be staged" value={count(data.would?.staged)} note={`of ${plural(data.would?.tenants ?? 0, "tenant")}`} />
              <Figure label="Wait now, p95" value={duration(data.as_is?.p95_ms)} />
              <Figure label="Wait with fairgate, p95" value={duration(data.planned?.p95_ms)} />
              <Figure label="Watched since" value={<When time={data.since} />} />
            </dl>
            <Section title="Waits per tenant" note={`${plural(data.tenants_total ?? 0, "tenant")}; those with the most jobs first`}>
              <Table
                name={`Waits of the tenants of rule ${rule}`}
                list={rule}
                rows={data.tenants}
                keyOf={(row) => row.tenant_id}
                columns={[
                  { id: "tenant", label: "Tenant", value: (row) => row.tenant_id, render: (row) => <a href={link(["tenants", row.tenant_id])}>{row.tenant_id}</a> },
                  { id: "waiting", label: "Waiting", align: "end", value: (row) => row.waiting, render: (row) => <Count value={row.waiting} /> },
                  { id: "jobs", label: "Started", align: "end", value: (row) => row.as_is.jobs, render: (row) => <Count value={row.as_is.jobs} /> },
                  { id: "p50", label: "Now, p50", align: "end", value: (row) => row.as_is.p50_ms, render: (row) => <Span ms={row.as_is.p50_ms} /> },
                  { id: "planned50", label: "With fairgate, p50", align: "end", value: (row) => row.planned.p50_ms, render: (row) => <Span ms={row.planned.p50_ms} /> },
                  { id: "p95", label: "Now, p95", align: "end", value: (row) => row.as_is.p95_ms, render: (row) => <Span ms={row.as_is.p95_ms} /> },
                  { id: "planned95", label: "With fairgate, p95", align: "end", value: (row) => row.planned.p95_ms, render: (row) => <Span ms={row.planned.p95_ms} /> },
                  { id: "change", label: "Change, p95", render: (row) => <Change now={row.as_is} planned={row.planned} /> },
                ]}
                empty={<Empty title="No tenant yet">The report fills as workers take jobs from the queue.</Empty>}
              />
            </Section>
          </>
        )}
    </Loaded>
  );
}

function Change({ now, planned }: { now: Waits; planned: Waits }) {
  if (now.p95_ms === null || planned.p95_ms === null) return <span class="dim">–</span>;
  const change = planned.p95_ms - now.p95_ms;
  if (change === 0) return <span class="dim">the same</span>;
  return <span class={change < 0 ? "good-text" : "bad-text"}>{duration(Math.abs(change))} {change < 0 ? "shorter" : "longer"}</span>;
}
