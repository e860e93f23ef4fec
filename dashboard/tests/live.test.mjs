// Live data: polling, streams, and a server that goes away.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, loaded, open } from "./support/browser.mjs";
import { seed, start } from "./support/server.mjs";

let browser, server;

before(async () => {
  server = await start();
  browser = await launch();
  await seed(server);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

/** Counts the requests to the API from now on, once those that have begun are answered. */
async function requests(page) {
  await page.waitForLoadState("networkidle");
  const seen = { count: 0 };
  page.on("request", (request) => request.url().includes("/ojs/") && (seen.count += 1));
  return seen;
}

const show = (page, state) =>
  page.evaluate((value) => {
    Object.defineProperty(document, "visibilityState", { value, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, state);

test("a hidden tab does not poll, and continues when it is shown", async () => {
  const { page, close } = await open(browser, server, "queues", { clock: true });
  await loaded(page);
  await show(page, "hidden");
  const seen = await requests(page);
  await page.clock.runFor(120_000);
  assert.equal(seen.count, 0);
  const next = page.waitForRequest(/\/ojs\//);
  await show(page, "visible");
  await next;
  await close();
});

test("a paused page does not poll, but its changes are shown", async () => {
  const { page, close } = await open(browser, server, "queues", { clock: true });
  await loaded(page);
  await page.locator(".status").getByRole("button", { name: "Pause" }).click();
  const seen = await requests(page);
  await page.clock.runFor(120_000);
  assert.equal(seen.count, 0);
  await page.getByRole("button", { name: "Pause mail" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
  await page.getByRole("button", { name: "Resume mail" }).waitFor();
  await close();
});

test("events and rounds appear as they happen", async () => {
  const events = await open(browser, server, "events?job_types=live.test");
  await events.page.getByText("live", { exact: true }).waitFor();
  await server.call("POST", "/jobs", { type: "live.test", args: [] });
  await events.page.getByRole("cell", { name: "live.test" }).waitFor();
  await events.close();
  const rule = await open(browser, server, "rules/reports");
  await rule.page.getByText("live", { exact: true }).waitFor();
  const round = await server.call("POST", "/admin/planner/reports/run");
  await rule.page.getByRole("cell", { name: String(round.round), exact: true }).waitFor();
  await rule.close();
});

test("rows stay where they are while their numbers change, until they are sorted", async () => {
  const { page, close } = await open(browser, server, "queues");
  const first = () => page.locator("tbody td:first-child").allTextContents();
  await page.getByRole("button", { name: "Scheduled" }).click();
  assert.equal((await first())[0], "default");
  const before = await first();
  for (let n = 0; n < 5; n += 1) await server.call("POST", "/jobs", { type: "later.do", args: [], options: { queue: "pay", scheduled_at: "+PT1H" } });
  await page.locator("tbody tr", { hasText: "pay" }).getByRole("cell", { name: "5", exact: true }).waitFor();
  assert.deepEqual(await first(), before);
  await page.getByRole("button", { name: "Scheduled" }).click();
  await page.getByRole("button", { name: "Scheduled" }).click();
  assert.equal((await first())[0], "pay");
  await close();
});

test("a page says that the server is away and how old its data is, and recovers", async () => {
  const { page, close } = await open(browser, server, "queues");
  await page.locator("tbody tr").first().waitFor();
  await page.context().setOffline(true);
  await page.getByRole("alert").getByText("The server does not answer.").waitFor();
  await page.getByText(/The data below is from/).waitFor();
  assert.ok((await page.locator("tbody tr").count()) > 1, "the last data stays");
  await page.context().setOffline(false);
  await page.getByRole("alert").waitFor({ state: "detached" });
  await close();
});

test("a server without the dashboard has no page at /", async () => {
  const without = await start({ settings: "[server]\ndashboard = false\n" });
  const response = await fetch(`${without.url}/`);
  assert.equal(response.status, 404);
  await without.stop();
});
