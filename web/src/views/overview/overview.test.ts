import { describe, expect, it } from "vitest";
import type {
  ClusterView,
  DeviceRow,
  HealthReport,
  IdlePods,
  NodeRow,
  SourceView,
  SummaryRow,
} from "../../api/types";
import { clusterStatus, sourceStatus } from "../clusters/status";
import { attention, type OverviewData, tallies } from "./attention";
import { allocatedRatio, healthParts } from "./sums";

const device = (index: number, more: Partial<DeviceRow>) =>
  ({
    cluster: "berlin",
    node: "n1",
    id: `nvidia:${index}`,
    index,
    model: "H100",
    health: "ok",
    health_reason: null,
    health_action: null,
    temperature_celsius: 60,
    temperature_slowdown_celsius: 90,
    throttled: null,
    unusual: null,
    ...more,
  }) as DeviceRow;
const node = (name: string, state: string) =>
  ({ cluster: "berlin", node: name, state, reason: "agent_down", age_seconds: 90 }) as NodeRow;
const report = (more: Partial<HealthReport>) =>
  ({
    devices: [],
    devices_by_health: {},
    nodes: [],
    nodes_by_state: {},
    clusters: [],
    ...more,
  }) as unknown as HealthReport;
const nothing: OverviewData = {
  health: null,
  throttled: null,
  hot: null,
  hotWithoutLimit: null,
  unusual: null,
  idle: null,
};

describe("the list of problems", () => {
  it("is empty for a healthy fleet and before the first response", () => {
    expect(attention(nothing)).toEqual([]);
    expect(tallies(nothing)).toEqual([]);
    const well = {
      ...nothing,
      health: report({ devices_by_health: { ok: 8, lost: 0 } }),
      hot: { items: [], total: 0 },
    };
    expect(attention(well)).toEqual([]);
    expect(tallies(well)).toEqual([]);
  });
  it("lists the most severe first", () => {
    const items = attention({
      ...nothing,
      health: report({
        devices: [
          device(1, { health: "warning" }),
          device(2, { health: "lost" }),
          device(3, { health: "critical" }),
        ],
        nodes: [node("n8", "stale"), node("n9", "incompatible")],
      }),
      idle: {
        items: [
          { cluster: "berlin", namespace: "ml", pod: "p", node: "n1", devices_idle: 1.5, idle_seconds: 7200 },
        ],
      } as IdlePods,
    });
    expect(items.map(({ word }) => word)).toEqual([
      "lost",
      "critical",
      "incompatible",
      "warning",
      "stale",
      "idle",
    ]);
    expect(items.at(-1)?.text).toBe("1.5 devices allocated, idle for 2 h");
  });
  it("lists a device once with all its problems", () => {
    const hot = device(5, { temperature_celsius: 91, throttled: "hw_thermal_slowdown" });
    const items = attention({
      ...nothing,
      throttled: { items: [hot], total: 1 },
      hot: { items: [hot], total: 1 },
    });
    expect(items).toHaveLength(1);
    expect(items[0]).toMatchObject({
      word: "throttled",
      text: "hw thermal slowdown; 91 °C, slows down at 90 °C",
    });
  });
  it("limits the number of items of one kind", () => {
    const devices = Array.from({ length: 20 }, (_, index) => device(index, { health: "lost" }));
    expect(attention({ ...nothing, health: report({ devices, nodes: [node("n9", "stale")] }) })).toHaveLength(
      6,
    );
  });
  it("counts the problems and links to them", () => {
    const counted = tallies({
      ...nothing,
      health: report({ devices_by_health: { lost: 3 }, nodes_by_state: { stale: 1 } }),
    });
    expect(counted.map(({ count, word, href }) => [count, word, href])).toEqual([
      [3, "lost", "/devices?health=lost"],
      [1, "stale node", "/nodes?state=stale"],
    ]);
  });
  it("lists an unreachable cluster once, not each of its nodes", () => {
    const away = {
      id: "berlin",
      name: null,
      nodes: 12,
      reachable: false,
      succeeded_at: 1,
      text: "no route",
      reason: null,
      sources: [],
    } as unknown as ClusterView;
    const elsewhere = { ...node("n3", "stale"), cluster: "oslo" };
    const known = {
      ...nothing,
      health: report({ clusters: [away], nodes: [node("n1", "stale"), node("n2", "stale"), elsewhere] }),
    };
    expect(attention(known).map(({ word, title }) => `${word} ${title}`)).toEqual([
      "unreachable berlin",
      "stale 12 nodes of berlin",
      "stale n3",
    ]);
    expect(tallies(known).map(({ count, word }) => `${count} ${word}`)).toEqual(["1 cluster unreachable"]);
  });
  it("counts all hot devices and links to them", () => {
    const near = device(3, { temperature_celsius: 86 });
    const untold = device(2, { temperature_celsius: 91, temperature_slowdown_celsius: null });
    const known = {
      ...nothing,
      hot: { items: [near], total: 120 },
      hotWithoutLimit: { items: [untold], total: 7 },
    };
    expect(attention(known).map(({ word, title, text }) => `${word} ${title}: ${text}`)).toEqual([
      "hot n1 #3: 86 °C, slows down at 90 °C",
      "hot n1 #2: 91 °C",
    ]);
    expect(tallies(known).map(({ count, word, href }) => [count, word, href])).toEqual([
      [120, "hot", "/devices?temperature_margin_celsius_max=5&sort=temperature_margin_celsius"],
      [
        7,
        "hot, limit not known",
        "/devices?absent=temperature_margin_celsius&temperature_celsius_min=90&sort=-temperature_celsius",
      ],
    ]);
  });
});

