import { describe, expect, it } from "vitest";
import { concernsClusters, concernsNode } from "./resource";
import type { Change } from "./stream";

const change = (clusters: string[], nodes: Change["nodes"]): Change => ({ generation: 1, clusters, nodes });

describe("a change of the fleet", () => {
  it("concerns whoever shows one of its clusters, or all of them", () => {
    const ofBerlin = concernsClusters(["berlin"]);
    expect(ofBerlin(change(["berlin"], []))).toBe(true);
    expect(ofBerlin(change([], [["berlin", "a"]]))).toBe(true);
    expect(ofBerlin(change([], null))).toBe(true);
    expect(ofBerlin(change(["oslo"], [["oslo", "a"]]))).toBe(false);
    expect(concernsClusters([])(change([], [["oslo", "a"]]))).toBe(true);
  });

  it("concerns whoever shows one of its nodes", () => {
    const ofA = concernsNode("berlin", "a");
    expect(ofA(change([], [["berlin", "a"]]))).toBe(true);
    expect(ofA(change([], [["oslo", "a"]]))).toBe(false);
    expect(ofA(change(["berlin"], []))).toBe(true);
    expect(ofA(change([], null))).toBe(true);
  });
});
