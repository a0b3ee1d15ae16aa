import { expect, test } from "vitest";
import { extremes, historyStart, isolatedPoints, latest, timeRange, timesOf } from "./points";

test("computes times from steps", () => {
  expect(timesOf(600, 60, 3)).toEqual([600, 660, 720]);
  expect(timesOf(600, 60, 0)).toEqual([]);
});

test("extremes ignore unknown values", () => {
  expect(extremes([null, 0.2, 0.1, 0.9, null])).toEqual({ least: 0.1, most: 0.9 });
  expect(extremes([null, null])).toEqual({ least: null, most: null });
  expect(extremes([0])).toEqual({ least: 0, most: 0 });
});

test("the latest value must be recent", () => {
  expect(latest([0, 60, 120], [1, 2, 3])).toBe(3);
  expect(latest([0, 60, 120], [1, 2, null])).toBe(2);
  expect(latest([0, 60, 600], [1, 2, null])).toBeNull();
  expect(latest([], [])).toBeNull();
});

test("finds values between gaps", () => {
  expect(isolatedPoints([1, null, 2, null, 3, 4])).toEqual([0, 2]);
  expect(isolatedPoints([1, 2])).toEqual([]);
  expect(isolatedPoints([5])).toEqual([0]);
});

test.each([
  { name: "no data", times: [], span: 3600, drawn: [0, 1] },
  { name: "a short history fills the width", times: [1000, 1600], span: 3600, drawn: [1000, 1600] },
  { name: "at least five minutes", times: [1000, 1060], span: 3600, drawn: [760, 1060] },
  { name: "a long history is cut", times: [0, 10_000], span: 3600, drawn: [6400, 10_000] },
  { name: "without a span", times: [0, 10_000], span: null, drawn: [0, 10_000] },
])("time range: $name", ({ times, span, drawn }) => {
  expect(timeRange(times, span)).toEqual(drawn);
});

test.each([
  { name: "of nothing", times: [], span: 3600, first: -1, since: null },
  { name: "short", times: [0, 1000, 1600], span: 3600, first: 1, since: 1000 },
  { name: "long enough", times: [0, 3540], span: 3600, first: 0, since: null },
  { name: "all of it", times: [0, 60], span: null, first: 0, since: null },
])("history shorter than the span: $name", ({ times, span, first, since }) => {
  expect(historyStart(span, times, first)).toBe(since);
});
