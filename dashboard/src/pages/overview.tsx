// The overview: is all well, how much is done, and does each tenant get its share.

import { get } from "../api/client";
import { FAST_MS, SLOW_MS, usePoll } from "../api/poll";
import type { Page, Rule, Stats } from "../api/types";
import { Bar, Count, Figure, Pill, type Tone } from "../components/figures";
import { Empty, Head, Loaded, Section } from "../components/page";
import { Table } from "../components/table";
import { readVerdict, type Verdict } from "../data/health";
import { count, duration } from "../lib/format";
import { link } from "../routes";
import { Dispatched, Shares } from "./overview_fairness";

/** The rules that are read at once. */
const MOST_RULES = 50;

export function Overview({ query }: { query: Record<string, string> }) {
  const health = usePoll("verdict", readVerdict, SLOW_MS);
  const stats = usePoll("stats", (signal) => get<Stats>("/admin/stats", {}, signal), FAST_MS);
  const rules = usePoll("rules", (signal) => get<Page<Rule>>("/admin/planner", { limit: MOST_RULES }, signal), FAST_MS);
  const names = rules.data?.items.map((rule) => rule.rule) ?? [];
  const chosen = query.rule && names.includes(query.rule) ? query.rule : names[0];
  return (
    <>
      <Head title="Overview" />
      <Loaded from={health}>{(verdict) => <Banner verdict={verdict} />}</Loaded>
      <Loaded from={stats}>{(data) => <Totals stats={data} />}</Loaded>
      <Loaded from={rules}>
        {({ items }) =>
          items.length === 0 ? (
            <Section title="Fairness">
              <div class="empty">
                <Empty title="No plan rule yet">
                  A plan rule names the job types whose tenants take turns. Add a <code>[[plan]]</code> to the configuration, or
                  send one with <code>PUT /ojs/v1/admin/planner/NAME</code>. Other jobs are available at once.
                </Empty>
              </div>
            </Section>
          ) : (
            <>
              {chosen ? <Fairness rule={chosen} names={names} /> : null}
              <Section title="Rules" note="The gate closes when the latency of the main queue exceeds its threshold.">
                <RuleTable rules={items} />
              </Section>
            </>
          )}
      </Loaded>
    </>
  );
}

const LABELS: Record<Tone, string> = { good: "OK", calm: "OK", busy: "Notice", warn: "Warning", bad: "Problem" };

function Banner({ verdict }: { verdict: Verdict }) {
  return (
    <div class={`verdict verdict-${verdict.tone}`} role="status">
      <Pill state={verdict.tone} tone={verdict.tone}>{LABELS[verdict.tone]}</Pill>
      <div>
        <strong>{verdict.title}</strong>
        {verdict.details.length > 0 ? <ul>{verdict.details.map(({ text, advice, path }) => <li key={text}>{path ? <a href={link(path)}>{text}</a> : text}{advice ? ` ${advice}` : ""}</li>)}</ul> : null}
      </div>
    </div>
  );
}

function Totals({ stats }: { stats: Stats }) {
  const { jobs, throughput } = stats;
  const jobsIn = (state: string) => link(["jobs"], { state });
  const failing = throughput.failed_per_minute > 0;
  return (
    <dl class="figures">
      <Figure label="Finished per minute" value={count(throughput.processed_per_minute)} href={link(["queues"])} />
      <Figure label="Failed per minute" value={count(throughput.failed_per_minute)} href={link(["dead-letters"])} {...(failing ? { tone: "bad" as const } : {})} />
      <Figure label="Active" value={count(jobs.active)} href={jobsIn("active")} />
      <Figure label="Available" value={count(jobs.available)} href={jobsIn("available")} />
      <Figure label="Staged or pending" value={count(jobs.pending)} href={jobsIn("pending")} />
      <Figure label="Waiting to retry" value={count(jobs.retryable)} href={jobsIn("retryable")} />
      <Figure label="Scheduled" value={count(jobs.scheduled)} href={jobsIn("scheduled")} />
      <Figure label="Workers" value={count(stats.workers)} href={link(["workers"])} note={stats.workers === 0 ? "none connected" : undefined} />
    </dl>
  );
}

function Fairness({ rule, names }: { rule: string; names: string[] }) {
  return (
    <div class="columns">
      <Dispatched rule={rule} names={names} />
      <Shares rule={rule} />
    </div>
  );
}

export function RuleTable({ rules }: { rules: Rule[] }) {
  return (
    <Table
      name="Plan rules"
      rows={rules}
      keyOf={(rule) => rule.rule}
      columns={[
        { id: "rule", label: "Rule", render: (rule) => <a href={link(["rules", rule.rule])}>{rule.rule}</a>, value: (rule) => rule.rule },
        { id: "state", label: "State", render: (rule) => <Pill state={rule.state} />, value: (rule) => rule.state },
        { id: "gate", label: "Gate", render: (rule) => <GatePill rule={rule} />, value: (rule) => String(rule.gate.open) },
        { id: "latency", label: "Latency against threshold", render: (rule) => <Latency rule={rule} />, value: (rule) => rule.main_queue.latency_ms },
        { id: "staged", label: "Staged", align: "end", render: (rule) => <Count value={rule.staged.jobs} href={link(["rules", rule.rule])} />, value: (rule) => rule.staged.jobs },
        { id: "tenants", label: "Tenants", align: "end", render: (rule) => <Count value={rule.staged.tenants} href={link(["rules", rule.rule])} />, value: (rule) => rule.staged.tenants },
        { id: "promoted", label: "Promoted", align: "end", render: (rule) => <Count value={rule.rounds.promoted_total} />, value: (rule) => rule.rounds.promoted_total },
        { id: "drain", label: "Drain per s", align: "end", render: (rule) => <span class="number">{count(rule.main_queue.drain_per_s)}</span>, value: (rule) => rule.main_queue.drain_per_s },
      ]}
      empty={<Empty title="No plan rule yet">Add a <code>[[plan]]</code> to the configuration.</Empty>}
    />
  );
}

export function GatePill({ rule }: { rule: Rule }) {
  const { open, reason } = rule.gate;
  return <Pill state={open ? "open" : "closed"}>{open ? "open" : `closed: ${reason?.replaceAll("_", " ") ?? "unknown"}`}</Pill>;
}

export function Latency({ rule }: { rule: Rule }) {
  const { latency_ms } = rule.main_queue;
  const threshold = rule.gate.latency_threshold_ms ?? 0;
  const label = `${duration(latency_ms)} of ${duration(threshold)}`;
  const tone = latency_ms >= threshold ? "bad" : latency_ms >= threshold / 2 ? "warn" : "good";
  return <span class="with-bar"><Bar value={latency_ms} most={threshold} label={label} tone={tone} /><span class="number">{label}</span></span>;
}
