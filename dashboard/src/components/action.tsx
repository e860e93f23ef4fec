// Buttons that change something: the right that they need, the confirmation, and the message about the result.

import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { ApiError } from "../api/client";
import { missing, type Right, session } from "../api/session";
import { useStore } from "../lib/store";
import { Dialog } from "./dialog";
import { toast } from "./toast";

/** A confirmation: its question, and the fields that the visitor fills in. */
export interface Confirmation {
  title: string;
  text?: ComponentChildren;
  fields?: Field[];
  /** Label of the button that confirms; that of the action if absent. */
  confirm?: string;
}

export interface Field {
  name: string;
  label: string;
  kind?: "text" | "number" | "select";
  value?: string;
  options?: { value: string; label: string }[];
  help?: string;
  required?: boolean;
  min?: number;
  step?: string;
}

/** The field of every change whose reason the server keeps. */
export const REASON: Field = { name: "reason", label: "Reason", help: "Kept with the change, for whoever reads it later." };

interface Props {
  label: string;
  needs: Right;
  /** Performs the change and returns the message about its result. */
  run: (values: Record<string, string>) => Promise<string>;
  onDone?: () => void;
  confirm?: Confirmation;
  kind?: "plain" | "primary" | "danger";
  /** What the action is about, for screen readers: buttons of a table have the same label. */
  about?: string;
}

export function Action({ label, needs, run, onDone, confirm, kind = "plain", about }: Props) {
  const refused = missing(needs, useStore(session));
  const [asks, setAsks] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const perform = async (values: Record<string, string>) => {
    setBusy(true);
    try {
      toast("done", await run(values));
      setAsks(false);
      onDone?.();
    } catch (error) {
      toast("failed", describe(error));
    } finally {
      setBusy(false);
    }
  };
  const name = about ? `${label} ${about}` : label;
  return (
    <>
      <button
        ref={button}
        type="button"
        class={`button button-${kind}`}
        aria-label={refused ? `${name}: not permitted` : name}
        aria-disabled={refused !== null || isBusy}
        title={refused ?? undefined}
        onClick={() => {
          if (refused) toast("failed", refused);
          else if (!isBusy && confirm) setAsks(true);
          else if (!isBusy) void perform({});
        }}
      >
        {label}
      </button>
      {asks && confirm ? (
        <Dialog
          confirmation={confirm}
          label={confirm.confirm ?? label}
          isDangerous={kind === "danger"}
          isBusy={isBusy}
          onConfirm={(values) => void perform(values)}
          onClose={() => {
            setAsks(false);
            button.current?.focus();
          }}
        />
      ) : null}
    </>
  );
}

/** The message of an error, with the server's advice. */
export function describe(error: unknown): string {
  if (error instanceof ApiError) return error.hint ? `${error.message} ${error.hint}` : error.message;
  return error instanceof Error ? error.message : String(error);
}
