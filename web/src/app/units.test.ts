import { expect, test } from "vitest";
import { bytes, celsius, duration, energy, percent, took, watts } from "./units";

test.each([
  [percent(null), "–"],
  [percent(0), "0 %"],
  [percent(0.004), "<1 %"],
  [percent(0.996), "100 %"],
  [bytes(undefined), "–"],
  [bytes(0), "0 B"],
  [bytes(1536), "1.5 KiB"],
  [bytes(85_899_345_920), "80 GiB"],
  [watts(431.6), "432 W"],
  [watts(999.4), "999 W"],
  [watts(999.6), "1.0 kW"],
  [watts(2_716), "2.7 kW"],
  [watts(43_160), "43.2 kW"],
  [watts(144_000), "144 kW"],
  [watts(4_316_000), "4.32 MW"],
  [energy(3600), "1.0 Wh"],
  [energy(7.2e9), "2.00 MWh"],
  [celsius(null), "–"],
  [celsius(66.4), "66 °C"],
  [duration(59.4), "59 s"],
  [duration(3599), "59 min"],
  [duration(3660), "1 h 1 min"],
  [duration(90_000), "1 d 1 h"],
  [took(null), "–"],
  [took(0), "0 ms"],
  [took(0.0002), "1 ms"],
  [took(0.0124), "12 ms"],
  [took(1.44), "1.4 s"],
  [took(125), "2 min"],
])("%s", (shown, expected) => {
  expect(shown).toBe(expected);
});
