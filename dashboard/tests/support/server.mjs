// A fairgate with a private Redis in a temporary directory, filled with data that is the same in each run.
import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const repository = join(dirname(fileURLToPath(import.meta.url)), "../../..");
const BINARY = process.env.DASHBOARD_TEST_SERVER ?? join(repository, process.env.CARGO_TARGET_DIR ?? "target", "debug/fairgate");

const CONFIG = `
[[plan]]
name = "reports"
types = ["report.*"]
queue = "reports"
[plan.weights]
static = { acme = 3 }

[[pool]]
name = "main"
queues = ["reports", "mail"]
concurrency = 20
`;

/** Keys by the name of their holder. */
export const KEYS = {
  admin: "admin-key-of-the-dashboard-tests-0001",
  operator: "operator-key-of-the-dashboard-tests-01",
  worker: "worker-key-of-the-dashboard-tests-0001",
  acme: "tenant-key-of-the-dashboard-tests-0001",
};

const WITH_KEYS = Object.keys(KEYS)
  .map((name) => {
    const [role, tenant] = name === "acme" ? ["operator", '\ntenant = "acme"'] : [name, ""];
    return `\n[[api_key]]\nname = "${name}"\nrole = "${role}"${tenant}\nkey_env = "TEST_KEY_${name.toUpperCase()}"\n`;
  })
  .join("");

/** Starts a server. With `keys`, it requires one of `KEYS`. Settings are added to the configuration. */
export async function start({ keys = false, settings = "" } = {}) {
  const folder = await mkdtemp(join(tmpdir(), "fairgate-dashboard-"));
  const config = join(folder, "fairgate.toml");
  await writeFile(config, settings + CONFIG + (keys ? WITH_KEYS : ""));
  const environment = Object.fromEntries(Object.entries(KEYS).map(([name, key]) => [`TEST_KEY_${name.toUpperCase()}`, key]));
  const child = spawn(BINARY, ["serve", "--config", config, "--listen", "127.0.0.1:0", "--data-dir", join(folder, "redis")], {
    env: { ...inherited(), ...environment },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const url = await ready(child);
  const server = {
    url,
    call: (method, path, body) => call(url, keys ? KEYS.admin : null, method, path, body),
    async stop() {
      child.kill("SIGTERM");
      await ended;
      await rm(folder, { recursive: true, force: true });
    },
  };
  return server;
}

/** The environment without settings of the shell, which would change what the tests see. */
const inherited = () => Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("FAIRGATE_")));

/** Starts `fairgate demo`: tenants, workers and a webhook around a server. */
export async function startDemo() {
  const child = spawn(BINARY, ["demo", "--listen", "127.0.0.1:0"], { env: inherited(), stdio: ["pipe", "ignore", "pipe"] });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const url = await new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`the demo ended with ${code}`)));
    createInterface({ input: child.stderr }).on("line", (line) => /^\s+http/.test(line) && resolve(line.trim()));
  });
  return {
    url,
    call: (method, path, body) => call(url, null, method, path, body),
    pressEnter: () => child.stdin.write("\n"),
    async stop() {
      child.kill("SIGTERM");
      await ended;
    },
  };
}

function ready(child) {
  return new Promise((resolve, reject) => {
    const log = [];
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`fairgate ended with ${code}:\n${log.join("\n")}`)));
    createInterface({ input: child.stderr }).on("line", (line) => {
      log.push(line);
      const entry = JSON.parse(line.startsWith("{") ? line : "{}");
      if (entry.message === "ready") resolve(entry.url);
    });
  });
}

async function call(url, key, method, path, body) {
  const headers = { "content-type": "application/json", ...(key ? { authorization: `Bearer ${key}` } : {}) };
  const response = await fetch(`${url}/ojs/v1${path}`, { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
  const answer = await response.json();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${JSON.stringify(answer)}`);
  return answer;
}

/** Fills a server, and returns the ids that tests open. */
export async function seed(server) {
  const { call: send } = server;
  const jobs = (tenant, amount) => Array.from({ length: amount }, (_, n) => ({ type: "report.daily", args: [n], meta: { tenant_id: tenant } }));
  await send("POST", "/jobs/batch", { jobs: jobs("noisy", 60) });
  await send("POST", "/jobs/batch", { jobs: [...jobs("acme", 6), ...jobs("beta", 6)] });
  // Each round fills the place of the job that was fetched before it.
  for (let n = 0; n < 6; n += 1) {
    const { jobs: fetched } = await send("POST", "/workers/fetch", { queues: ["reports"], worker_id: "reporter", count: 5 });
    for (const { id } of fetched) await send("POST", "/workers/ack", { job_id: id });
    await send("POST", "/admin/planner/reports/run");
  }
  await send("PUT", "/admin/tenants/beta/limits", { max_concurrency: 1, max_queue_depth: 100, reason: "contract" });
  const mail = await send("POST", "/jobs", { type: "mail.send", args: ["ada"], meta: { tenant_id: "acme" }, options: { queue: "mail", rate_limit: { key: "smtp", concurrency: 2 } } });
  await send("POST", "/jobs", { type: "mail.later", args: [], options: { scheduled_at: "+PT1H" } });
  const dead = [];
  for (const code of ["card_declined", "timeout", "timeout"]) {
    const options = { queue: "pay", retry: { max_attempts: 1, on_exhaustion: "dead_letter" } };
    const { job } = await send("POST", "/jobs", { type: "pay.charge", args: [], meta: { tenant_id: "beta" }, options });
    await send("POST", "/workers/fetch", { queues: ["pay"], worker_id: "payer", count: 1 });
    await send("POST", "/workers/nack", { job_id: job.id, error: { code, message: `failed: ${code}` } });
    dead.push(job.id);
  }
  await send("POST", "/cron", { name: "hourly", cron: "0 * * * *", type: "mail.digest", args: [] });
  const { workflow } = await send("POST", "/workflows", { type: "chain", name: "nightly", steps: [{ type: "step.one", args: [] }, { type: "step.two", args: [] }] });
  await send("POST", "/workers/heartbeat", { worker_id: "w1" });
  return { mail: mail.job.id, dead, workflow: workflow.id };
}
