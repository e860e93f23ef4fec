// Debian's Chromium, and pages that remember what went wrong in them.
import { chromium } from "playwright-core";

const OPTIONS = {
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"],
};

/** The time after which a step has failed. */
const DEADLINE_MS = 15_000;

export const DESKTOP = { width: 1280, height: 800 };
export const PHONE = { width: 390, height: 844 };

export const launch = () => chromium.launch(OPTIONS);

/** Opens a page of the dashboard. `errors` collects what its console reports. */
export async function open(browser, server, path = "", { scheme = "light", viewport = DESKTOP, key = null, clock = false } = {}) {
  const context = await browser.newContext({ colorScheme: scheme, viewport, reducedMotion: "reduce" });
  if (key) await context.addInitScript((value) => sessionStorage.setItem("fairgate.key", value), key);
  context.setDefaultTimeout(DEADLINE_MS);
  const page = await context.newPage();
  const errors = [];
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  page.on("pageerror", (error) => errors.push(String(error)));
  if (clock) await page.clock.install();
  await page.goto(`${server.url}/#/${path}`);
  await page.locator("h1").first().waitFor();
  return { page, errors, close: () => context.close() };
}

/** Waits until the page shows data in place of "Loading…". */
export async function loaded(page) {
  await page.locator(".loading").first().waitFor({ state: "detached" });
}
