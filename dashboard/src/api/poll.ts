// Data that is read again at an interval while the page is live.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "./client";
import { isLive, useLive } from "./live";

/** Interval of pages that people watch. */
export const FAST_MS = 2000;
/** Interval of pages whose data is costly or changes slowly. */
export const SLOW_MS = 5000;
/** The part of the time that a page may keep the server busy with one of its questions: a tenth. */
const REST = 9;

export interface Polled<Data> {
  data: Data | null;
  error: ApiError | null;
  /** Reads the data now. */
  refresh: () => void;
}

interface Known<Data> {
  key: string;
  data: Data | null;
  error: ApiError | null;
}

/**
 * Reads data once, and again `every` milliseconds after each answer, or later if the answer took long. `key` identifies what is read: when it changes, the
 * data of the former key is dropped. After a failure the last data stays.
 */
export function usePoll<Data>(key: string, read: (signal: AbortSignal) => Promise<Data>, every = FAST_MS): Polled<Data> {
  const [known, setKnown] = useState<Known<Data>>({ key, data: null, error: null });
  const [asked, setAsked] = useState(0);
  const live = useLive();
  const reading = useRef(read);
  reading.current = read;
  // The question that was answered last, so that pausing a page does not ask it again.
  const answered = useRef("");
  const question = `${asked} ${key}`;
  useEffect(() => {
    const ended = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const round = async () => {
      const begun = Date.now();
      try {
        const data = await reading.current(ended.signal);
        if (ended.signal.aborted) return;
        answered.current = question;
        setKnown({ key, data, error: null });
      } catch (error) {
        if (ended.signal.aborted) return;
        const failure = error instanceof ApiError ? error : new ApiError(0, "page_error", String(error), null);
        setKnown((last) => ({ key, data: last.key === key ? last.data : null, error: failure }));
      }
      if (!ended.signal.aborted && isLive()) timer = setTimeout(() => void round(), Math.max(every, REST * (Date.now() - begun)));
    };
    // A paused page still shows what the visitor opens or changes.
    if (live || (answered.current !== question && document.visibilityState !== "hidden")) void round();
    return () => {
      clearTimeout(timer);
      ended.abort();
    };
  }, [key, every, live, asked]);
  const refresh = useCallback(() => setAsked((times) => times + 1), []);
  const current = known.key === key;
  return { data: current ? known.data : null, error: current ? known.error : null, refresh };
}

/** The current time, for ages that grow between answers. It stands still while the page is paused. */
export function useNow(): number {
  const [now, setNow] = useState(() => Date.now());
  const live = useLive();
  useEffect(() => {
    if (!live) return undefined;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [live]);
  return now;
}
