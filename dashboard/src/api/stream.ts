// Event streams, read with `fetch` so that they carry the key, and opened again when they end.

import { useEffect, useState } from "preact/hooks";
import { EventParser, type ServerEvent } from "../lib/server_events";
import { isLive, useLive } from "./live";
import { ApiError, headers, noteAbsence, noteAnswer, type Query, refusal, url } from "./client";

const FIRST_DELAY_MS = 1000;
const LONGEST_DELAY_MS = 15_000;

/** Reads a stream until `signal` ends it. Returns the id of its last event. */
async function read(path: string, last: string, signal: AbortSignal, onEvent: (event: ServerEvent) => void): Promise<string> {
  const sent: Record<string, string> = { accept: "text/event-stream", ...headers() };
  if (last) sent["last-event-id"] = last;
  const response = await fetch(url(`ojs/v1${path}`), { headers: sent, signal, cache: "no-store" });
  if (!response.ok || !response.body) throw refusal(response.status, await response.json().catch(() => null));
  noteAnswer();
  const [reader, decoder, parser] = [response.body.getReader(), new TextDecoder(), new EventParser()];
  let newest = last;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return newest;
    for (const event of parser.push(decoder.decode(value, { stream: true }))) {
      newest = event.id || newest;
      onEvent(event);
    }
  }
}

export interface StreamState {
  isOpen: boolean;
  error: ApiError | null;
}

/** Follows a stream while the page is shown and not paused. A null path means no stream. */
export function useStream(path: string | null, query: Query, onEvent: (event: ServerEvent) => void): StreamState {
  const [state, setState] = useState<StreamState>({ isOpen: false, error: null });
  const live = useLive();
  const target = path === null ? null : withQuery(path, query);
  useEffect(() => {
    if (target === null || !live) {
      setState({ isOpen: false, error: null });
      return undefined;
    }
    const ended = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let last = "";
    const open = async (delay: number) => {
      let next = FIRST_DELAY_MS;
      try {
        setState({ isOpen: true, error: null });
        last = await read(target, last, ended.signal, onEvent);
      } catch (error) {
        if (ended.signal.aborted) return;
        const known = error instanceof ApiError ? error : null;
        if (!known) noteAbsence();
        setState({ isOpen: false, error: known });
        // A refused request stays refused; only overload and absence pass.
        if (known && known.status !== 429 && known.status < 500) return;
        next = Math.min(delay * 2, LONGEST_DELAY_MS);
      }
      if (!ended.signal.aborted && isLive()) timer = setTimeout(() => void open(next), next);
    };
    void open(FIRST_DELAY_MS);
    return () => {
      clearTimeout(timer);
      ended.abort();
    };
  }, [target, live]);
  return state;
}

function withQuery(path: string, query: Query): string {
  const set = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = set.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`).join("&");
  return text === "" ? path : `${path}?${text}`;
}
