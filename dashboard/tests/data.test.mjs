import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./support/load.mjs";

const { Accumulator, finished, MOST_LINES, OTHERS } = await load("data/history.ts");
const { EventParser } = await load("lib/server_events.ts");
const { reason, story } = await load("data/story.ts");
const { fromReport } = await load("data/health.ts");
const { limitsOf } = await load("data/limited.ts");

const NOON = "2026-02-13T12:00:00Z";
const round = (number, served) => ({ round: number, at: new Date(Date.parse(NOON) + number * 1000).toISOString(), promoted: served.reduce((sum, [, jobs]) => sum + jobs, 0), served: served.map(([tenant_id, jobs]) => ({ tenant_id, jobs, weight: 1 })) });

test("each round counts once, however often the server lists it", () => {
  const totals = new Accumulator();
  totals.add([round(2, [["a", 1]]), round(1, [["a", 3], ["b", 2]])]);
  totals.add([round(3, [["b", 5]]), round(2, [["a", 1]])]);
  totals.add([round(1, [["a", 100]])]);
  const { times, lines } = totals.history(Date.parse(NOON) + 9000);
  assert.deepEqual(lines, [{ tenant: "b", values: [2, 2, 7, 7] }, { tenant: "a", values: [3, 4, 4, 4] }]);
  assert.deepEqual(times.map((at) => at - Date.parse(NOON) / 1000), [1, 2, 3, 9]);
});

test("rounds in shadow do not count", () => {
  const totals = new Accumulator();
  totals.add([{ ...round(1, [["a", 3]]), outcome: "shadow" }, round(2, [["a", 1]])]);
  assert.deepEqual(totals.history(Date.parse(NOON)).lines, [{ tenant: "a", values: [1, 1] }]);
});

test("samples of the server's history add up", () => {
  const sample = (minute, tenants) => ({ at: `2026-02-13T12:${minute}:00Z`, tenants: Object.entries(tenants).map(([tenant_id, completed]) => ({ tenant_id, completed })) });
  const { times, lines } = finished([sample("00", { a: 5 }), sample("05", { b: 9 }), sample("15", { a: 1, b: 1 })]);
  assert.deepEqual(lines, [{ tenant: "b", values: [0, 9, 10] }, { tenant: "a", values: [5, 5, 6] }]);
  assert.deepEqual(times.map((at) => at - times[0]), [0, 300, 900]);
  assert.deepEqual(finished([]), { times: [], lines: [] });
});

test("tenants beyond the largest share a line", () => {
  const totals = new Accumulator();
  totals.add([round(1, Array.from({ length: MOST_LINES + 3 }, (_, n) => [`t${n}`, 10 - n]))]);
  const { lines } = totals.history(Date.parse(NOON));
  assert.equal(lines.length, MOST_LINES + 1);
  assert.deepEqual(lines.at(-1), { tenant: OTHERS, values: [4 + 3 + 2, 4 + 3 + 2] });
});

test("a long history is thinned out and keeps its totals", () => {
  const totals = new Accumulator();
  for (let number = 1; number <= 5000; number += 1) totals.add([round(number, [["a", 1]])]);
  const { times, lines } = totals.history(Date.parse(NOON));
  assert.ok(times.length <= 601 && times.length > 200, `${times.length} points`);
  assert.equal(lines[0].values.at(-1), 5000);
});

test("a stream can be cut anywhere", () => {
  const text = ": hello\r\nretry: 3000\n\nid: 1\nevent: round\ndata: {\"a\":\ndata: 1}\n\nevent: empty\n\nid: 2\r\ndata:x\r\n\r\ndata: unfinished";
  const whole = new EventParser().push(text);
  assert.deepEqual(whole, [{ id: "1", event: "round", data: '{"a":\n1}' }, { id: "2", event: "message", data: "x" }]);
  for (let cut = 0; cut <= text.length; cut += 1) {
    const parser = new EventParser();
    assert.deepEqual([...parser.push(text.slice(0, cut)), ...parser.push(text.slice(cut))], whole, `cut at ${cut}`);
  }
  const parser = new EventParser();
  assert.deepEqual([...text].flatMap((letter) => parser.push(letter)), whole);
});

test("a job's story is in order of time", () => {
  const at = (seconds) => new Date(Date.parse(NOON) + seconds * 1000).toISOString();
  const job = { created_at: at(0), enqueued_at: at(1), started_at: at(9), completed_at: at(12), state: "discarded", discarded_at: at(12), attempt: 2, errors: [{ attempt: 1, occurred_at: at(5), message: "broke" }, { attempt: 2, occurred_at: at(12), code: "oops" }] };
  assert.deepEqual(story(job).map(({ title }) => title), ["Created", "Made available", "Attempt 1 failed", "Attempt 2 started", "Attempt 2 failed", "Discarded"]);
  assert.equal(story({ created_at: at(0), enqueued_at: at(0), state: "completed", completed_at: at(3), attempt: 1 }).length, 2);
});

test("each reason to wait is a sentence", () => {
  assert.equal(reason({ reason: "staged", rule: "r", tenant: "a", gate: { open: false, reason: "latency_above_threshold" } }), "Staged by rule r in the queue of tenant a. The gate is closed: latency above threshold.");
  assert.equal(reason({ reason: "staged", rule: "r", tenant: "a", tenant_state: "held" }), "Staged by rule r in the queue of tenant a. The tenant is held: its weight is 0.");
  for (const name of ["staged", "rate_limit", "tenant_limit", "queue_paused", "scheduled", "retry", "activation", "something_new"]) {
    assert.match(reason({ reason: name }), /^[A-Za-z].*\.$/);
  }
});

test("the verdict comes from the report", () => {
  const finding = { urgency: "warning", subject: { kind: "webhook", name: "reports" }, sentence: "The webhook fails.", next_step: "Look at its log." };
  const report = { verdict: "warning", summary: "One finding.", findings: [finding] };
  assert.deepEqual(fromReport(report), { tone: "warn", title: "One finding.", details: [{ text: "The webhook fails.", advice: "Look at its log.", path: ["rules", "reports"] }] });
  assert.equal(fromReport({ ...report, verdict: "something new" }).tone, "bad");
});

test("a tenant is limited by the limits that it has reached", () => {
  const tenant = { jobs: { active: 2, available: 1, pending: 5, retryable: 9, scheduled: 1 }, limits: { max_concurrency: 2, max_queue_depth: 100, max_scheduled: null } };
  assert.deepEqual(limitsOf(tenant).map(({ limit, isReached }) => [limit, isReached]), [["concurrency", true], ["queue depth", false]]);
});
