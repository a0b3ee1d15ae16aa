import { expect, test } from "vitest";
import { LiveSeries } from "./live-series";

const PAST = { start: 0, step_seconds: 60, fields: { use: [null, 0.1, 0.2, 0.3] } };

test("readings continue the history", () => {
  const live = new LiveSeries();
  live.push(250, { use: 0.5 });
  live.push(260, { use: 0.6 });
  expect(live.merge(PAST, ["use"])).toEqual({
    times: [60, 120, 180, 250, 260],
    fields: { use: [0.1, 0.2, 0.3, 0.5, 0.6] },
  });
});

test("readings replace the history of the same minute", () => {
  const live = new LiveSeries();
  for (const at of [110, 120, 130]) live.push(at, { use: 1 });
  expect(live.merge({ ...PAST, start: -60 }, ["use"]).times).toEqual([0, 110, 120, 130]);
});

test("the same reading is one point", () => {
  const live = new LiveSeries();
  expect(live.push(10, { use: 0.5 })).toBe(true);
  expect(live.push(10, { use: 0.5 })).toBe(false);
  expect(live.push(9, { use: 0.5 })).toBe(false);
  expect(live.length).toBe(1);
});

test("a gap has no line, and the history fills it", () => {
  const live = new LiveSeries();
  live.push(1000, { use: 0.5 });
  live.push(1500, { use: 0.6 });
  expect(live.merge(null, ["use"])).toEqual({
    times: [1000, 1250, 1500],
    fields: { use: [0.5, null, 0.6] },
  });
  const past = { start: 1080, step_seconds: 60, fields: { use: [0.1, 0.2, 0.3, 0.4, 0.5, 0.6] } };
  expect(live.merge(past, ["use"])).toEqual({
    times: [1000, 1080, 1140, 1200, 1260, 1320, 1380, 1500],
    fields: { use: [0.5, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.6] },
  });
});

test("a missing field is a gap", () => {
  const live = new LiveSeries();
  live.push(10, { use: 0.5, power: null });
  live.push(20, { power: 300 });
  expect(live.merge(null, ["use", "power"]).fields).toEqual({ use: [0.5, null], power: [null, 300] });
});

test("the number of points is limited", () => {
  const live = new LiveSeries(2);
  for (const at of [1, 2, 3]) live.push(at, { use: at });
  expect(live.merge(null, ["use"]).times).toEqual([2, 3]);
});

test("unknown values give no point", () => {
  const empty = { start: 0, step_seconds: 60, fields: { use: [null, null] } };
  expect(new LiveSeries().merge(empty, ["use"])).toEqual({ times: [], fields: { use: [] } });
});
