import { expect, test } from "vitest";
import { said } from "./summary";
import { increments, moment, timeMark, written } from "./units";

test("a chart in a sentence", () => {
  expect(said("Use", [0, 60, 120], [{ label: "Use", unit: "ratio", values: [0.1, null, 0.5] }])).toBe(
    "Use over 2 min: now 50 %, lowest 10 %, highest 50 %",
  );
  expect(
    said(
      "Power",
      [0, 60],
      [
        { label: "card", unit: "watts", values: [100, 200] },
        { label: "board", unit: "watts", values: [null, null] },
      ],
      [{ label: "limit 700 W", value: 700 }],
    ),
  ).toBe("Power over 1 min: card now 200 W, lowest 100 W, highest 200 W; board not known. limit 700 W");
});

test("numbers in their units", () => {
  expect(written("ratio", 0.5)).toBe("50 %");
  expect(written("bytes", 2 ** 30)).toBe("1.0 GiB");
  expect(written("celsius", null)).toBe("–");
  expect(written("count", 1.25)).toBe("1.3");
});

test("the grid of bytes goes by powers of two", () => {
  expect(increments("bytes").every((step) => Number.isInteger(Math.log2(step)))).toBe(true);
});

test("marks of time by their distance", () => {
  const noon = new Date(2026, 10, 16, 12, 3, 10).getTime() / 1000;
  expect(timeMark(noon, 10)).toBe("12:03:10");
  expect(timeMark(noon, 300)).toBe("12:03");
  expect(timeMark(noon, 86400)).toBe("16 Nov");
});

test("moments of a long span have their day", () => {
  const noon = new Date(2026, 10, 16, 12, 3, 10).getTime() / 1000;
  expect(moment(noon, 3600)).toBe("12:03:10");
  expect(moment(noon, 86400)).toBe("16 Nov 12:03:10");
});
