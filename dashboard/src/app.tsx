// The frame of the dashboard: navigation, the state of the connection, and the page that the address names.

import type { ComponentChild } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, connection, keyRefused } from "./api/client";
import { paused } from "./api/live";
import { useNow } from "./api/poll";
import { identify, missing, session, signOut } from "./api/session";
import { Boundary, Empty, Failure, Loading } from "./components/page";
import { Toasts } from "./components/toast";
import { relative } from "./lib/format";
import { useStore } from "./lib/store";
import { KeyPage } from "./pages/key";
import { pageOf } from "./pages";
import { link, type Location, SECTIONS, useLocation } from "./routes";

const RETRY_MS = 3000;

export function App() {
  const caller = useStore(session);
  const isRefused = useStore(keyRefused);
  const [failure, setFailure] = useState<ApiError | null>(null);
  useEffect(() => {
    if (caller || isRefused) return undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = () =>
      identify().then(
        () => setFailure(null),
        (error: unknown) => {
          setFailure(error instanceof ApiError ? error : new ApiError(0, "page_error", String(error), null));
          if (!keyRefused.get()) timer = setTimeout(() => void ask(), RETRY_MS);
        },
      );
    void ask();
    return () => clearTimeout(timer);
  }, [caller, isRefused]);
  if (isRefused) return <><KeyPage /><Toasts /></>;
  if (!caller) return <main class="alone">{failure ? <Failure error={failure} /> : <Loading />}</main>;
  return <Shell />;
}

function Shell() {
  const location = useLocation();
  const main = useRef<HTMLElement>(null);
  const [isOpen, setOpen] = useState(false);
  const place = location.path.join("/");
  const isFirst = useRef(true);
  useEffect(() => {
    setOpen(false);
    if (!isFirst.current) {
      // Screen readers announce the new page, and the keyboard continues there.
      main.current?.querySelector<HTMLElement>("h1")?.focus({ preventScroll: true });
      window.scrollTo(0, 0);
    }
    isFirst.current = false;
  }, [place]);
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>Skip to content</a>
      <header class="top">
        <a class="brand" href={link([])}><span class="brand-mark" aria-hidden="true" />fairgate</a>
        <button type="button" class="button menu" aria-expanded={isOpen} aria-controls="navigation" onClick={() => setOpen(!isOpen)}>Menu</button>
        <Status />
      </header>
      <Navigation location={location} isOpen={isOpen} />
      <main id="main" ref={main} tabIndex={-1}>
        <Away />
        <Boundary key={place}><Page location={location} /></Boundary>
      </main>
      <Toasts />
    </div>
  );
}

function Navigation({ location, isOpen }: { location: Location; isOpen: boolean }) {
  const caller = useStore(session);
  const current = location.path[0] ?? start(caller?.tenant ?? null, missing("read-all", caller) !== null);
  const groups = [...new Set(SECTIONS.map((section) => section.group))];
  return (
    <nav id="navigation" class={isOpen ? "side side-open" : "side"} aria-label="Pages">
      {groups.map((group) => {
        const sections = SECTIONS.filter((section) => section.group === group && missing(section.needs, caller) === null);
        return sections.length === 0 ? null : (
          <div key={group} class="side-group">
            <h2>{group}</h2>
            <ul>
              {sections.map(({ id, title }) => (
                <li key={id}>
                  <a href={link([id])} aria-current={current === id ? "page" : undefined}>{id === "tenants" && caller?.tenant ? "Your tenant" : title}</a>
                </li>
              ))}
            </ul>
          </div>
        );
      })}
      <div class="side-foot">
        {caller?.required ? (
          <p>
            Key <strong>{caller.name}</strong>, {caller.role}{caller.tenant ? ` of ${caller.tenant}` : ""}
            <button type="button" class="button" onClick={signOut}>Use another key</button>
          </p>
        ) : <p>No API key needed.</p>}
        <p><a href="docs">API in the browser</a></p>
      </div>
    </nav>
  );
}

/** The section that an address without a path shows. */
function start(tenant: string | null, isNarrow: boolean): string {
  if (!isNarrow) return "overview";
  return tenant && missing("read", session.get()) === null ? "tenants" : "jobs";
}

function Page({ location }: { location: Location }): ComponentChild {
  const caller = useStore(session);
  const [first = start(caller?.tenant ?? null, missing("read-all", caller) !== null), ...rest] = location.path;
  const section = SECTIONS.find((known) => known.id === first);
  useEffect(() => {
    document.title = `${rest[0] ?? section?.title ?? "Not found"} · fairgate`;
  }, [first, rest[0]]);
  if (!section) {
    return <div class="empty"><h1>No such page</h1><p>Choose one in the navigation.</p></div>;
  }
  const refused = missing(section.needs, caller);
  if (refused) {
    return <div class="empty"><h1>{section.title}</h1><Empty title="Your key does not show this page">{refused}</Empty></div>;
  }
  return pageOf(first, rest, location.query);
}

/** The state of the connection, and the switch that pauses the page. */
function Status() {
  const isPaused = useStore(paused);
  const { awaySince } = useStore(connection);
  const [state, text] = isPaused ? ["warn", "Paused"] : awaySince !== null ? ["bad", "No answer"] : ["good", "Live"];
  return (
    <div class="status">
      <span class={`pill pill-${state}`} role="status">{text}</span>
      <button type="button" class="button" aria-pressed={isPaused} onClick={() => paused.set(!isPaused)}>
        {isPaused ? "Continue" : "Pause"}
      </button>
    </div>
  );
}

/** Shown while the server is away, so that nobody takes old data for new. */
function Away() {
  const { awaySince, lastAnswer } = useStore(connection);
  const now = useNow();
  if (awaySince === null) return null;
  const age = lastAnswer === null ? "" : ` The data below is from ${relative(new Date(lastAnswer).toISOString(), now)}.`;
  return <div class="notice notice-bad" role="alert"><strong>The server does not answer.</strong>{age} The page tries again.</div>;
}
