// The fields of a rate limit, and the limit that they describe.

import type { Window } from "../api/types";
import type { Field } from "../components/action";

interface Quota {
  concurrency?: number;
  rate?: Window;
  throttle?: Window;
}

export function limitFields(quota: Quota | undefined): Field[] {
  const text = (value: number | undefined) => (value === undefined ? "" : String(value));
  return [
    { name: "concurrency", label: "Active jobs at once", kind: "number", min: 0, step: "1", value: text(quota?.concurrency), help: "0 starts nothing." },
    { name: "rate", label: "Starts per period", kind: "number", min: 1, step: "1", value: text(quota?.rate?.limit) },
    { name: "rate_period", label: "Period of the starts", value: quota?.rate?.period ?? "PT1M", help: "ISO 8601, such as PT1M for a minute." },
    { name: "throttle", label: "Evenly spaced starts per period", kind: "number", min: 1, step: "1", value: text(quota?.throttle?.limit) },
    { name: "throttle_period", label: "Period of the spaced starts", value: quota?.throttle?.period ?? "PT1M" },
  ];
}

/** Reads the fields. Empty ones set no limit. */
export function limitOf(values: Record<string, string>): Quota {
  const quota: Quota = {};
  if (values.concurrency) quota.concurrency = Number(values.concurrency);
  if (values.rate) quota.rate = { limit: Number(values.rate), period: values.rate_period ?? "PT1M" };
  if (values.throttle) quota.throttle = { limit: Number(values.throttle), period: values.throttle_period ?? "PT1M" };
  if (Object.keys(quota).length === 0) throw new Error("Set at least one limit.");
  return quota;
}
