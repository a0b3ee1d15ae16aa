import { expect, test, vi } from "vitest";

vi.mock("uplot", () => ({ default: class {} })); // needs a browser

const { labelTops, axisRange } = await import("./plot");

test.each([
  { name: "ratios use 0 to 1", values: [0.2, 0.9], floor: 0, ceiling: 1, limits: [], drawn: [0, 1] },
  {
    name: "values above 100 % are visible",
    values: [0, 2],
    floor: 0,
    ceiling: 1,
    limits: [],
    drawn: [0, 2.16],
  },
  {
    name: "limits are always visible",
    values: [40, 50],
    floor: 0,
    ceiling: null,
    limits: [100],
    drawn: [0, 116],
  },
  { name: "no data", values: [null, null], floor: 0, ceiling: null, limits: [], drawn: [0, 1] },
  { name: "all zero", values: [0, 0], floor: 0, ceiling: null, limits: [], drawn: [0, 1] },
] as const)("axis range: $name", ({ values, floor, ceiling, limits, drawn }) => {
  const given = limits.map((value) => ({ label: "", value, tone: "critical" as const }));
  const [least, most] = axisRange(values[0], values[1], { floor, ceiling, limits: given });
  expect(least).toBe(drawn[0]);
  expect(most).toBeCloseTo(drawn[1], 6);
});

test.each([
  [[20], [6]],
  [
    [20, 23],
    [6, 25],
  ],
  [
    [20, 20, 22],
    [6, 22, 36],
  ],
  [
    [20, 80],
    [6, 82],
  ],
])("labels of limits at %j do not overlap", (lines, tops) => {
  expect(labelTops(lines, 14)).toEqual(tops);
});
