// The filters of a list. They are part of the page's address, so a filtered list can be shared.

import { useEffect, useId, useState } from "preact/hooks";
import { setQuery } from "../routes";

export interface Filter {
  name: string;
  label: string;
  value: string;
  options?: { value: string; label: string }[];
  placeholder?: string;
}

/** Filters that apply when the visitor submits them or leaves a field. A change returns to the first page. */
export function Filters({ filters }: { filters: Filter[] }) {
  return (
    <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
      {filters.map((filter) => <Input key={filter.name} filter={filter} />)}
    </form>
  );
}

function Input({ filter }: { filter: Filter }) {
  const { name, label, value, options, placeholder } = filter;
  const id = useId();
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  const apply = (next: string) => {
    if (next.trim() !== value) setQuery({ [name]: next.trim() || null, cursor: null, offset: null });
  };
  return (
    <div class="filter">
      <label for={id}>{label}</label>
      {options ? (
        <select id={id} value={value} onChange={(event) => apply(event.currentTarget.value)}>
          {options.map((option) => <option key={option.value} value={option.value}>{option.label}</option>)}
        </select>
      ) : (
        <input
          id={id}
          type="search"
          value={typed}
          placeholder={placeholder}
          autocomplete="off"
          spellcheck={false}
          onInput={(event) => setTyped(event.currentTarget.value)}
          onChange={(event) => apply(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter") apply(event.currentTarget.value);
          }}
        />
      )}
    </div>
  );
}
