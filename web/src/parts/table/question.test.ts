import { describe, expect, it } from "vitest";
import { query } from "../../api/client";
import { moreRows, questionOf } from "./question";

const fields = ["health", "temperature_celsius", "vendors"];
const asked = (address: string, defaults: Partial<Parameters<typeof questionOf>[1]>) =>
  decodeURIComponent(query(questionOf(new URLSearchParams(address), { fields, ...defaults })));

describe("a question made from the address", () => {
  it("passes on what the API understands", () => {
    expect(asked("health=lost,critical&temperature_celsius_min=80", {})).toBe(
      "?health=lost,critical&temperature_celsius_min=80",
    );
  });

  it("keeps to itself what the API does not understand", () => {
    expect(asked("utm_source=mail&health=lost&healthy=1&fbclid_min=2", {})).toBe("?health=lost");
    expect(asked("present=unusual&absent=model&temperature_celsius_max=9", {})).toBe(
      "?present=unusual&absent=model&temperature_celsius_max=9",
    );
  });

  it("renames, and joins what has two names", () => {
    expect(asked("vendor=amd&vendors=nvidia", { rename: { vendor: "vendors" } })).toBe(
      "?vendors=amd&vendors=nvidia",
    );
  });

  it("keeps the view's own to the view, and places in the list out", () => {
    expect(asked("rows=single&cursor=x&limit=9", { own: ["rows"] })).toBe("");
  });

  it("sorts as the address says, else as the view does, and not where nothing can be sorted", () => {
    expect(asked("", { sort: "node" })).toBe("?sort=node");
    expect(asked("sort=-index", { sort: "node" })).toBe("?sort=-index");
    expect(asked("sort=-index", {})).toBe("");
  });

  it("does not ask for nothing", () => {
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
