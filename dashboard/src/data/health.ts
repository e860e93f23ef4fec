// The verdict about the server, from its health report.

import { ApiError, get } from "../api/client";
import type { Tone } from "../components/figures";

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

/** Reads the verdict. A server whose store does not respond cannot make a report. */
export async function readVerdict(signal: AbortSignal): Promise<Verdict> {
  try {
    return fromReport(await get<Report>("/admin/health-report", {}, signal));
  } catch (error) {
    if (error instanceof ApiError && error.status === 503) {
      return { tone: "bad", title: "The store does not respond", details: [] };
    }
    throw error;
  }
}
