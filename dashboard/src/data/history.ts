// Jobs per tenant over time: those promoted, accumulated from the rounds that the server reports, and those finished, from its
// history.

import type { Round } from "../api/types";

/** The tenants that have a line of their own. The others share one. */
export const MOST_LINES = 6;
/** The points that are kept. When there are more, every second one is dropped. */
const MOST_POINTS = 600;
/** Name of the line of all other tenants. */
export const OTHERS = "other tenants";

/** A point: the total of each tenant so far. */
interface Point {
  at: number;
  totals: Map<string, number>;
}

export interface Line {
  tenant: string;
  values: number[];
}

export interface History {
  /** Seconds since 1970, as charts want them. */
  times: number[];
  lines: Line[];
}

/** Builds lines from points: one for each of the tenants with the highest totals, and one for all others. */
function linesOf(points: Point[], totals: Map<string, number>): Line[] {
  const tenants = [...totals].sort(([a, x], [b, y]) => y - x || a.localeCompare(b)).map(([tenant]) => tenant);
  const own = tenants.slice(0, MOST_LINES);
  const rest = tenants.slice(MOST_LINES);
  const value = (point: Point, tenant: string) => point.totals.get(tenant) ?? 0;
  const lines = own.map((tenant) => ({ tenant, values: points.map((point) => value(point, tenant)) }));
  if (rest.length > 0) {
    const sum = (point: Point) => rest.reduce((total, tenant) => total + value(point, tenant), 0);
    lines.push({ tenant: OTHERS, values: points.map(sum) });
  }
  return lines;
}

/** A sample of the server's history: what happened within an interval. */
export interface Sample {
  at: string;
  tenants: { tenant_id: string; completed: number }[];
}

/** Adds up the jobs that the tenants completed. The server names only the busiest tenants of each interval. */
export function finished(samples: Sample[]): History {
  const totals = new Map<string, number>();
  const points = samples.map(({ at, tenants }) => {
    for (const { tenant_id, completed } of tenants) totals.set(tenant_id, (totals.get(tenant_id) ?? 0) + completed);
    return { at: Date.parse(at) / 1000, totals: new Map(totals) };
  });
  return { times: points.map((point) => point.at), lines: totals.size > 0 ? linesOf(points, totals) : [] };
}

/** Totals per tenant. Each round counts once, in whatever order the answers arrive. */
export class Accumulator {
  private seen = 0;
  private totals = new Map<string, number>();
  private points: Point[] = [];

  /** Adds rounds that are new. The server lists the newest first. */
  add(rounds: Round[]): boolean {
    const fresh = rounds.filter((round) => (round.round ?? 0) > this.seen && round.at !== undefined);
    fresh.sort((one, other) => (one.round ?? 0) - (other.round ?? 0));
    for (const round of fresh) {
      this.seen = round.round ?? this.seen;
      // A round in shadow promotes nothing; it reports what it would have done.
      if (round.outcome === "shadow" || (this.points.length > 0 && round.promoted === 0)) continue;
      for (const { tenant_id, jobs } of round.served) {
        this.totals.set(tenant_id, (this.totals.get(tenant_id) ?? 0) + jobs);
      }
      this.points.push({ at: Date.parse(round.at ?? "") / 1000, totals: new Map(this.totals) });
    }
    if (this.points.length > MOST_POINTS) {
      const last = this.points.length - 1;
      this.points = this.points.filter((_, index) => index % 2 === 0 || index === last);
    }
    return fresh.length > 0;
  }

  /** Returns the lines of the tenants with the most jobs, and one for all others. */
  history(now: number): History {
    const points = this.points.length > 0 ? [...this.points, { at: now / 1000, totals: this.totals }] : [];
    return { times: points.map((point) => point.at), lines: linesOf(points, this.totals) };
  }
}

const accumulators = new Map<string, Accumulator>();

/**
 * Returns the history of a rule with these rounds added to it. It lives as long as the page is open, and it begins with the
 * rounds that the server has kept.
 */
export function dispatched(rule: string, rounds: Round[], now: number): History {
  let accumulator = accumulators.get(rule);
  if (!accumulator) {
    accumulator = new Accumulator();
    accumulators.set(rule, accumulator);
  }
  accumulator.add(rounds);
  return accumulator.history(now);
}
