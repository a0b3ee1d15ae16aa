import { expect, test } from "vitest";
import { describeChart } from "./summary";
import { formatValue, increments, moment, timeMark } from "./units";

test("describes a chart in a sentence", () => {
  expect(
    describeChart("Use", [0, 60, 120], [{ label: "Use", unit: "ratio", values: [0.1, null, 0.5] }]),
  ).toBe("Use over 2 min: now 50 %, lowest 10 %, highest 50 %");
  expect(
    describeChart(
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

test("formats numbers with units", () => {
  expect(formatValue("ratio", 0.5)).toBe("50 %");
  expect(formatValue("bytes", 2 ** 30)).toBe("1.0 GiB");
  expect(formatValue("celsius", null)).toBe("–");
  expect(formatValue("count", 1.25)).toBe("1.3");
});

test("grid lines of bytes are powers of two", () => {
  expect(increments("bytes").every((step) => Number.isInteger(Math.log2(step)))).toBe(true);
});

test("formats time labels by their distance", () => {
  const noon = new Date(2026, 10, 16, 12, 3, 10).getTime() / 1000;
  expect(timeMark(noon, 10)).toBe("12:03:10");
  expect(timeMark(noon, 300)).toBe("12:03");
  expect(timeMark(noon, 86400)).toBe("16 Nov");
});

test("times of a long span have a date", () => {
  const noon = new Date(2026, 10, 16, 12, 3, 10).getTime() / 1000;
  expect(moment(noon, 3600)).toBe("12:03:10");
  expect(moment(noon, 86400)).toBe("16 Nov 12:03:10");
});
