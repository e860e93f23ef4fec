// Changes of a tenant's weight and limits.

import { call, part } from "../api/client";
import type { Tenant, TenantLimits } from "../api/types";
import { Action, REASON } from "../components/action";
import { count } from "../lib/format";

interface Props {
  terms: Tenant;
  onDone: () => void;
}

export function ChangeWeight({ terms, onDone }: Props) {
  const { tenant_id: id, fairness_weight, priority_boost, limits } = terms;
  return (
    <Action
      label="Change weight"
      needs="admin-all"
      onDone={onDone}
      confirm={{
        title: `Change the weight of ${id}`,
        text: "It applies to waiting jobs with the next round or fetch. More specific weights win: the webhook's, and those of a rule or a queue.",
        fields: [{ name: "weight", label: "Weight", kind: "number", value: String(fairness_weight), required: true, min: 0, step: "any", help: "Other tenants have weight 1, unless they are set otherwise." }, REASON],
        confirm: "Change",
      }}
      run={async ({ weight = "", reason }) => {
        // The request replaces all settings, so it repeats those that stay.
        const body = { fairness_weight: Number(weight), priority_boost, limits, ...(reason ? { reason } : {}) };
        await call("PUT", `/admin/tenants/${part(id)}`, { body });
        return `The weight of ${id} is ${count(Number(weight))}.`;
      }}
    />
  );
}

const LIMITS = [
  { name: "max_concurrency", label: "Active jobs", help: "0 pauses the tenant." },
  { name: "max_queue_depth", label: "Waiting jobs", help: "Further jobs are refused with 429." },
  { name: "max_scheduled", label: "Scheduled jobs", help: "" },
] as const;

export function ChangeLimits({ terms, onDone }: Props) {
  const { tenant_id: id, limits } = terms;
  const text = (value: number | null | undefined) => (value === null || value === undefined ? "" : String(value));
  return (
    <Action
      label="Change limits"
      needs="admin-all"
      onDone={onDone}
      confirm={{
        title: `Change the limits of ${id}`,
        text: "An empty field removes the limit.",
        fields: [
          ...LIMITS.map(({ name, label, help }) => ({ name, label, kind: "number" as const, value: text(limits[name]), min: 0, step: "1", ...(help ? { help } : {}) })),
          { name: "rate", label: "Enqueued jobs per period", kind: "number", value: text(limits.max_enqueue_rate?.limit), min: 1, step: "1" },
          { name: "period", label: "Period", value: limits.max_enqueue_rate?.period ?? "PT1M", help: "ISO 8601, such as PT1M for a minute." },
          REASON,
        ],
        confirm: "Change",
      }}
      run={async (values) => {
        const number = (name: string) => (values[name] ? Number(values[name]) : null);
        const rate = number("rate");
        const wanted: TenantLimits = {
          max_concurrency: number("max_concurrency"),
          max_queue_depth: number("max_queue_depth"),
          max_scheduled: number("max_scheduled"),
          max_enqueue_rate: rate === null ? null : { limit: rate, period: values.period ?? "PT1M" },
        };
        const body = { ...wanted, ...(values.reason ? { reason: values.reason } : {}) };
        await call("PUT", `/admin/tenants/${part(id)}/limits`, { body });
        return `The limits of ${id} are changed.`;
      }}
    />
  );
}
