import { describe, expect, it } from "vitest";
import type { Summary, SummaryRow } from "../../api/types";
import { choicesOf, facetParameters } from "./facets";

const row = (values: Partial<SummaryRow>) => values as SummaryRow;
const summary = (...groups: SummaryRow[]) => ({ groups }) as Summary;

describe("choices", () => {
  it("are values with their number of devices in natural order", () => {
    const groups = summary(
      row({ cluster: "c10", devices: 1 }),
      row({ cluster: "c2", devices: 5 }),
      row({ cluster: null, devices: 9 }),
    );
    expect(choicesOf("cluster", groups, []).map(({ text, count }) => [text, count])).toEqual([
      ["c2", 5],
      ["c10", 1],
    ]);
  });

  it("contain selected values without devices", () => {
    expect(choicesOf("model", summary(), ["H100"])).toEqual([
      { name: "model", value: "H100", text: "H100", count: 0 },
    ]);
    expect(choicesOf("model", null, ["H100"])[0]?.count).toBeNull();
  });

  it("list all health states in order of severity", () => {
    const groups = summary(row({ health: "lost", devices: 1 }), row({ health: "ok", devices: 3 }));
    expect(choicesOf("health", groups, []).map(({ value }) => value)).toEqual([
      "ok",
      "warning",
      "critical",
      "lost",
      "unknown",
    ]);
  });

  it("show vendors by their title", () => {
    expect(choicesOf("vendor", summary(row({ vendor: "amd", devices: 1 })), [])[0]).toMatchObject({
      value: "amd",
      text: "AMD",
    });
  });
});

describe("counts of a facet", () => {
  it("use the other filters", () => {
    const address = new URLSearchParams("vendor=amd&vendor=nvidia&cluster=a&q=x&temperature_celsius_min=80");
    expect(facetParameters("cluster", address)).toEqual({ group_by: "cluster", vendor: ["amd", "nvidia"] });
  });
});
