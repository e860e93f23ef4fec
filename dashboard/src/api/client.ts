// Requests to the API, with the key of the visitor, and the state of the connection.

import { Store } from "../lib/store";

const KEY = "fairgate.key";
const DEADLINE_MS = 20_000;

export type Query = Record<string, string | number | boolean | null | undefined>;

/** An error that the API returned, or 0 as status if there was no answer. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string | null,
  ) {
    super(message);
  }
}

/** The server's last answer and the begin of its absence, in milliseconds. */
export interface Connection {
  lastAnswer: number | null;
  awaySince: number | null;
}

export const connection = new Store<Connection>({ lastAnswer: null, awaySince: null });

/** True if the server refused a request because the key is missing or not valid. */
export const keyRefused = new Store<boolean>(false);

export function storedKey(): string | null {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}

export function storeKey(key: string | null): void {
  try {
    if (key === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, key);
  } catch {
    // A browser without storage asks for the key again after a reload.
  }
}

/** The URL of a path, relative to the page, so that the dashboard also works below a prefix of a proxy. */
export function url(path: string, query: Query = {}): string {
  const target = new URL(path.replace(/^\//, ""), document.baseURI.split("#")[0]);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") target.searchParams.set(name, String(value));
  }
  return target.href;
}

export function headers(): Record<string, string> {
  const key = storedKey();
  return key ? { authorization: `Bearer ${key}` } : {};
}

export function noteAnswer(): void {
  connection.set({ lastAnswer: Date.now(), awaySince: null });
}

export function noteAbsence(): void {
  const known = connection.get();
  if (known.awaySince === null) connection.set({ ...known, awaySince: Date.now() });
}

interface Options {
  query?: Query;
  body?: unknown;
  signal?: AbortSignal;
}

/** Sends a request to a path below `/ojs/v1`, or to another path of the server if it begins with `//`. */
export async function call<Answer>(method: string, path: string, options: Options = {}): Promise<Answer> {
  const target = path.startsWith("//") ? path.slice(2) : `ojs/v1${path}`;
  const deadline = new AbortController();
  const timer = setTimeout(() => deadline.abort(), DEADLINE_MS);
  options.signal?.addEventListener("abort", () => deadline.abort());
  const body = options.body === undefined ? undefined : JSON.stringify(options.body);
  const sent: Record<string, string> = { accept: "application/json", ...headers() };
  if (body !== undefined) sent["content-type"] = "application/json";
  try {
    const response = await fetch(url(target, options.query), {
      method,
      headers: sent,
      signal: deadline.signal,
      cache: "no-store",
      ...(body === undefined ? {} : { body }),
    });
    const text = await response.text();
    noteAnswer();
    const answer = parse(text);
    if (response.ok) return answer as Answer;
    throw await refusal(response.status, answer);
  } catch (error) {
    if (error instanceof ApiError) throw error;
    if (options.signal?.aborted) throw error;
    noteAbsence();
    throw new ApiError(0, "no_answer", "The server does not answer.", null);
  } finally {
    clearTimeout(timer);
  }
}

export const get = <Answer>(path: string, query: Query = {}, signal?: AbortSignal): Promise<Answer> =>
  call<Answer>("GET", path, signal ? { query, signal } : { query });

/** Like `get`, but returns null if the server does not have the path or the item. */
export async function find<Answer>(path: string, query: Query = {}, signal?: AbortSignal): Promise<Answer | null> {
  try {
    return await get<Answer>(path, query, signal);
  } catch (error) {
    if (error instanceof ApiError && (error.status === 404 || error.status === 405)) return null;
    throw error;
  }
}

/** Percent-encodes a name for a path. */
export const part = (name: string): string => encodeURIComponent(name);

/** Reads the error of an answer. 401 makes the page ask for a key. */
export function refusal(status: number, answer: unknown): ApiError {
  const error = (answer as { error?: { code?: string; message?: string; hint?: string } } | null)?.error ?? {};
  if (status === 401) keyRefused.set(true);
  const message = error.message ?? `The server returned HTTP ${status}.`;
  return new ApiError(status, error.code ?? "unknown", message, error.hint ?? null);
}

function parse(text: string): unknown {
  try {
    return text === "" ? null : JSON.parse(text);
  } catch {
    return null;
  }
}
