// A table of live data. Its rows stay put until the visitor sorts them; on a phone each row becomes a card.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { compare, keepOrder, type Sorting } from "../lib/order";

export interface Column<Row> {
  id: string;
  label: string;
  render: (row: Row) => ComponentChildren;
  /** The value by which the page sorts its rows. */
  value?: (row: Row) => number | string | null;
  /** The name by which the server sorts all rows, in place of `value`. */
  serverSort?: string;
  align?: "end";
}

interface Props<Row> {
  /** The name of the table, for screen readers. */
  name: string;
  columns: Column<Row>[];
  rows: Row[];
  keyOf: (row: Row) => string;
  empty: ComponentChildren;
  /** The column by which the server sorts, and the change of it. */
  server?: { sort: string; onSort: (sort: string) => void };
  /** Identifies the list: another one begins with an order of its own. */
  list?: string;
}

export function Table<Row>({ name, columns, rows, keyOf, empty, server, list = "" }: Props<Row>) {
  const [sorting, setSorting] = useState<Sorting | null>(null);
  const order = useRef<string[]>([]);
  const asked = `${list}|${server?.sort ?? ""}|${sorting?.column ?? ""}|${sorting?.descending ?? ""}`;
  const sorted = useRef("");
  const byKey = new Map(rows.map((row): [string, Row] => [keyOf(row), row]));
  if (sorted.current !== asked || order.current.length === 0) {
    const value = columns.find((column) => column.id === sorting?.column)?.value;
    const wanted = value && sorting ? [...rows].sort((a, b) => compare(value(a), value(b), sorting.descending)) : rows;
    order.current = wanted.map(keyOf);
    sorted.current = asked;
  } else {
    order.current = keepOrder(order.current, [...byKey.keys()]);
  }
  useEffect(() => setSorting(null), [list]);
  if (rows.length === 0) return <div class="empty">{empty}</div>;
  const sort = (column: Column<Row>) => {
    sorted.current = "";
    if (column.serverSort && server) return server.onSort(column.serverSort);
    const again = sorting?.column === column.id;
    const isNumber = rows.some((row) => typeof column.value?.(row) === "number");
    return setSorting({ column: column.id, descending: again ? !sorting.descending : isNumber });
  };
  return (
    // Scrollable regions need the focus, so that the keyboard can scroll them.
    <div class="table-scroll" role="region" aria-label={name} tabIndex={0}>
      <table role="table" aria-label={name}>
        <thead role="rowgroup">
          <tr role="row">
            {columns.map((column) => (
              <th key={column.id} role="columnheader" scope="col" class={column.align} aria-sort={ariaSort(column, sorting, server?.sort)}>
                {column.value || (column.serverSort && server) ? (
                  <button type="button" class="sort" onClick={() => sort(column)}>
                    {column.label}
                    <span aria-hidden="true" class="sort-mark">{mark(ariaSort(column, sorting, server?.sort))}</span>
                  </button>
                ) : (
                  column.label
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {order.current.map((key) => {
            const row = byKey.get(key);
            return row === undefined ? null : (
              <tr role="row" key={key}>
                {columns.map((column) => (
                  <td key={column.id} role="cell" class={column.align} data-label={column.label}>{column.render(row)}</td>
                ))}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

type Direction = "ascending" | "descending" | "none" | undefined;

function ariaSort<Row>(column: Column<Row>, sorting: Sorting | null, sort: string | undefined): Direction {
  if (column.serverSort) return sort === column.serverSort ? (column.align === "end" ? "descending" : "ascending") : undefined;
  if (!column.value) return undefined;
  if (sorting?.column !== column.id) return "none";
  return sorting.descending ? "descending" : "ascending";
}

function mark(direction: Direction): string {
  return direction === "descending" ? "↓" : direction === "ascending" ? "↑" : "";
}
