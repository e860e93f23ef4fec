// The dashboard beside `fairgate demo`, as newcomers see it: live tenants, an explained job, fairness off and on.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, open } from "./support/browser.mjs";
import { startDemo } from "./support/server.mjs";

let browser, demo;

before(async () => {
  demo = await startDemo();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await demo?.stop();
});

test("the overview shows what each tenant got", async () => {
  const { page, errors, close } = await open(browser, demo, "overview");
  await page.locator(".chart").getByText("noisy").first().waitFor();
  await page.locator(".chart").getByText("acme").first().waitFor();
  await page.getByRole("link", { name: "reports" }).first().click();
  await page.getByText("Waiting tenants").waitFor();
  assert.deepEqual(errors, []);
  await close();
});

test("a staged job of the noisy tenant is explained", async () => {
  const { items } = await demo.call("GET", "/admin/tenants/noisy/jobs?state=pending&limit=100");
  const { page, errors, close } = await open(browser, demo, `jobs/${items.at(-1).id}`);
  await page.getByText("What it waits for").waitFor();
  await page.getByRole("row", { name: /^fair turn/ }).waitFor();
  assert.deepEqual(errors, []);
  await close();
});

test("fairness is turned off and on from the terminal", async () => {
  const { page, errors, close } = await open(browser, demo, "rules");
  await page.getByRole("row", { name: /reports.*running/ }).waitFor();
  demo.pressEnter();
  await page.getByRole("row", { name: /reports.*running/ }).waitFor({ state: "detached" });
  demo.pressEnter();
  await page.getByRole("row", { name: /reports.*running/ }).waitFor();
  assert.deepEqual(errors, []);
  await close();
});
