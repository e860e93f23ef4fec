// Short messages about the results of actions.

import { Store, useStore } from "../lib/store";

interface Toast {
  id: number;
  kind: "done" | "failed";
  text: string;
}

const SHOWN_MS = { done: 5000, failed: 12_000 };
const MOST = 4;

const toasts = new Store<Toast[]>([]);
let newest = 0;

export function toast(kind: Toast["kind"], text: string): void {
  newest += 1;
  const id = newest;
  toasts.set([...toasts.get(), { id, kind, text }].slice(-MOST));
  setTimeout(() => close(id), SHOWN_MS[kind]);
}

function close(id: number): void {
  toasts.set(toasts.get().filter((shown) => shown.id !== id));
}

export function Toasts() {
  const shown = useStore(toasts);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {shown.map(({ id, kind, text }) => (
        <div key={id} class={`toast toast-${kind}`}>
          <span class="toast-mark" aria-hidden="true">{kind === "done" ? "✓" : "!"}</span>
          <span>{text}</span>
          <button type="button" class="quiet" aria-label="Close message" onClick={() => close(id)}>×</button>
        </div>
      ))}
    </div>
  );
}
