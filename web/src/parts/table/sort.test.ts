import { describe, expect, it } from "vitest";
import { ariaSort, nextSort, orderOf } from "./sort";

describe("order of rows", () => {
  it("is parsed from the API's syntax", () => {
    expect(orderOf("-power_watts,node")).toEqual([
      { field: "power_watts", descending: true },
      { field: "node", descending: false },
    ]);
    expect(orderOf("")).toEqual([]);
    expect(orderOf(",-")).toEqual([]);
  });

  it("marks only the first field", () => {
    const orders = orderOf("-power_watts,node");
    expect(ariaSort(orders, "power_watts")).toBe("descending");
    expect(ariaSort(orders, "node")).toBe("none");
    expect(ariaSort(orderOf("node"), "node")).toBe("ascending");
  });

  it("cycles: default direction, other direction, default order", () => {
    expect(nextSort(orderOf("node"), "power_watts", true)).toBe("-power_watts");
    expect(nextSort(orderOf("-power_watts"), "power_watts", true)).toBe("power_watts");
    expect(nextSort(orderOf("power_watts"), "power_watts", true)).toBeNull();
    expect(nextSort(orderOf("-node"), "node", false)).toBeNull();
    expect(nextSort(orderOf("node"), "node", false)).toBe("-node");
  });
});
