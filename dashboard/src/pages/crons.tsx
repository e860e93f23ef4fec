// Crons: when they run, and the switch of each.

import { call, get, part } from "../api/client";
import { SLOW_MS, usePoll } from "../api/poll";
import type { Cron, Page } from "../api/types";
import { Action } from "../components/action";
import { Count, Pill, When } from "../components/figures";
import { Empty, Head, Loaded, Pager } from "../components/page";
import { type Column, Table } from "../components/table";
import { link } from "../routes";

const LIMIT = 50;

export function Crons({ query }: { query: Record<string, string> }) {
  const offset = Number(query.offset ?? 0) || 0;
  const crons = usePoll(`crons ${offset}`, (signal) => get<Page<Cron>>("/cron", { offset, limit: LIMIT }, signal), SLOW_MS);
  return (
    <>
      <Head title="Crons" />
      <Loaded from={crons}>
        {({ items, pagination }) => (
          <>
            <Table
              name="Crons"
              list={String(offset)}
              rows={items}
              keyOf={(cron) => cron.name}
              columns={columns(crons.refresh)}
              empty={<Empty title="No cron yet">Register one: <code>POST /ojs/v1/cron {'{"name": "hourly", "cron": "0 * * * *", "type": "mail.digest", "args": []}'}</code></Empty>}
            />
            <Pager pagination={pagination} shown={items.length} />
          </>
        )}
      </Loaded>
    </>
  );
}

function columns(onDone: () => void): Column<Cron>[] {
  return [
    { id: "name", label: "Cron", value: (cron) => cron.name, render: (cron) => <span><strong>{cron.name}</strong>{cron.description ? <span class="dim"> {cron.description}</span> : null}</span> },
    { id: "expression", label: "Schedule", render: (cron) => <span><code>{cron.expression}</code> <span class="dim">{cron.timezone}</span></span> },
    { id: "type", label: "Type", value: (cron) => cron.type, render: (cron) => <a href={link(["jobs"], { type: cron.type })}>{cron.type}</a> },
    { id: "state", label: "State", value: (cron) => String(cron.enabled), render: (cron) => <Pill state={cron.enabled ? "enabled" : "paused"} /> },
    { id: "next", label: "Next run", value: (cron) => cron.next_run_at, render: (cron) => cron.enabled ? <When time={cron.next_run_at} /> : <span class="dim">–</span> },
    { id: "last", label: "Last run", value: (cron) => cron.last_run_at, render: (cron) => <When time={cron.last_run_at} /> },
    { id: "runs", label: "Runs", align: "end", value: (cron) => cron.run_count, render: (cron) => <Count value={cron.run_count} href={link(["jobs"], { type: cron.type })} /> },
    { id: "actions", label: "Actions", render: (cron) => <Actions cron={cron} onDone={onDone} /> },
  ];
}

function Actions({ cron, onDone }: { cron: Cron; onDone: () => void }) {
  const { name, enabled } = cron;
  const path = `/cron/${part(name)}`;
  const set = async (value: boolean) => void (await call("PATCH", path, { body: { enabled: value } }));
  return (
    <span class="actions">
      <Action label="Run now" needs="produce-all" about={name} onDone={onDone} run={async () => { await call("POST", `${path}/run`); return `Cron ${name} ran.`; }} />
      {enabled ? (
        <Action label="Pause" needs="produce-all" about={name} onDone={onDone} confirm={{ title: `Pause cron ${name}?`, text: "It does not run until it is resumed. Runs in between are not made up for." }} run={async () => { await set(false); return `Cron ${name} is paused.`; }} />
      ) : (
        <Action label="Resume" needs="produce-all" kind="primary" about={name} onDone={onDone} run={async () => { await set(true); return `Cron ${name} runs again.`; }} />
      )}
    </span>
  );
}
