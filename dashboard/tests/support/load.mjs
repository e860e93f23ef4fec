// Loads a TypeScript module of the dashboard into node.
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const source = join(dirname(fileURLToPath(import.meta.url)), "../../src");

export async function load(path) {
  const { outputFiles } = await build({
    entryPoints: [join(source, path)],
    bundle: true,
    format: "esm",
    jsx: "automatic",
    jsxImportSource: "preact",
    write: false,
  });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);
}
