// One plan rule: its gate, its weights, the tenants that wait, its rounds as they happen, and the next one.

import { useCallback, useEffect, useState } from "preact/hooks";
import { call, get, part } from "../api/client";
import { SLOW_MS, useNow, usePoll } from "../api/poll";
import { useStream } from "../api/stream";
import type { Page, Preview, Round, Rule as RuleData, RuleTenant } from "../api/types";
import { Action } from "../components/action";
import { Count, Figure, Pill, ShareBar, Span, When } from "../components/figures";
import { Empty, Head, Loaded, Pager, Section } from "../components/page";
import { Table } from "../components/table";
import { count, duration, percent, plural, words } from "../lib/format";
import { link, useLocation } from "../routes";
import { GatePill, Latency } from "./overview";

const MOST_ROUNDS = 20;
const MOST_TENANTS = 50;
/** The tenants of a round that its row names. */
const MOST_SERVED = 4;

export function Rule({ name }: { name: string }) {
  const path = `/admin/planner/${part(name)}`;
  const rule = usePoll(`rule ${name}`, (signal) => get<RuleData>(path, {}, signal));
  const state = rule.data?.state;
  const change = (action: string) => call<RuleData>("POST", `${path}/${action}`);
  const actions = state === undefined ? null : (
    <>
      {state === "paused" ? (
        <Action label="Resume" needs="operate-all" kind="primary" onDone={rule.refresh} run={async () => { await change("resume"); return `Rule ${name} is running.`; }} />
      ) : (
        <Action label="Pause" needs="operate-all" onDone={rule.refresh} confirm={{ title: `Pause rule ${name}?`, text: "Its jobs are staged, but none is promoted until it is resumed." }} run={async () => { await change("pause"); return `Rule ${name} is paused.`; }} />
      )}
      <Action
        label="Run now"
        needs="admin-all"
        onDone={rule.refresh}
        run={async () => {
          const round = await call<Round>("POST", `${path}/run`);
          return round.promoted > 0 ? `The round promoted ${count(round.promoted)} jobs.` : `The round promoted nothing: ${words(round.reason ?? round.outcome)}.`;
        }}
      />
    </>
  );
  return (
    <>
      <Head title={name} back={{ href: link(["rules"]), label: "Rules" }} actions={actions} />
      <Loaded from={rule}>{(data) => <Facts rule={data} />}</Loaded>
      <Tenants name={name} />
      <NextRound name={name} />
      <Rounds name={name} />
    </>
  );
}

function Facts({ rule }: { rule: RuleData }) {
  const { main_queue: main, weights, fairness, rounds } = rule;
  const queue = rule.queue ?? main.queues[0]?.name;
  const webhook = rule.options.weights?.webhook;
  return (
    <>
      {main.trouble ? <div class="notice notice-bad" role="alert"><strong>The main queue has a problem.</strong> {main.trouble}</div> : null}
      {weights.last_error && weights.breaker !== "closed" ? (
        <div class="notice notice-bad" role="alert">
          <strong>The weights webhook fails.</strong> {weights.last_error} {weights.fallback ? `In use: ${words(weights.fallback)}.` : ""}
        </div>
      ) : null}
      <dl class="figures">
        <Figure label="State" value={<Pill state={rule.state} />} {...(rule.state === "shadow" ? { href: link(["shadow"], { rule: rule.rule }) } : {})} note={rule.source === "file" ? "from the configuration" : `source: ${rule.source}`} />
        <Figure label="Gate" value={<GatePill rule={rule} />} note={<Latency rule={rule} />} />
        <Figure label="Staged jobs" value={count(rule.staged.jobs)} href={link(["jobs"], { state: "pending", queue })} note={rule.staged.jobs > 0 ? `oldest ${duration(rule.staged.oldest_age_ms)}` : undefined} />
        <Figure label="Main queue" value={count(main.depth)} {...(queue && main.kind === "builtin" ? { href: link(["queues", queue]) } : {})} note={`${main.name ?? main.main_queue}, ${count(main.drain_per_s)} per s`} />
        <Figure label="Promoted" value={count(rounds.promoted_total)} note={`in ${count(rounds.total)} rounds, ${count(rounds.skipped_total)} skipped`} />
        <Figure label="Next round" value={<Next time={rounds.next_at} />} note={<>last <When time={rounds.last_at} /></>} />
        <Figure label="Fairness (Jain index)" value={count(fairness.jain_index)} note={`at most ${count(fairness.max_deviation_jobs)} jobs from the exact share`} />
        <Figure label="Weights" value={words(weights.source ?? (webhook ? "webhook" : "static"))} note={webhook ? <>webhook: <Pill state={weights.breaker ?? "unknown"} tone={weights.breaker === "open" ? "bad" : weights.breaker === "half_open" ? "warn" : "good"}>{weights.breaker === "open" ? "failing" : "working"}</Pill> {weights.age_ms === null ? "" : `read ${duration(weights.age_ms)} ago`}</> : "from configuration and terms"} />
      </dl>
      <p class="page-note">Types: {rule.types.map((type) => <code key={type}>{type}</code>)}</p>
    </>
  );
}

/** The time of the next round. It is due until the page has read the one after it. */
function Next({ time }: { time: string | null }) {
  const now = useNow();
  return time && Date.parse(time) > now ? <When time={time} /> : <>{time ? "due" : "–"}</>;
}

