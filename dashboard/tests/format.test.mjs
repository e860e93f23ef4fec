import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./support/load.mjs";

const { count, duration, percent, period, plural, relative, shortId, words } = await load("lib/format.ts");
const { compare, keepOrder } = await load("lib/order.ts");

test("counts are exact below 10,000 and have a unit above", () => {
  const cases = [[0, "0"], [7, "7"], [9999, "9,999"], [10000, "10k"], [12345, "12.3k"], [1e6, "1M"], [2.5e9, "2.5G"], [-20000, "-20k"], [0.7143, "0.714"], [null, "–"], [undefined, "–"], [Number.NaN, "–"]];
  for (const [value, text] of cases) assert.equal(count(value), text);
});

test("durations have their two largest units", () => {
  const cases = [[0, "0 ms"], [0.44, "0.4 ms"], [999, "999 ms"], [1500, "1.5 s"], [61_000, "1 min 1 s"], [60_000, "1 min"], [3_600_000, "1 h"], [90_061_000, "1 d 1 h"], [-1500, "-1.5 s"], [null, "–"]];
  for (const [ms, text] of cases) assert.equal(duration(ms), text);
});

test("moments are relative to now, in both directions", () => {
  const now = Date.parse("2026-02-13T12:00:00Z");
  const cases = [["2026-02-13T11:59:55Z", "5 s ago"], ["2026-02-13T12:03:20Z", "in 3 min 20 s"], ["2026-02-13T12:00:00.400Z", "now"], [null, "–"], ["nonsense", "–"]];
  for (const [time, text] of cases) assert.equal(relative(time, now), text);
});

test("shares, periods, words, ids and plurals are readable", () => {
  assert.deepEqual([0, 0.0004, 0.025, 0.5, 1, null].map(percent), ["0 %", "<0.1 %", "2.5 %", "50 %", "100 %", "–"]);
  assert.deepEqual(["PT1M", "PT10S", "P1DT2H", "P1W", undefined].map(period), ["min", "10 s", "d 2 h", "P1W", "–"]);
  assert.equal(words("queue_paused"), "queue paused");
  assert.equal(shortId("01a1f5c6-8fc3-74de-8431-12a6862dbf4b"), "01a1f5c6…2dbf4b");
  assert.deepEqual([plural(1, "job"), plural(2, "job"), plural(0, "job")], ["1 job", "2 jobs", "0 jobs"]);
});

test("rows stay where they are, and new ones follow", () => {
  assert.deepEqual(keepOrder(["b", "a", "c"], ["a", "b", "d"]), ["b", "a", "d"]);
  assert.deepEqual(keepOrder([], ["x", "y"]), ["x", "y"]);
  assert.deepEqual(keepOrder(["a"], []), []);
});

test("missing values are last in either direction", () => {
  const sorted = (descending) => [2, null, 10, 1].sort((one, other) => compare(one, other, descending));
  assert.deepEqual(sorted(false), [1, 2, 10, null]);
  assert.deepEqual(sorted(true), [10, 2, 1, null]);
  assert.ok(compare("t-2", "t-10", false) < 0, "numbers inside names count as numbers");
});
