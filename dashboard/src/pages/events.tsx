// Events as they happen.

import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "../api/client";
import { useStream } from "../api/stream";
import type { EventRecord, Page } from "../api/types";
import { Pill, When } from "../components/figures";
import { Filters } from "../components/filter";
import { Empty, Failure, Head } from "../components/page";
import { Table } from "../components/table";
import { link } from "../routes";

/** The events that the page keeps. */
const MOST = 200;
const FIRST = 50;
/** Busy servers emit thousands of events per second; the page shows them this often. */
const SHOWN_EVERY_MS = 500;

export function Events({ query }: { query: Record<string, string> }) {
  const { types = "", queues = "", job_types = "" } = query;
  const filter = { types, queues, job_types };
  const key = JSON.stringify(filter);
  const [events, setEvents] = useState<EventRecord[]>([]);
  const [isHeld, setHeld] = useState(false);
  const fresh = useRef<EventRecord[]>([]);
  const stream = useStream(isHeld ? null : "/events/stream", filter, ({ data }) => {
    fresh.current.push(JSON.parse(data) as EventRecord);
    if (fresh.current.length > MOST) fresh.current.splice(0, fresh.current.length - MOST);
  });
  useEffect(() => {
    const ended = new AbortController();
    setEvents([]);
    fresh.current = [];
    get<Page<EventRecord>>("/events", { ...filter, order: "desc", limit: FIRST }, ended.signal).then(
      ({ items }) => setEvents((known) => merge(known, items)),
      // The stream reports the same failure.
      () => undefined,
    );
    const timer = setInterval(() => {
      if (fresh.current.length === 0) return;
      const arrived = fresh.current.splice(0).reverse();
      setEvents((known) => merge(arrived, known));
    }, SHOWN_EVERY_MS);
    return () => {
      clearInterval(timer);
      ended.abort();
    };
  }, [key]);
  const actions = (
    <>
      <Pill state="stream" tone={stream.isOpen ? "good" : "warn"}>{stream.isOpen ? "live" : "not live"}</Pill>
      <button type="button" class="button" aria-pressed={isHeld} onClick={() => setHeld(!isHeld)}>{isHeld ? "Continue stream" : "Hold stream"}</button>
      <button type="button" class="button" onClick={() => setEvents([])}>Clear</button>
    </>
  );
  return (
    <>
      <Head title="Events" note={`The newest ${MOST}, newest first.`} actions={actions} />
      <Filters
        filters={[
          { name: "types", label: "Event types", value: types, placeholder: "job.completed, tenant.throttled" },
          { name: "queues", label: "Queues", value: queues, placeholder: "default" },
          { name: "job_types", label: "Job types", value: job_types, placeholder: "report.daily" },
        ]}
      />
      {stream.error ? <Failure error={stream.error} /> : null}
      <Table
        name="Events, newest first"
        list={events[0]?.id ?? ""}
        rows={events}
        keyOf={(event) => event.id}
        columns={[
          { id: "time", label: "Time", render: (event) => <When time={event.time} /> },
          { id: "type", label: "Event", render: (event) => <code>{event.type}</code> },
          { id: "subject", label: "About", render: (event) => <Subject event={event} /> },
          { id: "tenant", label: "Tenant", render: (event) => <Linked section="tenants" name={event.data.tenant_id} /> },
          { id: "queue", label: "Queue", render: (event) => <Linked section="queues" name={event.data.queue} /> },
          { id: "data", label: "Data", render: (event) => <Data event={event} /> },
        ]}
        empty={<Empty title="No event yet">Events appear here as jobs, tenants, rules and workers change.</Empty>}
      />
    </>
  );
}

/** Joins two lists of events, newest first, without those that are in both. */
export function merge(newer: EventRecord[], older: EventRecord[]): EventRecord[] {
  const all = new Map([...newer, ...older].map((event): [string, EventRecord] => [event.id, event]));
  return [...all.values()].slice(0, MOST);
}

function Subject({ event }: { event: EventRecord }) {
  const { job_id, workflow_id, rule } = event.data;
  if (typeof job_id === "string") return <a href={link(["jobs", job_id])} title={job_id}>{typeof event.data.job_type === "string" ? event.data.job_type : job_id}</a>;
  if (typeof workflow_id === "string") return <a href={link(["workflows", workflow_id])}>workflow</a>;
  if (typeof rule === "string") return <a href={link(["rules", rule])}>{rule}</a>;
  return <span>{event.subject ?? "–"}</span>;
}

function Linked({ section, name }: { section: string; name: unknown }) {
  return typeof name === "string" ? <a href={link([section, name])}>{name}</a> : <span class="dim">–</span>;
}

const SHOWN_ELSEWHERE = ["job_id", "job_type", "queue", "tenant_id"];

function Data({ event }: { event: EventRecord }) {
  const rest = Object.entries(event.data).filter(([name]) => !SHOWN_ELSEWHERE.includes(name));
  if (rest.length === 0) return <span class="dim">–</span>;
  return <span class="event-data">{rest.map(([name, value]) => `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ")}</span>;
}
