// Server-sent events from a byte stream. EventSource cannot send a token; fetch can.

export interface Message {
  event: string;
  id: string;
  data: string;
}

// Parses a stream that arrives in chunks of any size.
export class MessageReader {
  private rest = "";
  private event = "message";
  private id = "";
  private data: string[] = [];

  *take(text: string): Generator<Message> {
    this.rest += text;
    let end = this.rest.indexOf("\n");
    let start = 0;
    while (end >= 0) {
      const message = this.line(this.rest.slice(start, end).replace(/\r$/, ""));
      if (message) yield message;
      start = end + 1;
      end = this.rest.indexOf("\n", start);
    }
    this.rest = this.rest.slice(start);
  }

  private line(line: string): Message | null {
    if (line === "") {
      const message = { event: this.event, id: this.id, data: this.data.join("\n") };
      const whole = this.data.length > 0;
      this.event = "message";
      this.data = [];
      return whole ? message : null;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return null; // a comment: keep-alive
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.event = value;
    else if (field === "id") this.id = value;
    else if (field === "data") this.data.push(value);
    return null;
  }
}
