import { describe, expect, it } from "vitest";
import { DESTINATIONS, destinationOf, GROUPS } from "./destinations";
import { actionOf, isTyping, type Pressed } from "./keys";

const press = (key: string, more: Partial<Pressed> = {}): Pressed => ({
  key,
  modified: false,
  typing: false,
  open: false,
  ...more,
});

describe("keys", () => {
  it("open every destination after g", () => {
    for (const { key, view } of DESTINATIONS) {
      expect(actionOf(press("g"), false)).toEqual({ does: "wait" });
      expect(actionOf(press(key), true)).toEqual({ does: "go", view });
    }
  });
  it("have one letter for each destination", () => {
    expect(new Set(DESTINATIONS.map(({ key }) => key)).size).toBe(DESTINATIONS.length);
  });
  it("keep their own action after g if no destination has the letter", () => {
    expect(actionOf(press("p"), true)).toEqual({ does: "go", view: "pods" });
    expect(actionOf(press("p"), false)).toEqual({ does: "pause" });
    expect(actionOf(press("/"), true)).toEqual({ does: "search" });
    expect(actionOf(press("g"), true)).toEqual({ does: "wait" });
  });
  it.each([
    ["/", "search"],
    ["?", "help"],
    ["t", "theme"],
    ["p", "pause"],
  ])("%s does %s", (key, does) => {
    expect(actionOf(press(key), false)).toEqual({ does });
  });
  it.each([[{ modified: true }], [{ typing: true }], [{ open: true }]])("are ignored with %o", (more) => {
    for (const key of ["g", "/", "?", "t", "p"]) expect(actionOf(press(key, more), false)).toBeNull();
    expect(actionOf(press("n", more), true)).toBeNull();
  });
  it.each([
    ["INPUT", "text", true],
    ["INPUT", "checkbox", false],
    ["INPUT", "radio", false],
    ["SELECT", "select-one", true],
    ["BUTTON", "button", false],
    ["A", "", false],
  ])("%s %s is typing: %s", (tagName, type, typing) => {
    expect(isTyping({ tagName, type } as unknown as EventTarget)).toBe(typing);
  });
});

describe("destinations", () => {
  it("map detail views to their list", () => {
    expect(destinationOf("device")).toBe("devices");
    expect(destinationOf("cluster")).toBe("clusters");
    expect(destinationOf("map")).toBe("map");
  });
  it("appear once in the groups", () => {
    expect(GROUPS.flatMap(({ places }) => places)).toHaveLength(
      new Set(DESTINATIONS.map(({ view }) => view)).size,
    );
  });
});
