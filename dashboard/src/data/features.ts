// The routes of the server, from its OpenAPI document. Asking for a route that does not exist would log an error in the
// browser, and a server of another version may lack some.

import { call } from "../api/client";

interface Document {
  paths: Record<string, Record<string, unknown>>;
}

let known: Promise<Set<string>> | null = null;

/** Returns true if the server has the path, with `{id}` and `{name}` as in the document. */
export async function has(path: string): Promise<boolean> {
  known ??= call<Document>("GET", "//openapi.json").then(
    (document) => new Set(Object.keys(document.paths)),
    (error: unknown) => {
      known = null;
      throw error;
    },
  );
  return (await known).has(path);
}
