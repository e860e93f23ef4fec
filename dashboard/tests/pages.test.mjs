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

/** Answers a request of the page in place of the server, and adds the route to the OpenAPI document. */
async function answer(page, path, route, body) {
  await page.route("**/openapi.json", async (request) => {
    const document = await (await request.fetch()).json();
    document.paths[path] = {};
    await request.fulfill({ json: document });
  });
  await page.route(route, (request) => request.fulfill({ json: body }));
}

test("a health report and an explanation are shown if the server has them", async () => {
  const { page, errors, close } = await open(browser, server, "crons");
  const finding = { urgency: "critical", code: "x", subject: { kind: "rule", name: "reports" }, sentence: "The gate of rule reports is closed.", next_step: "Add workers." };
  await answer(page, "/ojs/v1/admin/health-report", "**/admin/health-report", { verdict: "critical", summary: "One problem.", findings: [finding] });
  await page.reload();
  await page.goto(`${server.url}/#/overview`);
  await page.getByText("One problem.").waitFor();
  await page.getByText("Add workers.").waitFor();
  await page.getByRole("link", { name: "The gate of rule reports is closed." }).click();
  await page.getByRole("heading", { name: "reports" }).waitFor();

  const { items } = await server.call("GET", "/admin/tenants/noisy/jobs?state=pending&limit=1");
  const checks = [{ name: "rule_paused", state: "ok", summary: "The rule runs." }, { name: "gate", state: "blocking", summary: "The gate is closed.", since: "2026-02-13T12:00:00Z" }];
  await page.unroute("**/openapi.json");
  await answer(page, "/ojs/v1/jobs/{id}/explain", "**/explain", { checks, binding: "gate", summary: "It waits for the gate.", eta: { at: "2026-02-13T12:00:00Z", basis: "the rate of promotion" } });
  await page.goto(`${server.url}/#/jobs/${items[0].id}`);
  await page.reload();
  await page.getByText("It waits for the gate.").waitFor();
  await page.getByRole("row", { name: /gate blocking/ }).waitFor();
  await page.getByText("by the rate of promotion").waitFor();
  assert.deepEqual(errors, []);
  await close();
});

test("the jobs of the last day are shown if the server keeps a history", async () => {
  const { page, errors, close } = await open(browser, server, "crons");
  const sample = (at, completed) => ({ at, rules: {}, queues: {}, tenants: [{ tenant_id: "acme", completed }] });
  const body = { interval_seconds: 300, samples: [sample("2026-02-13T12:00:00Z", 40), sample("2026-02-13T12:05:00Z", 2)] };
  await answer(page, "/ojs/v1/admin/history", "**/admin/history?*", body);
  await page.reload();
  await page.goto(`${server.url}/#/overview`);
  await page.locator("select", { hasText: "last day" }).selectOption("day");
  await page.getByRole("img", { name: "acme 42" }).waitFor();
  assert.deepEqual(errors, []);
  await close();
});
