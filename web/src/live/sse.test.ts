import { describe, expect, test } from "vitest";
import { MessageReader } from "./sse";

const WHOLE =
  'retry: 3000\n\nevent: hello\nid: ab-1\ndata: {"a":1}\n\n: still here\n\nevent: change\r\nid: ab-2\r\ndata: one\r\ndata: two\r\n\r\n';

describe("server-sent events", () => {
  test.each([1, 2, 3, 7, 1000])("are parsed from chunks of %i characters", (size) => {
    const reader = new MessageReader();
    const messages = [];
    for (let at = 0; at < WHOLE.length; at += size) messages.push(...reader.take(WHOLE.slice(at, at + size)));
    expect(messages).toEqual([
      { event: "hello", id: "ab-1", data: '{"a":1}' },
      { event: "change", id: "ab-2", data: "one\ntwo" },
    ]);
  });

  test("without data are ignored", () => {
    expect([...new MessageReader().take("event: change\n\n")]).toEqual([]);
  });
});
