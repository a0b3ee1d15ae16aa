import { describe, expect, it } from "vitest";
import { chipsOf, fieldTitle, toggleValue, withoutFilters } from "./active";

const of = (text: string) => new URLSearchParams(text);

describe("filters of an address", () => {
  it("have a chip for every value, but not for display options", () => {
    const chips = chipsOf(of("q=x&sort=-index&health=lost,critical&model=A\\,B&rows=single"), ["rows"]);
    expect(chips.map(({ name, value, title, text }) => [name, value, title, text])).toEqual([
      ["health", "lost", "Health", "lost"],
      ["health", "critical", "Health", "critical"],
      ["model", "A,B", "Model", "A,B"],
    ]);
  });

  it.each([
    ["temperature_celsius_min=85", "Temperature, °C", "≥ 85"],
    ["allocated_max=0", "Allocated", "≤ 0"],
    ["present=unusual", "Anomaly", "known"],
    ["absent=power_watts", "Power, W", "not known"],
    ["simulated=false", "Simulated", "no"],
  ])("reads %s", (text, title, shown) => {
    expect(chipsOf(of(text))[0]).toMatchObject({ title, text: shown });
  });

  it("have readable titles", () => {
    expect(fieldTitle("utilization_ratio")).toBe("Use, 0–1");
    expect(fieldTitle("memory_utilization_ratio")).toBe("Memory use, 0–1");
    expect(fieldTitle("driver_version")).toBe("Driver version");
  });

  it("add and remove values", () => {
    expect(toggleValue(of("vendor=amd"), "vendor", "nvidia")).toEqual(["amd", "nvidia"]);
    expect(toggleValue(of("vendor=amd,nvidia"), "vendor", "amd")).toEqual(["nvidia"]);
    expect(toggleValue(of(""), "model", "A,B")).toEqual(["A\\,B"]);
  });

  it("are cleared without display options", () => {
    expect(withoutFilters(of("q=x&vendor=amd&sort=node&rows=single"), ["rows"]).toString()).toBe(
      "sort=node&rows=single",
    );
  });
});
