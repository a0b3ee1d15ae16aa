import { expect, test } from "vitest";
import { FAULTS, isHarmless } from "./throttles";

test.each([
  ["gpu_idle", true],
  ["applications_clocks_setting", true],
  ["hw_slowdown", false],
  ["sw_power_cap", false],
])("%s is harmless: %s", (reason, expected) => {
  expect(isHarmless(reason)).toBe(expected);
});

test("no fault is harmless", () => {
  expect(FAULTS.filter(isHarmless)).toEqual([]);
});
