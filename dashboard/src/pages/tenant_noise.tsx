// The evidence about a noisy neighbour, and its throttle.

import { call, part } from "../api/client";
import type { Noise } from "../api/types";
import { Action } from "../components/action";
import { Pill, When } from "../components/figures";
import { Section } from "../components/page";
import { Table } from "../components/table";
import { count, percent, words } from "../lib/format";
import { link } from "../routes";

export function NoiseEvidence({ id, noise, onDone }: { id: string; noise: Noise; onDone: () => void }) {
  const { enabled, noisy, throttled, verdict, throttle } = noise;
  const release = throttled ? (
    <Action
      label="Release"
      needs="admin-all"
      onDone={onDone}
      confirm={{ title: `Release ${id}?`, text: "The throttle ends now, and no other one begins for its usual duration." }}
      run={async () => {
        await call("POST", `/admin/tenants/${part(id)}/noise/reset`);
        return `${id} is not throttled any more.`;
      }}
    />
  ) : null;
  return (
    <Section title="Noisy neighbour" actions={release} note={<Pill state={throttled ? "throttled" : noisy ? "noisy" : "calm"}>{throttled ? "throttled" : noisy ? "noisy" : "calm"}</Pill>}>
      {enabled ? null : <p class="page-note">Detection is off (<code>noisy_neighbors.enabled</code>).</p>}
      {throttle ? (
        <p>
          {words(throttle.action)} since <When time={throttle.since} /> until <When time={throttle.until} />: weight {count(throttle.effective_weight)} in place of {count(throttle.original_weight)}. Reason: {words(throttle.reason)}.
        </p>
      ) : null}
      {verdict && verdict.evidence.length > 0 ? (
        <>
          <p class="page-note">It has {percent(verdict.share)} of the worker time; fair would be {percent(verdict.fair_share)}.</p>
          <Table
            name="Evidence"
            rows={verdict.evidence}
            keyOf={(row) => row.signal}
            columns={[
              { id: "signal", label: "Signal", render: (row) => words(row.signal.replace("_ratio", "")) },
              { id: "value", label: "This tenant", align: "end", render: (row) => <span class="number">{count(row.value)}</span> },
              { id: "other", label: "Compared with", align: "end", render: (row) => <span class="number">{count(row.compared_with)}</span> },
              { id: "ratio", label: "Ratio", align: "end", render: (row) => <span class="number">{count(row.ratio)}</span> },
              { id: "threshold", label: "Threshold", align: "end", render: (row) => <span class="number">{count(row.threshold)}</span> },
              { id: "conclusive", label: "Enough for a throttle", render: (row) => (row.conclusive ? "yes" : "no") },
            ]}
            empty={null}
          />
          {verdict.hurt.length > 0 ? (
            <p class="page-note">
              It harms {verdict.hurt.filter((tenant) => tenant.lost > 0).slice(0, 10).map((tenant, index) => (
                <span key={tenant.tenant_id}>{index > 0 ? ", " : ""}<a href={link(["tenants", tenant.tenant_id])}>{tenant.tenant_id}</a> ({percent(tenant.share)} of fair {percent(tenant.fair_share)})</span>
              ))}.
            </p>
          ) : null}
        </>
      ) : enabled ? (
        <p class="page-note">No signal exceeds its threshold.</p>
      ) : null}
    </Section>
  );
}
