// A value that components follow.

import { useEffect, useState } from "preact/hooks";

export class Store<Value> {
  private readers = new Set<(value: Value) => void>();

  constructor(private current: Value) {}

  get(): Value {
    return this.current;
  }

  set(value: Value): void {
    if (Object.is(value, this.current)) return;
    this.current = value;
    for (const reader of [...this.readers]) reader(value);
  }

  follow(reader: (value: Value) => void): () => void {
    this.readers.add(reader);
    return () => void this.readers.delete(reader);
  }
}

/** Returns the value of a store, and renders the component again when it changes. */
export function useStore<Value>(store: Store<Value>): Value {
  const [value, setValue] = useState(() => store.get());
  useEffect(() => {
    setValue(() => store.get());
    return store.follow((next) => setValue(() => next));
  }, [store]);
  return value;
}
