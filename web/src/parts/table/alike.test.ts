import { expect, it } from "vitest";
import { AGES, alike } from "./alike";

const NONE = new Set<string>();

it.each([
  [{ a: 1, b: null }, { a: 1, b: null }, true],
  [{ a: 1 }, { a: 2 }, false],
  [{ a: null }, { a: 0 }, false],
  [{ a: 1 }, { a: 1, b: 2 }, false],
  [{ a: ["x", "y"] }, { a: ["x", "y"] }, true],
  [{ a: ["x", "y"] }, { a: ["x"] }, false],
  [{ a: [{ b: 1 }] }, { a: [{ b: 2 }] }, false],
  [{ a: [] }, { a: {} }, false],
])("%j and %j: %s", (one, other, same) => {
  expect(alike(one, other, NONE)).toBe(same);
});

it("does not see that rows have aged, where that is not shown", () => {
  const one = { node: "a", age_seconds: 1, rows: [{ taken_at: 5 }] };
  const other = { node: "a", age_seconds: 3, rows: [{ taken_at: 9 }] };
  expect(alike(one, other, AGES)).toBe(true);
  expect(alike(one, other, NONE)).toBe(false);
});