describe("totals", () => {
  const sums = (more: Partial<SummaryRow>) =>
    ({
      devices: 0,
      devices_lost: 0,
      devices_unhealthy: 0,
      memory_used_bytes: 0,
      memory_total_bytes: 0,
      power_watts: 0,
      ...more,
    }) as SummaryRow;
  it("have no ratio without devices", () => {
    expect(allocatedRatio(sums({}))).toBeNull();
  });
  it("have health parts that add up to all devices", () => {
    const parts = healthParts(sums({ devices: 10, devices_unhealthy: 3, devices_lost: 1 }));
    expect(parts.map(({ count }) => count)).toEqual([1, 2, 7]);
  });
});

describe("the status of a cluster", () => {
  const source = (more: Partial<SourceView>) =>
    ({ kind: "agents", up: true, text: null, reason: null, ...more }) as SourceView;
  const cluster = (more: Partial<ClusterView>) =>
    ({
      reachable: true,
      succeeded_at: 1,
      text: null,
      reason: null,
      gpu: true,
      sources: [source({})],
      ...more,
    }) as ClusterView;
  it.each([
    [cluster({}), "reachable", "ok"],
    [cluster({ reachable: null, succeeded_at: null }), "not contacted yet", "unknown"],
    [cluster({ reachable: false, succeeded_at: null }), "never reached", "lost"],
    [cluster({ reachable: false }), "unreachable", "critical"],
    [cluster({ sources: [source({ up: false })] }), "no source responds", "critical"],
    [cluster({ sources: [source({ up: false }), source({})] }), "source down", "warning"],
    [cluster({ gpu: false }), "no accelerators", "unknown"],
  ])("%#: %s", (given, word, tone) => {
    expect(clusterStatus(given)).toMatchObject({ word, tone });
  });
  it("contains the reason", () => {
    expect(clusterStatus(cluster({ reachable: false, reason: "connect_refused" })).why).toBe(
      "connect refused",
    );
    expect(clusterStatus(cluster({ sources: [source({ up: false, text: "no pods" })] })).why).toBe(
      "agents: no pods",
    );
    expect(sourceStatus(source({ up: null })).word).toBe("not queried yet");
  });
});
