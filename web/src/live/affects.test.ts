import { describe, expect, it } from "vitest";
import { affectsClusters, affectsNode } from "./resource";
import type { Change } from "./stream";

const change = (clusters: string[], nodes: Change["nodes"]): Change => ({ generation: 1, clusters, nodes });

describe("a change of the fleet", () => {
  it("affects views of its clusters and of all clusters", () => {
    const ofBerlin = affectsClusters(["berlin"]);
    expect(ofBerlin(change(["berlin"], []))).toBe(true);
    expect(ofBerlin(change([], [["berlin", "a"]]))).toBe(true);
    expect(ofBerlin(change([], null))).toBe(true);
    expect(ofBerlin(change(["oslo"], [["oslo", "a"]]))).toBe(false);
    expect(affectsClusters([])(change([], [["oslo", "a"]]))).toBe(true);
  });

  it("affects views of its nodes", () => {
    const ofA = affectsNode("berlin", "a");
    expect(ofA(change([], [["berlin", "a"]]))).toBe(true);
    expect(ofA(change([], [["oslo", "a"]]))).toBe(false);
    expect(ofA(change(["berlin"], []))).toBe(true);
    expect(ofA(change([], null))).toBe(true);
  });
});
