// The verdict about the server: from its health report if it has one, otherwise from its health check alone.

import { ApiError, call, get } from "../api/client";
import type { Health } from "../api/types";
import type { Tone } from "../components/figures";
import { plural } from "../lib/format";
import { has } from "./features";

const REPORT = "/admin/health-report";

/** The members of a health report that the page shows. */
export interface Report {
  verdict: "ok" | "notice" | "warning" | "critical";
  summary: string;
  findings: Finding[];
}

export interface Finding {
  urgency: "notice" | "warning" | "critical";
  subject: { kind: "rule" | "queue" | "limit" | "webhook" | "main_queue"; name: string };
  sentence: string;
  next_step: string;
  since?: string;
}

/** A detail of the verdict: what is wrong, what to do, and the page about it. */
export interface Detail {
  text: string;
  advice?: string;
  path?: string[];
}

export interface Verdict {
  tone: Tone;
  title: string;
  details: Detail[];
}

const TONES: Record<string, Tone> = { ok: "good", notice: "busy", warning: "warn", critical: "bad" };

/** The page about the subject of a finding. */
function pathOf({ kind, name }: Finding["subject"]): string[] | null {
  if (kind === "rule" || kind === "webhook") return ["rules", name];
  if (kind === "queue") return ["queues", name];
  return kind === "limit" ? ["limits"] : null;
}

export function fromReport({ verdict, summary, findings }: Report): Verdict {
  const details = findings.map(({ sentence, next_step, subject }) => {
    const path = pathOf(subject);
    return { text: sentence, advice: next_step, ...(path ? { path } : {}) };
  });
  return { tone: TONES[verdict] ?? "bad", title: summary, details };
}

/** Judges by the health check: the store answers, and no worker is silent. */
export function fromHealth(health: Health): Verdict {
  const details: Detail[] = [];
  if (health.backend.error) details.push({ text: health.backend.error });
  if (health.workers.stale > 0) details.push({ text: `${plural(health.workers.stale, "worker")} sent no heartbeat in time.`, path: ["workers"] });
  if (health.queues.paused > 0) details.push({ text: `${plural(health.queues.paused, "queue")} paused.`, path: ["queues"] });
  if (health.status !== "ok") return { tone: "bad", title: "The store does not respond", details };
  return { tone: health.workers.stale > 0 ? "warn" : "good", title: "The server and its store respond", details };
}

/** Reads the verdict. `GET /health` also has a body if the store does not respond, but with status 503. */
export async function readVerdict(signal: AbortSignal): Promise<Verdict> {
  if (await has(`/ojs/v1${REPORT}`)) return fromReport(await get<Report>(REPORT, {}, signal));
  try {
    return fromHealth(await call<Health>("GET", "//health", { signal }));
  } catch (error) {
    if (error instanceof ApiError && error.status === 503) {
      return { tone: "bad", title: "The store does not respond", details: [] };
    }
    throw error;
  }
}
