// The caller: role and tenant of the key, and what they permit.

import { Store } from "../lib/store";
import type { CurrentKey } from "./types";
import { find, keyRefused, storeKey, storedKey } from "./client";

/** Null until the server has answered. */
export const session = new Store<CurrentKey | null>(null);

/** The rights that pages and actions need, as in docs/security.md. */
export type Right = "any" | "read" | "read-all" | "operate" | "operate-all" | "produce" | "produce-all" | "admin" | "admin-all";

const OPEN: CurrentKey = { required: false, id: null, name: null, role: "admin", tenant: null };

/** Asks the server for the caller. Throws if the key is refused. */
export async function identify(): Promise<void> {
  const current = await find<CurrentKey>("/admin/keys/current");
  keyRefused.set(false);
  session.set(current ?? OPEN);
}

export async function signIn(key: string): Promise<void> {
  const former = storedKey();
  storeKey(key);
  try {
    await identify();
  } catch (error) {
    storeKey(former);
    throw error;
  }
}

export function signOut(): void {
  storeKey(null);
  session.set(null);
  keyRefused.set(true);
}

/** Returns null if the caller has the right, otherwise the reason why not. */
export function missing(right: Right, caller: CurrentKey | null): string | null {
  if (!caller || right === "any") return null;
  const { role, tenant } = caller;
  const spans = right.endsWith("-all");
  const roles: Record<string, string[]> = {
    read: ["operator", "admin"],
    operate: ["operator", "admin"],
    produce: ["producer", "admin"],
    admin: ["admin"],
  };
  const allowed = roles[right.replace("-all", "")] ?? [];
  if (!allowed.includes(role)) return `The role ${role} of your key does not permit this; ${allowed.join(" or ")} does.`;
  if (spans && tenant !== null) return `Your key is bound to tenant ${tenant}, and this concerns all tenants.`;
  return null;
}
