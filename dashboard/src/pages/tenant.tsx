// One tenant: its jobs, its share, its limits, and whether it is noisy.

import { get, part } from "../api/client";
import { SLOW_MS, usePoll } from "../api/poll";
import { missing, session } from "../api/session";
import type { Noise, Tenant as TenantData, TenantChange, TenantStats } from "../api/types";
import { Bar, Figure, When } from "../components/figures";
import { Empty, Head, Loaded, Section } from "../components/page";
import { Table } from "../components/table";
import { ChangeLimits, ChangeWeight } from "./tenant_actions";
import { NoiseEvidence } from "./tenant_noise";
import { limitsInUse } from "../data/limited";
import { count, percent, period, words } from "../lib/format";
import { useStore } from "../lib/store";
import { link } from "../routes";

/** The origins of a tenant's settings. */
const SOURCES: Record<string, string> = { api: "set at run time", file: "from the configuration", tier: "from its tier", default: "the defaults" };

type Terms = TenantData & { changes: TenantChange[] };

export function Tenant({ id }: { id: string }) {
  const seesAll = missing("read-all", useStore(session)) === null;
  const path = `/admin/tenants/${part(id)}`;
  const stats = usePoll(`stats ${id}`, (signal) => get<TenantStats>(`${path}/stats`, {}, signal));
  return (
    <>
      <Head title={id} {...(seesAll ? { back: { href: link(["tenants"]), label: "Tenants" } } : {})} />
      <Loaded from={stats}>{(data) => <Facts stats={data} />}</Loaded>
      {seesAll ? <Managed id={id} path={path} stats={stats.data} /> : <Limits stats={stats.data} terms={null} onDone={stats.refresh} />}
    </>
  );
}

/** The parts that only keys without a tenant may read. */
function Managed({ id, path, stats }: { id: string; path: string; stats: TenantStats | null }) {
  const terms = usePoll(`terms ${id}`, (signal) => get<Terms>(path, {}, signal), SLOW_MS);
  const noise = usePoll(`noise ${id}`, (signal) => get<Noise>(`${path}/noise`, {}, signal), SLOW_MS);
  return (
    <>
      <Loaded from={terms}>
        {(data) => (
          <>
            <Limits stats={stats} terms={data} onDone={terms.refresh} />
            <Loaded from={noise}>{(state) => <NoiseEvidence id={id} noise={state} onDone={noise.refresh} />}</Loaded>
            <Changes changes={data.changes} />
          </>
        )}
      </Loaded>
    </>
  );
}

function Facts({ stats }: { stats: TenantStats }) {
  const { jobs, fairness, throughput, tenant_id: tenant } = stats;
  const jobsIn = (state: string) => link(["jobs"], { tenant, state });
  const { actual_share: share, effective_share: expected } = fairness;
  return (
    <>
      <dl class="figures">
        <Figure label="Staged" value={count(jobs.pending)} href={jobsIn("pending")} />
        <Figure label="Available" value={count(jobs.available)} href={jobsIn("available")} />
        <Figure label="Active" value={count(jobs.active)} href={jobsIn("active")} />
        <Figure label="Waiting to retry" value={count(jobs.retryable)} href={jobsIn("retryable")} />
        <Figure label="Scheduled" value={count(jobs.scheduled)} href={jobsIn("scheduled")} />
        <Figure label="Finished in 24 h" value={count(jobs.completed_24h)} href={jobsIn("completed")} />
        <Figure label="Failed in 24 h" value={count(jobs.failed_24h)} href={jobsIn("discarded")} {...(jobs.failed_24h ? { tone: "bad" as const } : {})} />
        <Figure
          label="Share of worker time"
          value={percent(share)}
          note={share === null ? "not counted" : <><Bar value={share} most={1} mark={expected ?? undefined} label={`${percent(share)} of expected ${percent(expected)}`} /> expected {percent(expected)}</>}
        />
        <Figure label="Enqueued per minute" value={count(throughput.enqueued_per_minute)} note={`${count(throughput.processed_per_minute)} finished per minute`} />
      </dl>
      {stats.counted ? null : <p class="page-note">Shares and rates need <code>noisy_neighbors.statistics</code>, which is off.</p>}
    </>
  );
}

function Limits({ stats, terms, onDone }: { stats: TenantStats | null; terms: Terms | null; onDone: () => void }) {
  const inUse = stats ? limitsInUse(stats) : [];
  const rate = terms?.limits.max_enqueue_rate;
  return (
    <Section
      title="Weight and limits"
      {...(terms ? { note: SOURCES[terms.source] ?? words(terms.source) } : {})}
      actions={terms ? <><ChangeWeight terms={terms} onDone={onDone} /><ChangeLimits terms={terms} onDone={onDone} /></> : null}
    >
      <dl class="facts">
        <div><dt>Weight</dt><dd>{count(terms?.fairness_weight ?? stats?.fairness.weight)}</dd></div>
        {terms ? <div><dt>Priority boost</dt><dd>{terms.priority_boost}</dd></div> : null}
        {terms ? <div><dt>Enforcement</dt><dd>{terms.limits.enforcement ?? "hard"}</dd></div> : null}
        {rate ? <div><dt>Enqueue rate</dt><dd>{count(rate.limit)} per {period(rate.period)}</dd></div> : null}
      </dl>
      {inUse.length === 0 ? (
        <p class="page-note">{stats ? "No limit applies to this tenant." : ""}</p>
      ) : (
        <ul class="usages">
          {inUse.map(({ limit, text, isReached }) => {
            const usage = Object.values(stats?.limits ?? {}).find((value) => value && text.includes(`${count(value.current)} of ${count(value.limit)}`));
            return (
              <li key={limit}>
                <span>{text}{isReached ? " – reached" : ""}</span>
                <Bar value={usage?.current ?? 0} most={usage?.limit ?? 1} label={text} tone={isReached ? "bad" : "busy"} />
              </li>
            );
          })}
        </ul>
      )}
    </Section>
  );
}

function Changes({ changes }: { changes: TenantChange[] }) {
  return (
    <Section title="Changes" note="the last 20">
      <Table
        name="Changes of the tenant's settings"
        list={changes[0]?.at ?? ""}
        rows={changes}
        keyOf={(change) => `${change.at} ${JSON.stringify(change.to)}`}
        columns={[
          { id: "at", label: "At", render: (change) => <When time={change.at} /> },
          { id: "by", label: "By", render: (change) => change.by ?? "–" },
          { id: "reason", label: "Reason", render: (change) => change.reason ?? <span class="dim">–</span> },
          { id: "to", label: "New settings", render: (change) => <code>{JSON.stringify(change.to)}</code> },
        ]}
        empty={<Empty title="Nothing was changed at run time" />}
      />
    </Section>
  );
}

