// The dialog that confirms a change.

import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { Confirmation, Field } from "./action";

interface Props {
  confirmation: Confirmation;
  label: string;
  isDangerous: boolean;
  isBusy: boolean;
  onConfirm: (values: Record<string, string>) => void;
  onClose: () => void;
}

export function Dialog({ confirmation, label, isDangerous, isBusy, onConfirm, onClose }: Props) {
  const { title, text, fields = [] } = confirmation;
  const id = useId();
  const dialog = useRef<HTMLDialogElement>(null);
  // The fields are uncontrolled by the page, so that new data does not overwrite what the visitor types.
  const [values, setValues] = useState(() => Object.fromEntries(fields.map((field) => [field.name, field.value ?? ""])));
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} aria-labelledby={`${id}-title`} onClose={onClose}>
      <form
        method="dialog"
        onSubmit={(event) => {
          event.preventDefault();
          onConfirm(values);
        }}
      >
        <h2 id={`${id}-title`}>{title}</h2>
        {text ? <p>{text}</p> : null}
        {fields.map((field) => (
          <Input
            key={field.name}
            id={`${id}-${field.name}`}
            field={field}
            value={values[field.name] ?? ""}
            onChange={(value) => setValues((known) => ({ ...known, [field.name]: value }))}
          />
        ))}
        <div class="dialog-actions">
          <button type="button" class="button" onClick={() => dialog.current?.close()}>Cancel</button>
          <button type="submit" class={`button ${isDangerous ? "button-danger" : "button-primary"}`} disabled={isBusy}>
            {isBusy ? "Working…" : label}
          </button>
        </div>
      </form>
    </dialog>
  );
}

interface InputProps {
  id: string;
  field: Field;
  value: string;
  onChange: (value: string) => void;
}

function Input({ id, field, value, onChange }: InputProps) {
  const { kind = "text", label, help, options = [], required = false, min, step } = field;
  const described = help ? { "aria-describedby": `${id}-help` } : {};
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {kind === "select" ? (
        <select id={id} value={value} {...described} onChange={(event) => onChange(event.currentTarget.value)}>
          {options.map((option) => <option key={option.value} value={option.value}>{option.label}</option>)}
        </select>
      ) : (
        <input
          id={id}
          {...(kind === "number" ? { type: "number" as const, min, step } : { type: "text" as const })}
          value={value}
          required={required}
          autocomplete="off"
          {...described}
          onInput={(event) => onChange(event.currentTarget.value)}
        />
      )}
      {help ? <small id={`${id}-help`}>{help}</small> : null}
    </div>
  );
}
