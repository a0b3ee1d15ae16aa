import { expect, test } from "vitest";
import { heatTone } from "./heat";

test.each([
  [null, 90, "plain"],
  [89.9, null, "plain"],
  [90, null, "warning"],
  [130, undefined, "warning"],
  [89.9, 0, "plain"],
  [95, 110, "plain"],
  [84.9, 90, "plain"],
  [85, 90, "warning"],
  [90, 90, "critical"],
])("%s °C where it slows down at %s is %s", (at, slowdown, expected) => {
  expect(heatTone(at, slowdown)).toBe(expected);
});
