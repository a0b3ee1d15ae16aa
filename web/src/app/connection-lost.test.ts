import { describe, expect, it } from "vitest";
import { isConnectionLost } from "./connection-lost";
import { oppositeTheme } from "./theme";

describe("a lost connection", () => {
  it.each([
    ["live", 1_000, 2_000, false],
    ["live", 1_000, 40_000, false],
    ["live", 1_000, 42_000, true],
    ["lost", 1_000, 3_000, false],
    ["lost", 1_000, 6_000, true],
    ["connecting", null, 3_000, false],
    ["connecting", null, 6_000, true],
    ["lost", null, 6_000, true],
  ] as const)("%s, last message at %s, now %s: %s", (connection, lastMessageAt, now, expected) => {
    expect(isConnectionLost(connection, lastMessageAt, now, 0)).toBe(expected);
  });
});

describe("toggling the theme", () => {
  it("selects the other theme, or the system's if that is the same", () => {
    expect(oppositeTheme("light", "light")).toBe("dark");
    expect(oppositeTheme("dark", "light")).toBe("system");
    expect(oppositeTheme("dark", "dark")).toBe("light");
    expect(oppositeTheme("light", "dark")).toBe("system");
  });
});
