import { describe, expect, it } from "vitest";
import type { PodRow } from "../../api/types";
import { byPod, grouped, keepsTogether, oneByOne, ownerOf } from "./group";

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
  it("add up what is known, and say nothing of what is not", () => {
    const pod = grouped("k", [
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

  it("are idle as long as the one that was busy last, of those that are held", () => {
    const rows = [
      row({ idle_seconds: 900 }),
      row({ device: "d1", idle_seconds: 400 }),
      row({ device: "d2", idle_seconds: 1, allocated: 0 }),
    ];
    expect(grouped("k", rows).idleSeconds).toBe(400);
  });

  it("are not called idle while it is not known whether one of them works", () => {
    expect(grouped("k", [row({ idle_seconds: 900 }), row({ device: "d1" })]).idleSeconds).toBeNull();
  });

  it("count a device of two containers once, and its partitions each", () => {
    expect(grouped("k", [row({}), row({ container: "side" })]).devices).toBe(1);
    expect(grouped("k", [row({ partition: "a" }), row({ partition: "b" })]).devices).toBe(2);
  });

  it("are stale when any is", () => {
    expect(grouped("k", [row({}), row({ state: "stale", age_seconds: 90 })])).toMatchObject({
      stale: true,
      ageSeconds: 90,
    });
  });
});

describe("pods of a page", () => {
  const rows = [row({ pod: "a" }), row({ pod: "a", device: "d1" }), row({ pod: "b" })];

  it("leave out the last one, which may go on", () => {
    expect(byPod(rows, false).map(({ pod }) => pod)).toEqual(["a"]);
    expect(byPod(rows, true).map(({ pod }) => pod)).toEqual(["a", "b"]);
    expect(byPod(rows.slice(0, 2), false).map(({ pod }) => pod)).toEqual(["a"]);
  });

  it("are told apart by cluster and namespace", () => {
    expect(byPod([row({}), row({ cluster: "d" }), row({ namespace: "m" })], true)).toHaveLength(3);
  });

  it("stand one by one with keys of their own", () => {
    expect(new Set(oneByOne(rows).map(({ key }) => key)).size).toBe(3);
  });
});

it("knows which orders keep pods together", () => {
  expect(keepsTogether(["cluster", "namespace", "pod"])).toBe(true);
  expect(keepsTogether(["energy_joules"])).toBe(false);
});

it("names owners", () => {
  expect(ownerOf({ owner_kind: "Job", owner_name: "train" })).toEqual({ kind: "Job", name: "train" });
  expect(ownerOf({ owner_kind: null, owner_name: null })).toBeNull();
});
