import { describe, expect, it } from "vitest";
import { byFleet, clockKnown, heardAtFleet, narrowed } from "./fleet-clock";

describe("the fleet's clock", () => {
  it("is the reader's while that may be right", () => {
    expect(narrowed(0, 100, 99_900, 100_050)).toBe(0);
    expect(narrowed(-30, 100, 99_900, 100_050)).toBe(-30);
  });
  it("is learnt from answers, however slow they are", () => {
    expect(narrowed(0, 7300, 99_900, 100_100)).toBe(7_200_000 - 100);
    expect(narrowed(7_200_000, 7300, 95_000, 115_000)).toBe(7_200_000);
    expect(narrowed(0, 100, 7_299_900, 7_300_100)).toBe(-7_200_000 + 100);
  });
  it("is not taken from what is no time", () => {
    heardAtFleet(undefined, 0, 0);
    heardAtFleet("1", 0, 0);
    expect(clockKnown.value).toBe(false);
    heardAtFleet(5000, 1_000_000, 1_000_000);
    expect(clockKnown.value).toBe(true);
    expect(byFleet(1_000_000)).toBe(5_000_000);
  });
});
