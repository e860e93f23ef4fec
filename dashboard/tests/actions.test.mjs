// The changes that the pages offer, with their effect on the server.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, open } from "./support/browser.mjs";
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

/** Opens a page, runs `use` on it, and requires that its console stayed silent. */
async function on(path, use) {
  const { page, errors, close } = await open(browser, server, path);
  await use(page, page.getByRole("dialog"));
  assert.deepEqual(errors, []);
  await close();
}

test("a rule is paused, resumed and run", async () => {
  const state = async () => (await server.call("GET", "/admin/planner/reports")).state;
  await on("rules/reports", async (page, dialog) => {
    const actions = page.locator(".page-head");
    await actions.getByRole("button", { name: "Pause" }).click();
    await dialog.getByRole("button", { name: "Pause" }).click();
    await page.getByText("Rule reports is paused.").waitFor();
    assert.equal(await state(), "paused");
    await actions.getByRole("button", { name: "Resume" }).click();
    await page.getByText("Rule reports is running.").waitFor();
    assert.equal(await state(), "running");
    await actions.getByRole("button", { name: "Run now" }).click();
    await page.getByText(/^The round promoted/).waitFor();
  });
});

test("a tenant's limit and weight are changed with a reason, and what is not changed stays", async () => {
  await on("tenants/beta", async (page, dialog) => {
    await page.getByRole("button", { name: "Change limits" }).click();
    await dialog.getByLabel("Active jobs").fill("7");
    await dialog.getByLabel("Reason").fill("bought a larger plan");
    await dialog.getByRole("button", { name: "Change" }).click();
    await page.getByText("The limits of beta are changed.").waitFor();
    await page.getByText("bought a larger plan").waitFor();
    await page.getByText("concurrency 0 of 7").waitFor();
    await page.getByRole("button", { name: "Change weight" }).click();
    await dialog.getByLabel("Weight").fill("2.5");
    await dialog.getByRole("button", { name: "Change" }).click();
    await page.getByText("The weight of beta is 2.5.").waitFor();
  });
  const beta = await server.call("GET", "/admin/tenants/beta");
  assert.equal(beta.fairness_weight, 2.5);
  assert.deepEqual([beta.limits.max_concurrency, beta.limits.max_queue_depth], [7, 100]);
});

test("a value that the server refuses is explained, and the dialog stays open", async () => {
  const { page, close } = await open(browser, server, "tenants/beta");
  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "Change limits" }).click();
  await dialog.getByLabel("Enqueued jobs per period").fill("5");
  await dialog.getByLabel("Period", { exact: true }).fill("a while");
  await dialog.getByRole("button", { name: "Change" }).click();
  await page.getByRole("status").getByText(/period/).waitFor();
  assert.equal(await dialog.isVisible(), true);
  await close();
});

test("tenants are found by the beginning of their id, and sorted by the server", async () => {
  await on("tenants", async (page) => {
    await page.getByLabel("Id begins with").fill("no");
    await page.keyboard.press("Enter");
    await page.waitForURL(/prefix=no/);
    await page.getByRole("cell", { name: "beta", exact: true }).waitFor({ state: "detached" });
    await page.getByRole("cell", { name: "noisy", exact: true }).waitFor();
    assert.equal(await page.getByRole("row").count(), 2, "the head and one tenant");
    await page.getByLabel("Id begins with").fill("");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Tenant" }).click();
    await page.waitForURL(/sort=name/);
    await page.getByRole("cell", { name: "beta", exact: true }).waitFor();
    const names = await page.locator("tbody td:first-child").allTextContents();
    assert.deepEqual(names.filter((name) => name !== "_default"), ["acme", "beta", "noisy"]);
  });
});

test("a job is opened from a filtered list and by its id", async () => {
  await on("jobs", async (page) => {
    await page.getByLabel("State").selectOption("discarded");
    await page.getByLabel("Queue").fill("pay");
    await page.keyboard.press("Enter");
    await page.waitForURL(/queue=pay/);
    await page.locator("tbody tr").nth(2).waitFor();
    await page.locator("tbody a.id").first().click();
    await page.getByRole("heading", { name: "pay.charge" }).waitFor();
    await page.getByText("Attempt 1 failed").waitFor();
    await page.getByRole("link", { name: "Jobs", exact: true }).last().click();
    await page.getByLabel("Open a job by its id").fill(ids.mail);
    await page.getByRole("button", { name: "Open" }).click();
    await page.getByRole("heading", { name: "mail.send" }).waitFor();
  });
});

