import { expect, test } from "vitest";
import { needsStore } from "./history";

test.each([
  ["fleet", "24 h", false],
  ["cluster", "6 h", false],
  ["device", "1 h", false],
  ["device", "6 h", true],
  ["pod", "24 h", true],
] as const)("history of a %s: %s needs a store: %s", (scope, span, expected) => {
  expect(needsStore(scope, span)).toBe(expected);
});
