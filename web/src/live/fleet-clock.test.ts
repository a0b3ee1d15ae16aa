import { describe, expect, it } from "vitest";
import { clampOffset, clockKnown, recordFleetTime, toFleetTime } from "./fleet-clock";

describe("the fleet's clock", () => {
  it("is the browser's clock while that is plausible", () => {
    expect(clampOffset(0, 100, 99_900, 100_050)).toBe(0);
    expect(clampOffset(-30, 100, 99_900, 100_050)).toBe(-30);
  });
  it("is corrected by responses, also slow ones", () => {
    expect(clampOffset(0, 7300, 99_900, 100_100)).toBe(7_200_000 - 100);
    expect(clampOffset(7_200_000, 7300, 95_000, 115_000)).toBe(7_200_000);
    expect(clampOffset(0, 100, 7_299_900, 7_300_100)).toBe(-7_200_000 + 100);
  });
  it("ignores invalid times", () => {
    recordFleetTime(undefined, 0, 0);
    recordFleetTime("1", 0, 0);
    expect(clockKnown.value).toBe(false);
    recordFleetTime(5000, 1_000_000, 1_000_000);
    expect(clockKnown.value).toBe(true);
    expect(toFleetTime(1_000_000)).toBe(5_000_000);
  });
});
