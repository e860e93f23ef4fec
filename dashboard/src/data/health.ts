// The verdict about the server: from its health report if it has one, otherwise from its health check alone.

import { ApiError, call, get } from "../api/client";
import type { Health } from "../api/types";
import type { Tone } from "../components/figures";
import { plural } from "../lib/format";
import { has } from "./features";

const REPORT = "/admin/health-report";

/** The members of a report that the page shows. All are optional, so that a report may grow. */
export interface Report {
  status?: string;
  verdict?: string;
  summary?: string;
  findings?: Finding[];
  problems?: Finding[];
  checks?: Finding[];
}

interface Finding {
  status?: string;
  state?: string;
  severity?: string;
  summary?: string;
  message?: string;
}

export interface Verdict {
  tone: Tone;
  title: string;
  details: string[];
}

const GOOD = ["ok", "healthy", "good", "passed", "pass", "green", "info"];
const WARN = ["warn", "warning", "degraded", "attention", "yellow"];

export function tone(status: string | undefined): Tone {
  const word = (status ?? "").toLowerCase();
  return GOOD.includes(word) ? "good" : WARN.includes(word) ? "warn" : "bad";
}

/** Judges by a report; null if it has no status. */
export function fromReport(report: Report): Verdict | null {
  const status = report.status ?? report.verdict;
  if (status === undefined) return null;
  const found = report.findings ?? report.problems ?? report.checks ?? [];
  const isBad = ({ status: word, state, severity }: Finding) => tone(severity ?? word ?? state) !== "good";
  const details = found.filter(isBad).map(({ summary, message }) => summary ?? message ?? "");
  const verdict = tone(status);
  const titles: Partial<Record<Tone, string>> = { good: "Healthy", warn: "Needs attention", bad: "Unhealthy" };
  return { tone: verdict, title: report.summary ?? titles[verdict] ?? status, details: details.filter((text) => text !== "") };
}

/** Judges by the health check: the store answers, and no worker is silent. */
export function fromHealth(health: Health): Verdict {
  const details: string[] = [];
  if (health.backend.error) details.push(health.backend.error);
  if (health.workers.stale > 0) details.push(`${plural(health.workers.stale, "worker")} sent no heartbeat in time.`);
  if (health.queues.paused > 0) details.push(`${plural(health.queues.paused, "queue")} paused.`);
  if (health.status !== "ok") return { tone: "bad", title: "The store does not respond", details };
  return { tone: health.workers.stale > 0 ? "warn" : "good", title: "The server and its store respond", details };
}

/** Reads the verdict. `GET /health` also has a body if the store does not respond, but with status 503. */
export async function readVerdict(signal: AbortSignal): Promise<Verdict> {
  if (await has(`/ojs/v1${REPORT}`)) {
    const verdict = fromReport(await get<Report>(REPORT, {}, signal));
    if (verdict) return verdict;
  }
  try {
    return fromHealth(await call<Health>("GET", "//health", { signal }));
  } catch (error) {
    if (error instanceof ApiError && error.status === 503) {
      return { tone: "bad", title: "The store does not respond", details: [] };
    }
    throw error;
  }
}