test("a waiting job says what it waits for, and can be cancelled", async () => {
  const { items } = await server.call("GET", "/admin/tenants/noisy/jobs?state=pending&limit=1");
  await on(`jobs/${items[0].id}`, async (page, dialog) => {
    await page.getByText("Staged by rule reports in the queue of tenant noisy").waitFor();
    await page.getByRole("button", { name: "Cancel" }).click();
    await dialog.getByRole("button", { name: "Cancel the job" }).click();
    await page.getByText("The job is cancelled.").waitFor();
  });
  assert.equal((await server.call("GET", `/jobs/${items[0].id}`)).state, "cancelled");
});

test("dead letters are retried and deleted, one by one and by filter", async () => {
  await on("dead-letters", async (page, dialog) => {
    const row = page.locator("tbody tr", { hasText: "card_declined" });
    await row.getByRole("button", { name: /^Retry/ }).click();
    await page.getByText(/is enqueued again/).waitFor();
    await row.waitFor({ state: "detached" });
    await page.getByLabel("Error type").fill("timeout");
    await page.keyboard.press("Enter");
    await page.waitForURL(/error_type=timeout/);
    await page.getByRole("button", { name: "Delete all" }).click();
    await dialog.getByRole("heading", { name: "Delete 2 jobs?" }).waitFor();
    await dialog.getByRole("button", { name: "Delete all" }).click();
    await page.getByText("2 jobs deleted.").waitFor();
    await page.getByText("No dead letter matches").waitFor();
  });
  assert.equal((await server.call("GET", "/dead-letter/stats")).total, 0);
  assert.equal((await server.call("GET", `/jobs/${ids.dead[0]}`)).state, "available");
});

test("a queue is paused and resumed, and its limit is set and removed", async () => {
  await on("queues/mail", async (page, dialog) => {
    const head = page.locator(".page-head");
    await head.getByRole("button", { name: "Pause" }).click();
    await dialog.getByRole("button", { name: "Pause" }).click();
    await page.getByText("Queue mail is paused.").waitFor();
    assert.equal((await server.call("GET", "/queues/mail/stats")).paused, true);
    await head.getByRole("button", { name: "Resume" }).click();
    await page.getByText("Queue mail is open.").waitFor();
    await page.getByRole("button", { name: "Set limit" }).click();
    await dialog.getByLabel("Active jobs at once").fill("3");
    await dialog.getByRole("button", { name: "Set" }).click();
    await page.getByText("3 active at once").waitFor();
    await page.getByRole("button", { name: "Remove limit" }).click();
    await dialog.getByRole("button", { name: "Remove limit" }).click();
    await page.getByText("The limit of queue mail is removed.").waitFor();
  });
});

test("a limit is overridden for an hour, and the override is removed", async () => {
  await on("limits", async (page, dialog) => {
    await page.getByRole("button", { name: "Change limit smtp" }).click();
    await dialog.getByLabel("Active jobs at once").fill("0");
    await dialog.getByRole("button", { name: "Override" }).click();
    await page.getByText("The limit smtp is overridden.").waitFor();
    const limit = await server.call("GET", "/rate-limits/smtp");
    assert.equal(limit.concurrency.limit, 0);
    assert.notEqual(limit.override.expires_at, null);
    await page.getByRole("button", { name: "Remove override of limit smtp" }).click();
    await dialog.getByRole("button", { name: "Remove override" }).click();
    await page.getByText("The override of smtp is removed.").waitFor();
  });
  assert.equal((await server.call("GET", "/rate-limits/smtp")).override, undefined);
});

test("a cron runs now, is paused and resumed", async () => {
  await on("crons", async (page, dialog) => {
    await page.getByRole("button", { name: "Run now hourly" }).click();
    await page.getByText("Cron hourly ran.").waitFor();
    await page.getByRole("button", { name: "Pause hourly" }).click();
    await dialog.getByRole("button", { name: "Pause" }).click();
    await page.getByText("Cron hourly is paused.").waitFor();
    await page.getByRole("button", { name: "Resume hourly" }).click();
    await page.getByText("Cron hourly runs again.").waitFor();
  });
  const cron = await server.call("GET", "/cron/hourly");
  assert.deepEqual([cron.cron.enabled, cron.cron.run_count], [true, 1]);
});

test("a worker is quieted, resumed and terminated", async () => {
  // A worker that has been silent for some time is stale.
  await server.call("POST", "/workers/heartbeat", { worker_id: "w1" });
  await on("workers", async (page, dialog) => {
    await page.getByRole("button", { name: "Quiet w1" }).click();
    await page.getByText("Worker w1 gets no more jobs.").waitFor();
    await page.getByRole("button", { name: "Resume w1" }).click();
    await page.getByText("Worker w1 gets jobs again.").waitFor();
    await page.getByRole("button", { name: "Terminate w1" }).click();
    await dialog.getByRole("button", { name: "Terminate" }).click();
    await page.getByText("Worker w1 is asked to exit.").waitFor();
  });
});
