// All tenants, searched, sorted and paged by the server.

import { get } from "../api/client";
import { session } from "../api/session";
import { SLOW_MS, usePoll } from "../api/poll";
import type { Page, Tenant as TenantData } from "../api/types";
import { Count, Pill } from "../components/figures";
import { Filters } from "../components/filter";
import { Empty, Head, Loaded, Pager } from "../components/page";
import { Table } from "../components/table";
import { limitsOf } from "../data/limited";
import { count } from "../lib/format";
import { useStore } from "../lib/store";
import { link, setQuery } from "../routes";
import { Tenant } from "./tenant";

const LIMIT = 50;

export function Tenants({ query }: { query: Record<string, string> }) {
  const own = useStore(session)?.tenant;
  return own ? <Tenant id={own} /> : <AllTenants query={query} />;
}

function AllTenants({ query }: { query: Record<string, string> }) {
  const { prefix = "", configured = "", sort = "jobs" } = query;
  const offset = Number(query.offset ?? 0) || 0;
  const key = `tenants ${prefix} ${configured} ${sort} ${offset}`;
  const tenants = usePoll(key, (signal) => get<Page<TenantData>>("/admin/tenants", { prefix, configured, sort, offset, limit: LIMIT }, signal), SLOW_MS);
  const jobs = (tenant: TenantData, state: string) => link(["jobs"], { tenant: tenant.tenant_id, state });
  return (
    <>
      <Head title="Tenants" note="Tenants that have jobs, or settings of their own." />
      <Filters
        filters={[
          { name: "prefix", label: "Id begins with", value: prefix, placeholder: "acme" },
          { name: "configured", label: "Settings", value: configured, options: [{ value: "", label: "All tenants" }, { value: "true", label: "With own settings" }, { value: "false", label: "Without own settings" }] },
        ]}
      />
      <Loaded from={tenants}>
        {({ items, pagination }) => (
          <>
            <Table
              name="Tenants"
              list={key}
              rows={items}
              keyOf={(row) => row.tenant_id}
              server={{ sort, onSort: (next) => setQuery({ sort: next, offset: null }) }}
              columns={[
                { id: "tenant", label: "Tenant", serverSort: "name", render: (row) => <a href={link(["tenants", row.tenant_id])}>{row.tenant_id}</a> },
                { id: "weight", label: "Weight", align: "end", serverSort: "weight", render: (row) => <a class="number" href={link(["tenants", row.tenant_id])}>{count(row.fairness_weight)}</a> },
                { id: "waiting", label: "Waiting", align: "end", serverSort: "depth", render: (row) => <Count value={row.jobs.pending + row.jobs.available} href={jobs(row, row.jobs.pending > 0 ? "pending" : "available")} /> },
                { id: "active", label: "Active", align: "end", serverSort: "active", render: (row) => <Count value={row.jobs.active} href={jobs(row, "active")} /> },
                { id: "retryable", label: "To retry", align: "end", render: (row) => <Count value={row.jobs.retryable} href={jobs(row, "retryable")} /> },
                { id: "total", label: "All jobs", align: "end", serverSort: "jobs", render: (row) => <Count value={row.total_jobs} href={link(["jobs"], { tenant: row.tenant_id })} /> },
                { id: "limited", label: "Limited by", render: (row) => <LimitedBy tenant={row} /> },
                { id: "source", label: "Settings", render: (row) => <span class="dim">{row.tier ?? row.source}</span> },
              ]}
              empty={
                prefix ? (
                  <Empty title={`No tenant begins with “${prefix}”`}>Ids are compared from their beginning, with upper and lower case.</Empty>
                ) : (
                  <Empty title="No tenant yet">A job names its tenant in <code>meta.tenant_id</code> or the header <code>X-OJS-Tenant</code>.</Empty>
                )
              }
            />
            <Pager pagination={pagination} shown={items.length} />
          </>
        )}
      </Loaded>
    </>
  );
}

function LimitedBy({ tenant }: { tenant: TenantData }) {
  const reached = limitsOf(tenant).filter((limit) => limit.isReached);
  if (reached.length === 0) return <span class="dim">–</span>;
  return <>{reached.map(({ limit, text }) => <Pill key={limit} state="held">{text}</Pill>)}</>;
}
