// Bundles the dashboard into dist/, from which build.rs embeds it into the binary.
//
//   node build.mjs            once, minified, with a hash of the content in each name
//   node build.mjs --watch    after each change, and serves it: see CONTRIBUTING.md
import { createHash } from "node:crypto";
import { createServer, request } from "node:http";
import { mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build, context } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const dist = join(here, "dist");
const watches = process.argv.includes("--watch");

const options = {
  entryPoints: { app: join(here, "src/main.tsx") },
  bundle: true,
  minify: !watches,
  sourcemap: watches ? "inline" : false,
  format: "esm",
  target: ["es2022", "chrome100", "firefox100", "safari15"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  write: false,
  outdir: dist,
  logLevel: "warning",
};

/** Returns the files of a build by name. The page names the others, which are named after their content. */
async function files(outputs) {
  const assets = outputs.map(({ path, contents }) => ({ kind: path.endsWith(".css") ? "css" : "js", contents }));
  assets.push({ kind: "svg", contents: await readFile(join(here, "src/icon.svg")) });
  let page = await readFile(join(here, "src/index.html"), "utf8");
  const named = new Map();
  for (const { kind, contents } of assets) {
    const hash = createHash("sha256").update(contents).digest("hex").slice(0, 10);
    const name = `${kind === "svg" ? "icon" : "app"}-${hash}.${kind}`;
    named.set(name, Buffer.from(contents));
    page = page.replaceAll(`{{${kind}}}`, `dashboard/${name}`);
  }
  return named.set("index.html", Buffer.from(page));
}

async function writeAll(named) {
  await mkdir(dist, { recursive: true });
  for (const old of await readdir(dist)) {
    if (old !== ".gitignore" && !named.has(old)) await rm(join(dist, old));
  }
  for (const [name, contents] of named) await writeFile(join(dist, name), contents);
}

function report(named) {
  for (const [name, contents] of named) {
    console.log(`${name.padEnd(22)} ${contents.length} bytes, ${gzipSync(contents).length} with gzip`);
  }
}

/** Serves the newest build, and forwards all other requests to a running fairgate. */
async function watch() {
  const target = new URL(process.env.FAIRGATE_URL ?? "http://127.0.0.1:8080");
  const port = Number(process.env.PORT ?? 8081);
  let newest = new Map();
  const keep = {
    name: "keep",
    setup(bundler) {
      bundler.onEnd(async ({ errors, outputFiles }) => {
        if (errors.length > 0) return;
        newest = await files(outputFiles);
        console.log(`built; open http://127.0.0.1:${port}/`);
      });
    },
  };
  await (await context({ ...options, plugins: [keep] })).watch();
  const types = { html: "text/html; charset=utf-8", js: "text/javascript", css: "text/css", svg: "image/svg+xml" };
  createServer((incoming, response) => {
    const path = new URL(incoming.url, "http://localhost").pathname;
    const name = path === "/" ? "index.html" : path.replace("/dashboard/", "");
    const file = newest.get(name);
    if (file) {
      response.writeHead(200, { "content-type": types[name.split(".").pop()], "cache-control": "no-store" });
      return response.end(file);
    }
    const headers = { ...incoming.headers, host: target.host };
    const forwarded = request(new URL(incoming.url, target), { method: incoming.method, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    forwarded.on("error", (error) => response.writeHead(502).end(`cannot reach ${target.href}: ${error.message}`));
    response.on("close", () => forwarded.destroy());
    return incoming.pipe(forwarded);
  }).listen(port, "127.0.0.1");
}

if (watches) {
  await watch();
} else {
  const { outputFiles } = await build(options);
  const named = await files(outputFiles);
  await writeAll(named);
  report(named);
}
