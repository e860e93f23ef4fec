// Every page in both themes and at the width of a phone: its content, its console, and what axe finds in it.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { AxeBuilder } from "@axe-core/playwright";
import { launch, loaded, open, PHONE } from "./support/browser.mjs";
import { seed, start } from "./support/server.mjs";

let browser, server, ids;

before(async () => {
  server = await start();
  browser = await launch();
  ids = await seed(server);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

/** Each page with a text that only its data brings. */
const pages = () => [
  ["overview", "Share against expected share"],
  ["rules", "reports"],
  ["rules/reports", "Waiting tenants"],
  ["tenants", "noisy"],
  ["tenants/noisy", "Noisy neighbour"],
  ["tenants/beta", "queue depth"],
  ["shadow", "No rule is in shadow"],
  ["jobs", "report.daily"],
  [`jobs/${ids.dead[0]}`, "card_declined"],
  ["queues", "reports"],
  ["queues/mail", "Rate limit"],
  ["workflows", "nightly"],
  [`workflows/${ids.workflow}`, "step.two"],
  ["crons", "hourly"],
  ["dead-letters", "pay.charge"],
  ["workers", "w1"],
  ["limits", "smtp"],
  ["events", "job.enqueued"],
];

/** Opens a page when its data is there. A worker that stays silent is forgotten after some time. */
async function openWith(path, text, options) {
  await server.call("POST", "/workers/heartbeat", { worker_id: "w1" });
  const opened = await open(browser, server, path, options);
  await opened.page.locator("main").getByText(text).first().waitFor();
  await loaded(opened.page);
  return opened;
}

for (const scheme of ["light", "dark"]) {
  test(`every page shows its data without errors, and axe finds nothing serious (${scheme})`, async () => {
    for (const [path, text] of pages()) {
      const { page, errors, close } = await openWith(path, text, { scheme });
      const { violations } = await new AxeBuilder({ page }).analyze();
      const found = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
      assert.deepEqual(found.map(({ id, nodes }) => [id, nodes[0].html]), [], `${path} (${scheme})`);
      assert.deepEqual(errors, [], path);
      await close();
    }
  });
}

test("no page is wider than a phone, and the navigation unfolds", async () => {
  for (const [path, text] of pages()) {
    const { page, errors, close } = await openWith(path, text, { viewport: PHONE });
    const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.equal(over, 0, `${path} is ${over} px too wide`);
    assert.deepEqual(errors, [], path);
    await close();
  }
  const { page, close } = await open(browser, server, "", { viewport: PHONE });
  await page.getByRole("button", { name: "Menu" }).click();
  await page.getByRole("link", { name: "Dead letters" }).click();
  await page.getByRole("heading", { name: "Dead letters" }).waitFor();
  await page.locator(".menu[aria-expanded=false]").waitFor();
  await close();
});

test("the keyboard reaches the content and the dialogs", async () => {
  const { page, close } = await open(browser, server, "queues/mail");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to content");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  const pause = page.locator(".page-head").getByRole("button", { name: "Pause" });
  await pause.focus();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  assert.equal(await pause.evaluate((button) => button === document.activeElement), true, "the focus returns");
  await close();
});

test("the cumulative chart has a text with the same numbers", async () => {
  const { page, close } = await open(browser, server, "overview");
  await page.locator(".chart canvas").waitFor();
  await page.getByText("Show as text").click();
  const totals = new Map();
  for (const { served } of (await server.call("GET", "/admin/planner/reports/rounds?limit=200")).items) {
    for (const { tenant_id, jobs } of served) totals.set(tenant_id, (totals.get(tenant_id) ?? 0) + jobs);
  }
  assert.ok(totals.size >= 2, "several tenants got jobs");
  for (const [tenant, total] of totals) await page.locator(".chart details li", { hasText: `${tenant}: ${total}` }).waitFor();
  await close();
});

test("an address that names no page or no item says so", async () => {
  const { page, close } = await open(browser, server, "nowhere");
  await page.getByText("No such page").waitFor();
  await page.goto(`${server.url}/#/jobs/01a1f5c6-8fc3-74de-8431-12a6862dbf4b`);
  await page.getByRole("alert").getByText("Not found").waitFor();
  await close();
});

test("the health report leads to what needs attention", async () => {
  await server.call("POST", "/queues/halted/pause");
  await server.call("POST", "/jobs", { type: "mail.send", args: [], queue: "halted" });
  const { page, errors, close } = await open(browser, server, "overview");
  await page.getByText(/1 queue|\d+ warning/).first().waitFor();
  await page.getByRole("link", { name: /^paused for/ }).click();
  await page.getByRole("heading", { name: "halted" }).waitFor();
  assert.deepEqual(errors, []);
  await close();
});

test("a job that waits shows the check that blocks it", async () => {
  await server.call("POST", "/queues/closed/pause");
  const { job } = await server.call("POST", "/jobs", { type: "mail.send", args: [], queue: "closed" });
  const { page, errors, close } = await open(browser, server, `jobs/${job.id}`);
  await page.getByRole("row", { name: /queue paused blocking/ }).waitFor();
  assert.deepEqual(errors, []);
  await close();
});

test("the jobs of the last day add up the samples of the server", async () => {
  const { page, errors, close } = await open(browser, server, "crons");
  const sample = (at, completed) => ({ at, rules: {}, queues: {}, tenants: [{ tenant_id: "acme", completed }] });
  // Samples come every five minutes, so these are answered in place of the server.
  const body = { interval_seconds: 300, samples: [sample("2026-02-13T12:00:00Z", 40), sample("2026-02-13T12:05:00Z", 2)] };
  await page.route("**/admin/history?*", (request) => request.fulfill({ json: body }));
  await page.goto(`${server.url}/#/overview`);
  await page.locator("select", { hasText: "last day" }).selectOption("day");
  await page.getByRole("img", { name: "acme 42" }).waitFor();
  assert.deepEqual(errors, []);
  await close();
});
