import { describe, expect, it } from "vitest";
import type { DeviceRow, NamespaceRow, NodeRow, PodRow } from "../api/types";
import { type Found, moveSelection, resultGroups, viewResults } from "./results";

const node = (name: string, state = "fresh") =>
  ({ cluster: "a", node: name, models: "H100", state }) as NodeRow;
const device = (id: string, health = "ok") =>
  ({ cluster: "a", node: "n 1", id, uuid: null, serial: null, index: 3, model: null, health }) as DeviceRow;
const pod = (name: string) => ({ cluster: "a", namespace: "ml", pod: name, node: "n 1" }) as PodRow;
const nothing: Found = {
  nodes: { items: [], total: 0 },
  devices: { items: [], total: 0 },
  pods: { items: [], total: 0 },
  namespaces: { items: [], total: 0 },
};

describe("search results", () => {
  it("leave out empty groups", () => {
    expect(resultGroups("x", nothing)).toEqual([]);
    const groups = resultGroups("x", { ...nothing, nodes: { items: [node("n1")], total: 1 } });
    expect(groups.map(({ title }) => title)).toEqual(["Nodes"]);
    expect(groups[0]?.results).toHaveLength(1);
  });
  it("end with a link to all if there are more", () => {
    const items = ["1", "2", "3", "4", "5"].map((name) => node(name));
    const results = resultGroups(" h 1 ", { ...nothing, nodes: { items, total: 81 } })[0]?.results ?? [];
    expect(results).toHaveLength(6);
    expect(results[5]).toMatchObject({ title: "All 81 matching nodes", href: "/nodes?q=h+1" });
  });
  it("contain each pod once", () => {
    const items = [pod("train"), pod("train"), pod("serve")];
    const results = resultGroups("r", { ...nothing, pods: { items, total: 3 } })[0]?.results ?? [];
    expect(results.map(({ title }) => title)).toEqual(["train", "serve"]);
    const more = resultGroups("r", { ...nothing, pods: { items, total: 99 } })[0]?.results ?? [];
    expect(more.at(-1)?.title).toBe("All matching pods"); // the total counts rows, not pods
  });
  it("show problems and encode ids", () => {
    const found = resultGroups("x", {
      ...nothing,
      nodes: { items: [node("n1", "stale")], total: 1 },
      devices: { items: [device("nvidia:GPU/1", "lost")], total: 1 },
    });
    expect(found[0]?.results[0]?.health).toBe("stale");
    expect(found[1]?.results[0]).toMatchObject({
      health: "lost",
      detail: "n 1 #3 · a",
      href: "/devices/a/n%201/nvidia%3AGPU%2F1",
    });
  });
  it("link a namespace to its pods", () => {
    const row = { cluster: "a", namespace: "ml", devices: 4, pods: 2 } as NamespaceRow;
    const [group] = resultGroups("ml", { ...nothing, namespaces: { items: [row], total: 1 } });
    expect(group?.results[0]?.href).toBe("/pods?cluster=a&namespace=ml");
  });
  it("start with views of that name", () => {
    expect(viewResults("ma")?.results.map(({ href }) => href)).toEqual(["/map"]);
    expect(viewResults(" ")).toBeNull();
    expect(viewResults("zzz")).toBeNull();
  });
});

describe("the arrow keys", () => {
  it.each([
    [-1, 1, 3, 0],
    [2, 1, 3, -1],
    [-1, -1, 3, 2],
    [0, -1, 3, -1],
    [-1, 1, 0, -1],
  ] as const)("from %s by %s of %s to %s", (chosen, by, results, expected) => {
    expect(moveSelection(chosen, by, results)).toBe(expected);
  });
});
