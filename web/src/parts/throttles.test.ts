import { expect, test } from "vitest";
import { slowedBy } from "./throttles";

test.each([
  [null, null],
  ["gpu_idle", null],
  ["gpu_idle,hw_slowdown,sw_power_cap", "hw_slowdown,sw_power_cap"],
])("of %s work is slowed down by %s", (throttled, expected) => {
  expect(slowedBy(throttled)).toBe(expected);
});
