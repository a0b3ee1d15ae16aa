import { describe, expect, it } from "vitest";
import type { PodRow } from "../../api/types";
import { groupByPod, groupRows, keepsPodsTogether, ownerOf, singleRows } from "./group";

const row = (values: Partial<PodRow>): PodRow =>
  ({
    cluster: "c",
    namespace: "n",
    pod: "p",
    node: "node",
    container: "main",
    device: "d0",
    partition: null,
    model: "H100",
    owner_kind: null,
    owner_name: null,
    allocated: 1,
    processes: 1,
    utilization_ratio: null,
    memory_used_bytes: null,
    energy_joules: null,
    idle_seconds: null,
    age_seconds: 3,
    state: "fresh",
    simulated: false,
    unusual: null,
    ...values,
  }) as PodRow;

describe("rows of a pod", () => {
  it("are summed over the known values only", () => {
    const pod = groupRows("k", [
      row({ utilization_ratio: 0.2, memory_used_bytes: 10 }),
      row({ device: "d1", utilization_ratio: 0.6, memory_used_bytes: null }),
      row({ device: "d2" }),
    ]);
    expect(pod.use).toBeCloseTo(0.4);
    expect(pod.memoryBytes).toBe(10);
    expect(pod.energyJoules).toBeNull();
    expect(pod.devices).toBe(3);
    expect(pod.processes).toBe(3);
  });

  it("have the shortest idle time of the allocated devices", () => {
    const rows = [
      row({ idle_seconds: 900 }),
      row({ device: "d1", idle_seconds: 400 }),
      row({ device: "d2", idle_seconds: 1, allocated: 0 }),
    ];
    expect(groupRows("k", rows).idleSeconds).toBe(400);
  });

  it("have no idle time while that of one device is unknown", () => {
    expect(groupRows("k", [row({ idle_seconds: 900 }), row({ device: "d1" })]).idleSeconds).toBeNull();
  });

  it("count a shared device once and each partition separately", () => {
    expect(groupRows("k", [row({}), row({ container: "side" })]).devices).toBe(1);
    expect(groupRows("k", [row({ partition: "a" }), row({ partition: "b" })]).devices).toBe(2);
  });

  it("are stale if one row is stale", () => {
    expect(groupRows("k", [row({}), row({ state: "stale", age_seconds: 90 })])).toMatchObject({
      stale: true,
      ageSeconds: 90,
    });
  });
});

describe("pods of a page", () => {
  const rows = [row({ pod: "a" }), row({ pod: "a", device: "d1" }), row({ pod: "b" })];

  it("leave out the last pod, which may be incomplete", () => {
    expect(groupByPod(rows, false).map(({ pod }) => pod)).toEqual(["a"]);
    expect(groupByPod(rows, true).map(({ pod }) => pod)).toEqual(["a", "b"]);
    expect(groupByPod(rows.slice(0, 2), false).map(({ pod }) => pod)).toEqual(["a"]);
  });

  it("are separate by cluster and namespace", () => {
    expect(groupByPod([row({}), row({ cluster: "d" }), row({ namespace: "m" })], true)).toHaveLength(3);
  });

  it("have unique keys as single rows", () => {
    expect(new Set(singleRows(rows).map(({ key }) => key)).size).toBe(3);
  });
});

it("detects sort orders that keep pods together", () => {
  expect(keepsPodsTogether(["cluster", "namespace", "pod"])).toBe(true);
  expect(keepsPodsTogether(["energy_joules"])).toBe(false);
});

it("returns the owner of a pod", () => {
  expect(ownerOf({ owner_kind: "Job", owner_name: "train" })).toEqual({ kind: "Job", name: "train" });
  expect(ownerOf({ owner_kind: null, owner_name: null })).toBeNull();
});
