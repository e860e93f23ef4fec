// Whether the page asks the server for news: not in a hidden tab, and not while the visitor has paused it.

import { Store, useStore } from "../lib/store";

export const paused = new Store<boolean>(false);
const visible = new Store<boolean>(document.visibilityState !== "hidden");

document.addEventListener("visibilitychange", () => visible.set(document.visibilityState !== "hidden"));

export function isLive(): boolean {
  return visible.get() && !paused.get();
}

export function useLive(): boolean {
  const isShown = useStore(visible);
  const isPaused = useStore(paused);
  return isShown && !isPaused;
}
