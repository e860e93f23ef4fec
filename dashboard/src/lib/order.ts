// The order of rows while their data changes: rows stay where they are until the visitor sorts them.

export interface Sorting {
  column: string;
  descending: boolean;
}

/** Returns the keys in the former order, without those that have gone and followed by those that are new. */
export function keepOrder(former: string[], keys: string[]): string[] {
  const present = new Set(keys);
  const kept = former.filter((key) => present.has(key));
  const known = new Set(kept);
  return [...kept, ...keys.filter((key) => !known.has(key))];
}

/** Compares two values of a column. Missing values come last in either direction. */
export function compare(one: number | string | null, other: number | string | null, descending: boolean): number {
  if (one === null || other === null) return (one === null ? 1 : 0) - (other === null ? 1 : 0);
  const sign = descending ? -1 : 1;
  if (typeof one === "number" && typeof other === "number") return sign * (one - other);
  return sign * String(one).localeCompare(String(other), "en", { numeric: true });
}
