// The frame of a page: title, loading, errors, sections, filters and the controls of paged lists.

import { Component, type ComponentChildren } from "preact";
import type { ApiError } from "../api/client";
import type { Polled } from "../api/poll";
import type { Pagination } from "../api/types";
import { exact } from "../lib/format";
import { link, setQuery } from "../routes";

interface HeadProps {
  title: ComponentChildren;
  back?: { href: string; label: string };
  note?: ComponentChildren;
  actions?: ComponentChildren;
}

export function Head({ title, back, note, actions }: HeadProps) {
  return (
    <header class="page-head">
      {back ? <a class="back" href={back.href}>← {back.label}</a> : null}
      <div class="page-title">
        <h1 tabIndex={-1}>{title}</h1>
        {actions ? <div class="actions">{actions}</div> : null}
      </div>
      {note ? <p class="page-note">{note}</p> : null}
    </header>
  );
}

export function Section({ title, note, actions, children }: { title: string; note?: ComponentChildren; actions?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section class="section">
      <div class="section-head">
        <h2>{title}</h2>
        {note ? <span class="section-note">{note}</span> : null}
        {actions ? <div class="actions">{actions}</div> : null}
      </div>
      {children}
    </section>
  );
}

/** Shows data once it is there. A failure shows above data that is still known. */
export function Loaded<Data>({ from, children }: { from: Polled<Data>; children: (data: Data) => ComponentChildren }) {
  const { data, error } = from;
  return (
    <>
      {error && error.status !== 401 && !(data !== null && error.status === 0) ? <Failure error={error} /> : null}
      {data !== null ? children(data) : error ? null : <Loading />}
    </>
  );
}

export function Loading() {
  return <p class="loading" role="status">Loading…</p>;
}

export function Failure({ error }: { error: ApiError }) {
  const title = error.status === 403 ? "Your key does not permit this" : error.status === 404 ? "Not found" : "Cannot load this";
  return (
    <div class="notice notice-bad" role="alert">
      <strong>{title}.</strong> {error.message} {error.hint}
    </div>
  );
}

/** What a list shows without items, with the next step. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <>
      <p class="empty-title">{title}</p>
      {children ? <p class="empty-text">{children}</p> : null}
    </>
  );
}

/** The controls of a list that is paged by offset. */
export function Pager({ pagination, shown }: { pagination: Pagination; shown: number }) {
  const { offset = 0, limit, total, has_more, truncated } = pagination;
  if (offset === 0 && !has_more) return null;
  return (
    <nav class="pager" aria-label="Pages of the list">
      <button type="button" class="button" disabled={offset === 0} onClick={() => setQuery({ offset: Math.max(0, offset - limit) || null })}>Previous</button>
      <span>{exact(offset + 1)}–{exact(offset + shown)}{total === undefined ? "" : ` of ${truncated ? "more than " : ""}${exact(total)}`}</span>
      <button type="button" class="button" disabled={!has_more} onClick={() => setQuery({ offset: offset + limit })}>Next</button>
    </nav>
  );
}

/** The controls of a list that is paged by cursor: the API goes forward only, the browser's history goes back. */
export function CursorPager({ pagination, isFirst }: { pagination: Pagination; isFirst: boolean }) {
  const next = pagination.has_more ? pagination.next_cursor : undefined;
  if (isFirst && !next) return null;
  return (
    <nav class="pager" aria-label="Pages of the list">
      <button type="button" class="button" disabled={isFirst} onClick={() => setQuery({ cursor: null })}>First page</button>
      <button type="button" class="button" disabled={isFirst} onClick={() => window.history.back()}>Previous</button>
      <button type="button" class="button" disabled={!next} onClick={() => next && setQuery({ cursor: next })}>Next</button>
    </nav>
  );
}

/** Keeps the failure of one page from taking the others along. */
export class Boundary extends Component<{ children: ComponentChildren }, { message: string | null }> {
  override state = { message: null as string | null };

  static override getDerivedStateFromError(error: unknown) {
    return { message: error instanceof Error ? error.message : String(error) };
  }

  override render() {
    const { message } = this.state;
    if (message === null) return this.props.children;
    return (
      <div class="notice notice-bad" role="alert">
        <strong>This page failed.</strong> {message}{" "}
        <button type="button" class="button" onClick={() => this.setState({ message: null })}>Try again</button>{" "}
        <a href={link(["overview"])}>Go to the overview</a>
      </div>
    );
  }
}
