import { describe, expect, it } from "vitest";
import { silence } from "./silence";
import { flipped } from "./theme";

describe("silence", () => {
  it.each([
    ["live", 1_000, 2_000, "heard"],
    ["live", 1_000, 40_000, "heard"],
    ["live", 1_000, 42_000, "quiet"],
    ["lost", 1_000, 3_000, "heard"],
    ["lost", 1_000, 6_000, "quiet"],
    ["connecting", null, 3_000, "heard"],
    ["connecting", null, 6_000, "quiet"],
    ["lost", null, 6_000, "quiet"],
  ] as const)("%s, heard at %s, now %s: %s", (connection, heardAt, now, expected) => {
    expect(silence(connection, heardAt, now, 0)).toBe(expected);
  });
});

describe("flipping the colours", () => {
  it("always shows the other ones, and follows the system where that is the same", () => {
    expect(flipped("light", "light")).toBe("dark");
    expect(flipped("dark", "light")).toBe("system");
    expect(flipped("dark", "dark")).toBe("light");
    expect(flipped("light", "dark")).toBe("system");
  });
});
