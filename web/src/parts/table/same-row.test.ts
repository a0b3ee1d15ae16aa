import { expect, it } from "vitest";
import { AGE_FIELDS, isSameRow } from "./same-row";

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
  expect(isSameRow(one, other, NONE)).toBe(same);
});

it("ignores the age of rows if it is not shown", () => {
  const one = { node: "a", age_seconds: 1, rows: [{ taken_at: 5 }] };
  const other = { node: "a", age_seconds: 3, rows: [{ taken_at: 9 }] };
  expect(isSameRow(one, other, AGE_FIELDS)).toBe(true);
  expect(isSameRow(one, other, NONE)).toBe(false);
});
