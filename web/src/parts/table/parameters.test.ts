import { describe, expect, it } from "vitest";
import { query } from "../../api/client";
import { moreRows, tableParameters } from "./parameters";

const fields = ["health", "temperature_celsius", "vendors"];
const asked = (address: string, defaults: Partial<Parameters<typeof tableParameters>[1]>) =>
  decodeURIComponent(query(tableParameters(new URLSearchParams(address), { fields, ...defaults })));

describe("API parameters of an address", () => {
  it("contain known filters", () => {
    expect(asked("health=lost,critical&temperature_celsius_min=80", {})).toBe(
      "?health=lost,critical&temperature_celsius_min=80",
    );
  });

  it("do not contain unknown parameters", () => {
    expect(asked("utm_source=mail&health=lost&healthy=1&fbclid_min=2", {})).toBe("?health=lost");
    expect(asked("present=unusual&absent=model&temperature_celsius_max=9", {})).toBe(
      "?present=unusual&absent=model&temperature_celsius_max=9",
    );
  });

  it("are renamed and merged", () => {
    expect(asked("vendor=amd&vendors=nvidia", { rename: { vendor: "vendors" } })).toBe(
      "?vendors=amd&vendors=nvidia",
    );
  });

  it("do not contain the view's own parameters and paging", () => {
    expect(asked("rows=single&cursor=x&limit=9", { own: ["rows"] })).toBe("");
  });

  it("contain the order of the address, or the default, or none", () => {
    expect(asked("", { sort: "node" })).toBe("?sort=node");
    expect(asked("sort=-index", { sort: "node" })).toBe("?sort=-index");
    expect(asked("sort=-index", {})).toBe("");
  });

  it("do not contain empty values", () => {
    expect(asked("q=+&health=", {})).toBe("");
    expect(asked("q=+h100+", {})).toBe("?q=h100");
  });
});

describe("more rows", () => {
  it.each([
    [100, 5000, 300],
    [400, 5000, 500],
    [500, 5000, null],
    [40, 40, null],
  ])("%d of %d", (shown, total, more) => {
    expect(moreRows(shown, total)).toBe(more);
  });
});
