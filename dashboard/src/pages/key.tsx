// The page that asks for an API key.

import { useState } from "preact/hooks";
import { storedKey } from "../api/client";
import { signIn } from "../api/session";
import { describe } from "../components/action";

export function KeyPage() {
  const [key, setKey] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [message, setMessage] = useState(storedKey() ? "The key that this tab used is not valid any more." : null);
  const submit = async () => {
    setBusy(true);
    try {
      await signIn(key.trim());
    } catch (error) {
      setMessage(describe(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <main class="alone">
      <form class="key-form" onSubmit={(event) => { event.preventDefault(); void submit(); }}>
        <h1><span class="brand-mark" aria-hidden="true" />fairgate</h1>
        <p>This server needs an API key. It stays in this tab of your browser, until you close it.</p>
        {message ? <div class="notice notice-bad" role="alert">{message}</div> : null}
        <div class="field">
          <label for="key">API key</label>
          <input id="key" type="password" autocomplete="off" spellcheck={false} required value={key} onInput={(event) => setKey(event.currentTarget.value)} />
          <small>Create one with <code>fairgate keys create ops --role operator</code>.</small>
        </div>
        <button type="submit" class="button button-primary" disabled={isBusy}>{isBusy ? "Checking…" : "Continue"}</button>
      </form>
    </main>
  );
}
