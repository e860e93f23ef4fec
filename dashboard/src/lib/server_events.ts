// Reading of server-sent events from a byte stream. `EventSource` cannot send an API key, so the page uses `fetch`.

export interface ServerEvent {
  id: string;
  event: string;
  data: string;
}

/** Splits text into server-sent events. A chunk may end anywhere, so the rest is kept for the next one. */
export class EventParser {
  private rest = "";
  private id = "";
  private event = "";
  private data: string[] = [];

  push(chunk: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    const text = this.rest + chunk;
    // A line may end with CR LF, and the LF may come with the next chunk.
    const complete = text.endsWith("\r") ? text.slice(0, -1) : text;
    const lines = complete.split(/\r\n|\n|\r/);
    this.rest = (lines.pop() ?? "") + text.slice(complete.length);
    for (const line of lines) {
      const event = this.line(line);
      if (event) events.push(event);
    }
    return events;
  }

  private line(line: string): ServerEvent | null {
    if (line === "") {
      const event = { id: this.id, event: this.event || "message", data: this.data.join("\n") };
      const isEmpty = this.data.length === 0;
      this.event = "";
      this.data = [];
      return isEmpty ? null : event;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.data.push(value);
    else if (field === "event") this.event = value;
    else if (field === "id") this.id = value;
    return null;
  }
}
