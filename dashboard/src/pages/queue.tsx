// One queue: its jobs, its rate limit, and whether it is paused.

import { call, find, get, part } from "../api/client";
import { SLOW_MS, usePoll } from "../api/poll";
import { missing, session } from "../api/session";
import type { QueueStats, Window } from "../api/types";
import { Action } from "../components/action";
import { Figure, Pill, When } from "../components/figures";
import { Empty, Head, Loaded, Section } from "../components/page";
import { Table } from "../components/table";
import { readJobs } from "../data/jobs";
import { count, duration, period } from "../lib/format";
import { useStore } from "../lib/store";
import { link } from "../routes";
import { jobColumns } from "./jobs";
import { limitFields, limitOf } from "./limit_form";

const MOST_JOBS = 20;

interface Configuration {
  rate_limit?: { concurrency?: number; rate?: Window; throttle?: Window };
  backpressure?: { max_depth: number; strategy: string };
}

export function Queue({ name }: { name: string }) {
  const seesAll = missing("read-all", useStore(session)) === null;
  const stats = usePoll(`queue ${name}`, (signal) => get<QueueStats>(`/queues/${part(name)}/stats`, {}, signal));
  const jobs = usePoll(`queue jobs ${name}`, (signal) => readJobs({ queue: name }, MOST_JOBS, signal), SLOW_MS);
  const actions = stats.data ? <PauseQueue name={name} isPaused={stats.data.paused} onDone={stats.refresh} /> : null;
  return (
    <>
      <Head title={name} back={{ href: link(["queues"]), label: "Queues" }} actions={actions} />
      <Loaded from={stats}>{(data) => <Facts name={name} stats={data} />}</Loaded>
      {seesAll ? <RateLimit name={name} /> : null}
      <Section title="Jobs" actions={<a href={link(["jobs"], { queue: name })}>All jobs of the queue</a>}>
        <Loaded from={jobs}>
          {({ items }) => <Table name={`Jobs of queue ${name}`} list={items[0]?.id ?? ""} rows={items} keyOf={(job) => job.id} columns={jobColumns(seesAll)} empty={<Empty title="No job in this queue" />} />}
        </Loaded>
      </Section>
    </>
  );
}

function Facts({ name, stats }: { name: string; stats: QueueStats }) {
  const jobs = (state: string) => link(["jobs"], { queue: name, state });
  const number = (state: string) => count(Number(stats[state] ?? 0));
  return (
    <dl class="figures">
      <Figure label="State" value={<Pill state={stats.paused ? "paused" : "open"} />} />
      <Figure label="Available" value={number("available")} href={jobs("available")} note={stats.oldest_available_at ? <>oldest from <When time={stats.oldest_available_at} /></> : undefined} />
      <Figure label="Latency" value={duration(stats.latency_ms)} />
      <Figure label="Active" value={number("active")} href={jobs("active")} />
      <Figure label="Staged" value={number("pending")} href={jobs("pending")} />
      <Figure label="Waiting to retry" value={number("retryable")} href={jobs("retryable")} />
      <Figure label="Scheduled" value={number("scheduled")} href={jobs("scheduled")} />
      <Figure label="Discarded" value={number("discarded")} href={jobs("discarded")} />
    </dl>
  );
}

function RateLimit({ name }: { name: string }) {
  const path = `/admin/queues/${part(name)}/rate-limit`;
  const configuration = usePoll(`queue config ${name}`, (signal) => find<Configuration>(`/queues/${part(name)}/config`, {}, signal), SLOW_MS);
  return (
    <Loaded from={{ ...configuration, data: configuration.data ?? (configuration.error ? null : {}) }}>
      {({ rate_limit: limit, backpressure }) => {
        const parts = [
          limit?.concurrency === undefined ? null : `${count(limit.concurrency)} active at once`,
          limit?.rate ? `${count(limit.rate.limit)} starts per ${period(limit.rate.period)}` : null,
          limit?.throttle ? `spaced, ${count(limit.throttle.limit)} per ${period(limit.throttle.period)}` : null,
        ].filter((text) => text !== null);
        const actions = (
          <>
            <Action
              label={limit ? "Change limit" : "Set limit"}
              needs="admin-all"
              onDone={configuration.refresh}
              confirm={{ title: `Limit of queue ${name}`, text: "It applies to all jobs of the queue together.", fields: limitFields(limit), confirm: "Set" }}
              run={async (values) => { await call("PUT", path, { body: limitOf(values) }); return `The limit of queue ${name} is set.`; }}
            />
            {limit ? (
              <Action label="Remove limit" needs="admin-all" kind="danger" onDone={configuration.refresh} confirm={{ title: `Remove the limit of queue ${name}?`, text: "A limit in the configuration file applies again." }} run={async () => { await call("DELETE", path); return `The limit of queue ${name} is removed.`; }} />
            ) : null}
          </>
        );
        return (
          <Section title="Rate limit" actions={actions}>
            <p>{parts.length === 0 ? <span class="dim">None.</span> : parts.join(", ")}{backpressure ? ` At most ${count(backpressure.max_depth)} jobs, then ${backpressure.strategy.replaceAll("_", " ")}.` : ""}</p>
          </Section>
        );
      }}
    </Loaded>
  );
}

export function PauseQueue({ name, isPaused, onDone, about }: { name: string; isPaused: boolean; onDone: () => void; about?: string }) {
  const change = async (action: string) => void (await call("POST", `/queues/${part(name)}/${action}`));
  const row = about ? { about } : {};
  return isPaused ? (
    <Action label="Resume" needs="operate-all" kind="primary" onDone={onDone} {...row} run={async () => { await change("resume"); return `Queue ${name} is open.`; }} />
  ) : (
    <Action label="Pause" needs="operate-all" onDone={onDone} {...row} confirm={{ title: `Pause queue ${name}?`, text: "Workers get no more jobs of it. Jobs that run continue." }} run={async () => { await change("pause"); return `Queue ${name} is paused.`; }} />
  );
}
