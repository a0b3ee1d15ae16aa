import { expect, test } from "vitest";
import { amperes, hertz, oneShare, perSecond, volts, yesNo } from "./units";

test("formats units", () => {
  expect(hertz(1_980_000_000)).toBe("1.98 GHz");
  expect(hertz(810_000_000)).toBe("810 MHz");
  expect(perSecond(2 ** 30)).toBe("1.0 GiB/s");
  expect(volts(0.85)).toBe("0.85 V");
  expect(amperes(12.34)).toBe("12.3 A");
});

test("one of four shares is a quarter of the device", () => {
  expect(oneShare(4)).toBe("25 %");
  expect(oneShare(null)).toBe("the whole device");
});

test("unknown values are neither 0 nor no", () => {
  for (const write of [hertz, perSecond, volts, amperes]) expect(write(null)).toBe("–");
  expect(yesNo(null)).toBeNull();
  expect(yesNo(false)).toBe("no");
});
