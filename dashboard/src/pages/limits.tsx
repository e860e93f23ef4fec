// Rate limits in use, and their overrides.

import { call, get, part } from "../api/client";
import { usePoll } from "../api/poll";
import type { Limit, Page } from "../api/types";
import { Action, type Field } from "../components/action";
import { Bar, Count, Pill, When } from "../components/figures";
import { Empty, Head, Loaded, Pager } from "../components/page";
import { type Column, Table } from "../components/table";
import { count, period } from "../lib/format";
import { link } from "../routes";
import { limitFields, limitOf } from "./limit_form";

const LIMIT = 50;
/** The partitions of a limit that the page lists. */
const MOST_PARTITIONS = 10;

export function Limits({ query }: { query: Record<string, string> }) {
  const offset = Number(query.offset ?? 0) || 0;
  const limits = usePoll(`limits ${offset}`, (signal) => get<Page<Limit>>("/rate-limits", { offset, limit: LIMIT }, signal));
  const withPartitions = (items: Limit[]) => items.flatMap((limit) => [limit, ...(limit.partitions ?? []).slice(0, MOST_PARTITIONS)]);
  return (
    <>
      <Head title="Limits" note="Limits of keys, queues, types and tenants. An override applies in place of the limit, until it expires or is removed." actions={<Override onDone={limits.refresh} />} />
      <Loaded from={limits}>
        {({ items, pagination }) => (
          <>
            <Table
              name="Limits"
              list={String(offset)}
              rows={withPartitions(items)}
              keyOf={(limit) => `${limit.scope} ${limit.key}`}
              columns={columns(limits.refresh)}
              empty={<Empty title="No limit is in use">Jobs name a limit in <code>options.rate_limit</code>; the configuration has <code>[[limit]]</code> for queues and types.</Empty>}
            />
            <Pager pagination={pagination} shown={items.length} />
          </>
        )}
      </Loaded>
    </>
  );
}

function columns(onDone: () => void): Column<Limit>[] {
  return [
    { id: "key", label: "Limit", value: (limit) => limit.key, render: (limit) => <Name limit={limit} /> },
    { id: "usage", label: "Usage", render: (limit) => <Usage limit={limit} /> },
    { id: "waiting", label: "Held back", align: "end", value: (limit) => limit.waiting_count, render: (limit) => <Count value={limit.waiting_count} /> },
    { id: "override", label: "Override", render: (limit) => limit.override ? <Pill state="override" tone="warn">{limit.override.expires_at ? <>until <When time={limit.override.expires_at} /></> : "for good"}</Pill> : <span class="dim">–</span> },
    { id: "actions", label: "Actions", render: (limit) => limit.partitions_total === undefined || limit.override ? <Actions limit={limit} onDone={onDone} /> : <span class="dim">by partition</span> },
  ];
}

function Name({ limit }: { limit: Limit }) {
  const { key, scope, partition } = limit;
  if (partition) return <span class="partition">{partition.key} of {partition.scope} <strong>{partition.name}</strong></span>;
  const name = key.replace(/^(queue|type|tenant):/, "");
  const target = scope === "queue" ? link(["queues", name]) : scope === "type" ? link(["jobs"], { type: name }) : scope === "tenant" ? link(["tenants", name]) : null;
  return <span>{target ? <a href={target}>{name}</a> : <strong>{name}</strong>} <span class="dim">{scope}</span></span>;
}

function Usage({ limit }: { limit: Limit }) {
  const { concurrency, rate, throttle, hold_until } = limit;
  return (
    <span class="usage">
      {concurrency ? <Share label={`${count(concurrency.active)} of ${count(concurrency.limit)} active`} value={concurrency.active} most={concurrency.limit} /> : null}
      {rate ? <Share label={`${count(rate.current_count)} of ${count(rate.limit)} per ${period(rate.period)}`} value={rate.current_count} most={rate.limit} /> : null}
      {throttle ? <span>{count(throttle.limit)} per {period(throttle.period)}, evenly spaced{throttle.next_allowed_at ? <>; next <When time={throttle.next_allowed_at} /></> : null}</span> : null}
      {hold_until ? <Pill state="held">held until <When time={hold_until} /></Pill> : null}
    </span>
  );
}

function Share({ label, value, most }: { label: string; value: number; most: number }) {
  return <span class="with-bar"><Bar value={value} most={most} label={label} tone={value >= most ? "bad" : "busy"} /><span class="number">{label}</span></span>;
}

const EXPIRES: Field = { name: "expires_at", label: "Until", value: "+PT1H", help: "A point in time, or +PT1H for an hour from now. Empty: for good." };

function Actions({ limit, onDone }: { limit: Limit; onDone: () => void }) {
  const { key, scope, concurrency, rate, throttle, override } = limit;
  const quota = {
    ...(concurrency ? { concurrency: concurrency.limit } : {}),
    ...(rate ? { rate: { limit: rate.limit, period: rate.period } } : {}),
    ...(throttle ? { throttle: { limit: throttle.limit, period: throttle.period } } : {}),
  };
  const path = `/rate-limits/${part(key)}`;
  return (
    <span class="actions">
      <Action
        label="Change"
        needs="admin"
        about={`limit ${key}`}
        onDone={onDone}
        confirm={{ title: `Override the limit ${key}`, fields: [...limitFields(quota), EXPIRES], confirm: "Override" }}
        run={async (values) => {
          const body = { ...limitOf(values), ...(values.expires_at ? { expires_at: values.expires_at } : {}) };
          await call("PUT", path, { query: { scope }, body });
          return `The limit ${key} is overridden.`;
        }}
      />
      {override ? (
        <Action
          label="Remove override"
          needs="admin"
          kind="danger"
          about={`of limit ${key}`}
          onDone={onDone}
          confirm={{ title: `Remove the override of ${key}?`, text: "The limit of the jobs or of the configuration applies again." }}
          run={async () => { await call("DELETE", path, { query: { scope } }); return `The override of ${key} is removed.`; }}
        />
      ) : null}
    </span>
  );
}

/** Overrides a key that is not in the list, because no job uses it yet. */
function Override({ onDone }: { onDone: () => void }) {
  return (
    <Action
      label="Limit a key"
      needs="admin"
      onDone={onDone}
      confirm={{ title: "Limit a key", text: "The key may be unused so far.", fields: [{ name: "key", label: "Key", required: true }, ...limitFields(undefined), EXPIRES], confirm: "Limit" }}
      run={async (values) => {
        const body = { ...limitOf(values), ...(values.expires_at ? { expires_at: values.expires_at } : {}) };
        await call("PUT", `/rate-limits/${part(values.key ?? "")}`, { body });
        return `The key ${values.key} is limited.`;
      }}
    />
  );
}
