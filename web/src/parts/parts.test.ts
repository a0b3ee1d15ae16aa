import { describe, expect, it } from "vitest";
import type { Event } from "../api/types";
import { secondsSince } from "./age";
import { filled } from "./bar";
import {
  eventPlace,
  eventTime,
  eventTone,
  filterParameters,
  filtersOf,
  kindName,
  matchesFilters,
  mergeEvents,
  shortId,
  textWithoutPlace,
} from "./events";
import { toneOf, words } from "./health";
import { range, sparklinePath } from "./sparkline-path";
import { vendorName } from "./vendor";

const event = (more: Partial<Event>): Event => ({
  id: 1,
  at: 1000,
  cluster: "berlin",
  device: null,
  kind: "node_stale",
  namespace: null,
  node: null,
  pod: null,
  severity: "warning",
  text: "",
  ...more,
});

describe("health", () => {
  it("has a tone for every state, and unknown for new states", () => {
    expect(["ok", "lost", "fresh", "stale", "incompatible", "unread", "other"].map(toneOf)).toEqual([
      "ok",
      "lost",
      "ok",
      "warning",
      "critical",
      "unknown",
      "unknown",
    ]);
  });
  it("has readable names", () => {
    expect(words("hw_slowdown,sw_thermal_slowdown")).toBe("hw slowdown, sw thermal slowdown");
    expect(vendorName("amd")).toBe("AMD");
    expect(vendorName("later")).toBe("later");
  });
});

describe("a bar", () => {
  it("is never longer than its track", () => {
    expect([filled(-1), filled(0.4), filled(7), filled(Number.NaN)]).toEqual([0, 0.4, 1, 0]);
  });
});

describe("an age", () => {
  it("is unknown, or at least 0 if clocks differ", () => {
    expect(secondsSince(null, 5000)).toBeNull();
    expect(secondsSince(3, 5000)).toBe(2);
    expect(secondsSince(9, 5000)).toBe(0);
  });
});

describe("a sparkline", () => {
  const frame = { width: 30, height: 12, min: 0, max: 1 };
  it("has gaps for unknown values", () => {
    expect(sparklinePath([0, 1, null, 1, 0], { ...frame, width: 40 })).toBe(
      "M0.0 11.0L10.0 1.0M30.0 1.0L40.0 11.0",
    );
  });
  it("shows a single value between gaps as a dot", () => {
    expect(sparklinePath([null, 1, null], frame)).toBe("M15.0 1.0h1");
  });
  it("is empty without values", () => {
    expect(sparklinePath([], frame)).toBe("");
    expect(sparklinePath([null, null], frame)).toBe("");
  });
  it("starts at 0 and has a height for equal values", () => {
    expect(range([5, 9, null])).toEqual({ min: 0, max: 9 });
    expect(range([0, 0])).toEqual({ min: 0, max: 1 });
    expect(range([null])).toEqual({ min: 0, max: 1 });
  });
});

describe("events", () => {
  it("link to the most specific object", () => {
    expect(eventPlace(event({})).href).toBe("/clusters/berlin");
    expect(eventPlace(event({ node: "n" })).href).toBe("/nodes/berlin/n");
    expect(eventPlace(event({ node: "n", device: "nvidia:1" })).href).toBe("/devices/berlin/n/nvidia%3A1");
    expect(eventPlace(event({ node: "n", namespace: "ml", pod: "p" })).href).toBe("/pods/berlin/ml/p");
  });
  it("do not repeat the name of their object", () => {
    expect(textWithoutPlace(event({ device: "amd:1", node: "n", text: "amd:1: 3 errors" }))).toBe("3 errors");
    expect(textWithoutPlace(event({ node: "n", text: "n cannot be read: down" }))).toBe(
      "cannot be read: down",
    );
    expect(textWithoutPlace(event({ node: "n", text: "something else" }))).toBe("something else");
  });
  it("shorten long ids", () => {
    expect(shortId("nvidia:GPU-4257b940-0bc0-17c9")).toBe("GPU-4257b940…");
    expect(shortId("ascend:17216A2B-01FC798A-112F")).toBe("17216A2B…");
    expect(shortId("amd:0123456789abcdefghij")).toBe("0123456789ab…");
    expect(shortId("furiosa:npu0")).toBe("npu0");
  });
  it("have a date if it is not today", () => {
    const at = Date.UTC(2026, 10, 16, 12) / 1000;
    expect(eventTime(at, new Date(at * 1000))).not.toContain("Nov");
    expect(eventTime(at, new Date((at + 86_400) * 1000))).toContain("16 Nov");
  });
  it("have a tone", () => {
    expect(eventTone(event({ kind: "device_lost", severity: "critical" }))).toBe("lost");
    expect(eventTone(event({ kind: "node_back", severity: "info" }))).toBe("ok");
    expect(eventTone(event({ kind: "device_new", severity: "info" }))).toBe("unknown");
    expect(kindName("later_kind")).toBe("later kind");
  });
  it("have filters in the API's syntax", () => {
    const filters = filtersOf(
      new URLSearchParams("severity=critical,warning&kind=node_stale&node=a\\,b&span=6 h"),
    );
    expect(filters).toMatchObject({ severity: ["critical", "warning"], kind: ["node_stale"], node: ["a,b"] });
    expect(matchesFilters(event({ severity: "warning", node: "a,b" }), filters)).toBe(true);
    expect(matchesFilters(event({ severity: "info", node: "a,b" }), filters)).toBe(false);
    expect(filterParameters(filters)).toMatchObject({
      severity: ["critical", "warning"],
      node: ["a\\,b"],
      pod: [],
    });
  });
  it("must match every filter", () => {
    const lost = event({ kind: "device_lost", node: "n" });
    expect(matchesFilters(lost, {})).toBe(true);
    expect(matchesFilters(lost, { kind: ["device_lost", "node_stale"], node: [] })).toBe(true);
    expect(matchesFilters(lost, { kind: ["device_lost"], cluster: ["paris"] })).toBe(false);
    expect(matchesFilters(lost, { pod: ["p"] })).toBe(false);
  });
  it("are merged newest first without duplicates, also after a restart of the fleet", () => {
    const old = [event({ id: 8, at: 10 }), event({ id: 9, at: 20 })];
    const live = [event({ id: 1, at: 30 }), event({ id: 9, at: 20 })];
    expect(mergeEvents(old, live, 10).map(({ id }) => id)).toEqual([1, 9, 8]);
    expect(mergeEvents(old, live, 2).map(({ id }) => id)).toEqual([1, 9]);
  });
});
