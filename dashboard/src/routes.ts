// The pages of the dashboard and their addresses: `#/tenants/acme?sort=jobs`.

import { useEffect, useState } from "preact/hooks";
import type { Right } from "./api/session";

export interface Location {
  path: string[];
  query: Record<string, string>;
}

/** A page of the navigation. */
export interface Section {
  id: string;
  title: string;
  needs: Right;
  group: "Fairness" | "Work" | "Operations";
}

export const SECTIONS: Section[] = [
  { id: "overview", title: "Overview", needs: "read-all", group: "Fairness" },
  { id: "rules", title: "Rules", needs: "read-all", group: "Fairness" },
  { id: "tenants", title: "Tenants", needs: "read", group: "Fairness" },
  { id: "shadow", title: "Shadow", needs: "read-all", group: "Fairness" },
  { id: "jobs", title: "Jobs", needs: "any", group: "Work" },
  { id: "queues", title: "Queues", needs: "read", group: "Work" },
  { id: "workflows", title: "Workflows", needs: "read", group: "Work" },
  { id: "crons", title: "Crons", needs: "read-all", group: "Work" },
  { id: "dead-letters", title: "Dead letters", needs: "read", group: "Work" },
  { id: "workers", title: "Pools and workers", needs: "read-all", group: "Operations" },
  { id: "limits", title: "Limits", needs: "read", group: "Operations" },
  { id: "events", title: "Events", needs: "read", group: "Operations" },
];

/** Reads the part of an address after `#`. */
export function parse(hash: string): Location {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const decode = (text: string) => {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  };
  return {
    path: path.split("/").filter((part) => part !== "").map(decode),
    query: Object.fromEntries(new URLSearchParams(query)),
  };
}

/** Builds the address of a page. Empty values of the query are left out. */
export function link(path: string[], query: Record<string, string | number | null | undefined> = {}): string {
  const set = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const search = new URLSearchParams(set.map(([name, value]): [string, string] => [name, String(value)])).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${search === "" ? "" : `?${search}`}`;
}

export function useLocation(): Location {
  const [hash, setHash] = useState(() => window.location.hash);
  useEffect(() => {
    const follow = () => setHash(window.location.hash);
    window.addEventListener("hashchange", follow);
    return () => window.removeEventListener("hashchange", follow);
  }, []);
  return parse(hash);
}

/** Changes some values of the query of the current page. */
export function setQuery(change: Record<string, string | number | null>): void {
  const { path, query } = parse(window.location.hash);
  window.location.hash = link(path, { ...query, ...change });
}