function Tenants({ name }: { name: string }) {
  const { query } = useLocation();
  const [sort, setSort] = useState("pending");
  const offset = Number(query.offset ?? 0) || 0;
  const tenants = usePoll(`${name} ${sort} ${offset}`, (signal) => get<Page<RuleTenant>>(`/admin/planner/${part(name)}/tenants`, { sort, offset, limit: MOST_TENANTS }, signal), SLOW_MS);
  return (
    <Section title="Waiting tenants" note="shares of the last minute">
      <Loaded from={tenants}>
        {({ items, pagination }) => (
          <>
            <Table
              name={`Tenants that wait in rule ${name}`}
              list={`${name} ${offset}`}
              rows={items}
              keyOf={(row) => `${row.queue}/${row.tenant_id}`}
              server={{ sort, onSort: setSort }}
              columns={[
                { id: "tenant", label: "Tenant", serverSort: "name", render: (row) => <a href={link(["tenants", row.tenant_id])}>{row.tenant_id}</a> },
                { id: "share", label: "Share", render: (row) => <ShareBar share={row.share} expected={row.expected_share} /> },
                { id: "expected", label: "Expected", align: "end", render: (row) => <span class="number">{percent(row.expected_share)}</span> },
                { id: "weight", label: "Weight", align: "end", serverSort: "weight", render: (row) => <a class="number" href={link(["tenants", row.tenant_id])}>{count(row.weight)}</a> },
                { id: "pending", label: "Staged", align: "end", serverSort: "pending", render: (row) => <Count value={row.pending} href={link(["jobs"], { tenant: row.tenant_id, state: "pending" })} /> },
                { id: "oldest", label: "Oldest", align: "end", serverSort: "oldest", render: (row) => <Span ms={row.oldest_age_ms} /> },
                { id: "limited", label: "Limited by", render: (row) => row.held ? <Pill state="held">weight 0</Pill> : row.awaits_weight ? <Pill state="held">awaits its weight</Pill> : <span class="dim">its turn</span> },
              ]}
              empty={<Empty title="No tenant waits">Jobs pass straight to the main queue as long as nobody else is waiting.</Empty>}
            />
            <Pager pagination={pagination} shown={items.length} />
          </>
        )}
      </Loaded>
    </Section>
  );
}

function NextRound({ name }: { name: string }) {
  const preview = usePoll(`preview ${name}`, (signal) => get<Preview>(`/admin/planner/${part(name)}/preview`, {}, signal), SLOW_MS);
  return (
    <Section title="Next round" note="a preview; nothing is changed">
      <Loaded from={preview}>
        {({ batch, order, tenants, gate, why }) =>
          order.length === 0 ? (
            <div class="empty"><Empty title="The next round promotes nothing">{gate.open ? "No job is staged, or the main queue has enough." : `The gate is closed: ${words(gate.reason)}.`}</Empty></div>
          ) : (
            <>
              <ol class="order" aria-label="Tenants in the order of their jobs">
                {order.slice(0, 40).map((tenant, index) => <li key={index}>{tenant}</li>)}
                {order.length > 40 ? <li class="dim">and {count(order.length - 40)} more</li> : null}
              </ol>
              <p class="page-note">{plural(batch, "job")} of {plural(tenants.length, "tenant")}. {why}</p>
            </>
          )}
      </Loaded>
    </Section>
  );
}

function Rounds({ name }: { name: string }) {
  const [rounds, setRounds] = useState<Round[]>([]);
  const path = `/admin/planner/${part(name)}`;
  const first = usePoll(`first ${name}`, (signal) => get<Page<Round>>(`${path}/rounds`, { limit: MOST_ROUNDS }, signal), 60_000);
  const add = useCallback((fresh: Round[]) => {
    setRounds((known) => {
      const all = new Map([...known, ...fresh].map((round): [number, Round] => [round.round ?? 0, round]));
      return [...all.values()].sort((one, other) => (other.round ?? 0) - (one.round ?? 0)).slice(0, MOST_ROUNDS);
    });
  }, []);
  useEffect(() => {
    if (first.data) add(first.data.items);
  }, [first.data]);
  const stream = useStream(`${path}/events`, {}, ({ event, data }) => {
    if (event === "round") add([JSON.parse(data) as Round]);
  });
  return (
    <Section title="Rounds" note={<Pill state={stream.isOpen ? "live" : "paused"} tone={stream.isOpen ? "good" : "warn"}>{stream.isOpen ? "live" : "not live"}</Pill>}>
      <Table
        name={`Rounds of rule ${name}, newest first`}
        // Rounds are a log: the newest is always first.
        list={String(rounds[0]?.round ?? "")}
        rows={rounds}
        keyOf={(round) => String(round.round)}
        columns={[
          { id: "round", label: "Round", render: (round) => <span class="number">{round.round}</span> },
          { id: "at", label: "At", render: (round) => <When time={round.at} /> },
          { id: "outcome", label: "Outcome", render: (round) => <Pill state={round.outcome}>{round.reason ? `${words(round.outcome)}: ${words(round.reason)}` : words(round.outcome)}</Pill> },
          { id: "promoted", label: "Promoted", align: "end", render: (round) => <Count value={round.promoted} /> },
          { id: "served", label: "Tenants", render: (round) => <Served round={round} /> },
          { id: "latency", label: "Latency", align: "end", render: (round) => <Span ms={round.latency_ms} /> },
          { id: "took", label: "Took", align: "end", render: (round) => <Span ms={round.duration_ms} /> },
        ]}
        empty={<Empty title="No round yet">The planner runs a round when jobs are staged.</Empty>}
      />
    </Section>
  );
}

function Served({ round }: { round: Round }) {
  if (round.served.length === 0) return <span class="dim">–</span>;
  const rest = round.served.length - MOST_SERVED;
  return (
    <span class="served">
      {round.served.slice(0, MOST_SERVED).map(({ tenant_id, jobs }) => (
        <span key={tenant_id}><a href={link(["tenants", tenant_id])}>{tenant_id}</a> <span class="number">{jobs}</span></span>
      ))}
      {rest > 0 ? <span class="dim">and {rest} more</span> : null}
    </span>
  );
}
