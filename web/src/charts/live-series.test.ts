import { expect, test } from "vitest";
import { LiveSeries } from "./live-series";

const PAST = { start: 0, step_seconds: 60, fields: { use: [null, 0.1, 0.2, 0.3] } };

test("the past is continued by what is seen", () => {
  const live = new LiveSeries();
  live.push(250, { use: 0.5 });
  live.push(260, { use: 0.6 });
  expect(live.joined(PAST, ["use"])).toEqual({
    times: [60, 120, 180, 250, 260],
    fields: { use: [0.1, 0.2, 0.3, 0.5, 0.6] },
  });
});

test("a minute in which something was seen is told by what was seen", () => {
  const live = new LiveSeries();
  for (const at of [110, 120, 130]) live.push(at, { use: 1 });
  expect(live.joined({ ...PAST, start: -60 }, ["use"]).times).toEqual([0, 110, 120, 130]);
});

test("the same reading, asked for again, is one point", () => {
  const live = new LiveSeries();
  expect(live.push(10, { use: 0.5 })).toBe(true);
  expect(live.push(10, { use: 0.5 })).toBe(false);
  expect(live.push(9, { use: 0.5 })).toBe(false);
  expect(live.length).toBe(1);
});

test("no line goes across a silence, and the past fills it", () => {
  const live = new LiveSeries();
  live.push(1000, { use: 0.5 });
  live.push(1500, { use: 0.6 });
  expect(live.joined(null, ["use"])).toEqual({
    times: [1000, 1250, 1500],
    fields: { use: [0.5, null, 0.6] },
  });
  const past = { start: 1080, step_seconds: 60, fields: { use: [0.1, 0.2, 0.3, 0.4, 0.5, 0.6] } };
  expect(live.joined(past, ["use"])).toEqual({
    times: [1000, 1080, 1140, 1200, 1260, 1320, 1380, 1500],
    fields: { use: [0.5, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.6] },
  });
});

test("a field that a reading has not is a gap", () => {
  const live = new LiveSeries();
  live.push(10, { use: 0.5, power: null });
  live.push(20, { power: 300 });
  expect(live.joined(null, ["use", "power"]).fields).toEqual({ use: [0.5, null], power: [null, 300] });
});

test("only so much is kept", () => {
  const live = new LiveSeries(2);
  for (const at of [1, 2, 3]) live.push(at, { use: at });
  expect(live.joined(null, ["use"]).times).toEqual([2, 3]);
});

test("nothing known at all is no point", () => {
  const empty = { start: 0, step_seconds: 60, fields: { use: [null, null] } };
  expect(new LiveSeries().joined(empty, ["use"])).toEqual({ times: [], fields: { use: [] } });
});
