// Runs the tests of the dashboard with node's test runner: those whose file names contain the first argument, or all.
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const wanted = process.argv[2] ?? "";
const files = readdirSync(here).filter((name) => name.endsWith(".test.mjs") && name.includes(wanted)).sort();
if (files.length === 0) throw new Error(`no file of tests contains ${JSON.stringify(wanted)} in its name`);
const { status } = spawnSync(process.execPath, ["--test", ...files.map((name) => join(here, name))], { stdio: "inherit" });
process.exitCode = status ?? 1;
