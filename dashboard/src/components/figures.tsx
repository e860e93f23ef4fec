// Small components that show one value: a state, a bar, a figure with a label, a time.

import type { ComponentChildren } from "preact";
import { useNow } from "../api/poll";
import { count, duration, exact, moment, percent, relative, words } from "../lib/format";

export type Tone = "good" | "warn" | "bad" | "busy" | "calm";

const TONES: Record<string, Tone> = {
  running: "good", active: "busy", completed: "good", ok: "good", open: "good", promoted: "good", enabled: "good", blocking: "warn",
  available: "calm", pending: "calm", scheduled: "calm", waiting: "calm", skipped: "calm", shadow: "calm", idle: "calm",
  paused: "warn", quiet: "warn", retryable: "warn", draining: "warn", half_open: "warn", disabled: "warn", held: "warn", blocked: "warn", throttled: "warn",
  stalled: "bad", failed: "bad", discarded: "bad", unhealthy: "bad", closed: "bad", lost_lock: "bad", stale: "bad", noisy: "bad", terminate: "bad",
  cancelled: "calm",
};

/** A state as a word with a mark, so that it does not depend on colour. */
export function Pill({ state, tone, children }: { state: string; tone?: Tone; children?: ComponentChildren }) {
  return <span class={`pill pill-${tone ?? TONES[state] ?? "calm"}`}>{children ?? words(state)}</span>;
}

interface BarProps {
  value: number;
  /** The value at which the bar is full. */
  most: number;
  /** A second value, marked by a line. */
  mark?: number | undefined;
  label: string;
  tone?: Tone;
}

/** A horizontal bar. Its label has the values, for screen readers and as a tooltip. */
export function Bar({ value, most, mark, label, tone = "busy" }: BarProps) {
  const share = (amount: number) => Math.max(0, Math.min(1, most > 0 ? amount / most : 0)) * 100;
  return (
    <span class="bar" role="img" aria-label={label} title={label}>
      {value > 0 ? <span class={`bar-fill bar-${tone}`} style={{ width: `${share(value)}%` }} /> : null}
      {mark === undefined ? null : <span class="bar-mark" style={{ left: `${share(mark)}%` }} />}
    </span>
  );
}

/** The actual share of a tenant against the share that its weight gives it. */
export function ShareBar({ share, expected }: { share: number | null; expected: number | null }) {
  if (share === null) return <span class="dim">–</span>;
  const label = expected === null ? `${percent(share)}` : `${percent(share)} of expected ${percent(expected)}`;
  return (
    <span class="with-bar">
      <Bar value={share} most={1} mark={expected ?? undefined} label={label} />
      <span class="number">{percent(share)}</span>
    </span>
  );
}

interface FigureProps {
  label: string;
  value: ComponentChildren;
  note?: ComponentChildren;
  href?: string;
  tone?: Tone;
  actions?: ComponentChildren;
}

/** A figure with its label; it links to what is behind it. */
export function Figure({ label, value, note, href, tone, actions }: FigureProps) {
  return (
    <div class={`figure ${tone ? `figure-${tone}` : ""}`}>
      <dt>{label}</dt>
      <dd>
        <span class="figure-value">{href ? <a href={href}>{value}</a> : value}</span>
        {note ? <span class="figure-note">{note}</span> : null}
        {actions ? <span class="actions">{actions}</span> : null}
      </dd>
    </div>
  );
}

/** A count, in full as a tooltip, that may link to what it counts. */
export function Count({ value, href }: { value: number | null | undefined; href?: string }) {
  const text = count(value);
  const title = text === exact(value) ? undefined : exact(value);
  if (!value) return <span class="number dim">{text}</span>;
  return href ? <a class="number" href={href} title={title}>{text}</a> : <span class="number" title={title}>{text}</span>;
}

/** A point in time, relative to now. */
export function When({ time }: { time: string | null | undefined }) {
  const now = useNow();
  if (!time) return <span class="dim">–</span>;
  return <time dateTime={time} title={moment(time)}>{relative(time, now)}</time>;
}

/** A duration. */
export function Span({ ms }: { ms: number | null | undefined }) {
  return <span class={ms ? "number" : "number dim"}>{duration(ms)}</span>;
}
