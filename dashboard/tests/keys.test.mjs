// What holders of keys see.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, loaded, open } from "./support/browser.mjs";
import { KEYS, seed, start } from "./support/server.mjs";

let browser, server, ids;

before(async () => {
  server = await start({ keys: true });
  browser = await launch();
  ids = await seed(server);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const sections = (page) => page.getByRole("navigation", { name: "Pages" }).locator("li").allTextContents();

test("the page asks for a key, refuses a wrong one, and forgets it on request", async () => {
  const { page, close } = await open(browser, server);
  await page.getByLabel("API key").fill("a-key-that-the-server-does-not-know-0000");
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByRole("alert").waitFor();
  await page.getByLabel("API key").fill(KEYS.admin);
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await page.getByText("Key admin, admin").waitFor();
  await page.reload();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await page.getByRole("button", { name: "Use another key" }).click();
  await page.getByLabel("API key").waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  await close();
});

test("a worker's key shows single jobs, and nothing fails", async () => {
  const { page, errors, close } = await open(browser, server, "", { key: KEYS.worker });
  assert.deepEqual(await sections(page), ["Jobs"]);
  await page.getByText("Your key shows single jobs").waitFor();
  await page.getByLabel("Open a job by its id").fill(ids.mail);
  await page.getByRole("button", { name: "Open" }).click();
  await page.getByRole("heading", { name: "mail.send" }).waitFor();
  const cancel = page.getByRole("button", { name: "Cancel: not permitted" });
  assert.equal(await cancel.getAttribute("aria-disabled"), "true");
  await page.goto(`${server.url}/#/tenants`);
  await page.getByText("Your key does not show this page").waitFor();
  assert.deepEqual(errors, []);
  await close();
});

test("an operator's key reads everything, pauses, and is told what it may not do", async () => {
  const { page, errors, close } = await open(browser, server, "tenants/beta", { key: KEYS.operator });
  const change = page.getByRole("button", { name: "Change limits: not permitted" });
  // Disabled for assistive technology, yet it explains itself when it is pressed.
  await change.click({ force: true });
  await page.getByRole("status").getByText("The role operator of your key does not permit this").waitFor();
  assert.equal(await page.getByRole("dialog").count(), 0);
  await page.goto(`${server.url}/#/queues`);
  await page.getByRole("button", { name: "Pause mail" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
  await page.getByText("Queue mail is paused.").waitFor();
  assert.deepEqual(errors, []);
  await close();
});

test("a tenant's key sees the pages of its own data only", async () => {
  const { page, errors, close } = await open(browser, server, "", { key: KEYS.acme });
  assert.deepEqual(await sections(page), ["Your tenant", "Jobs", "Queues", "Workflows", "Dead letters", "Limits", "Events"]);
  await page.getByRole("heading", { name: "acme" }).waitFor();
  for (const path of ["jobs", "queues", "queues/mail", "workflows", "dead-letters", "limits", "events"]) {
    await page.goto(`${server.url}/#/${path}`);
    await page.locator("h1").first().waitFor();
    await loaded(page);
    assert.equal(await page.getByRole("alert").count(), 0, path);
    const text = await page.locator("main").textContent();
    assert.doesNotMatch(text, /noisy|beta/, path);
  }
  await page.goto(`${server.url}/#/rules`);
  await page.getByText("Your key is bound to tenant acme").waitFor();
  assert.deepEqual(errors, []);
  await close();
});
