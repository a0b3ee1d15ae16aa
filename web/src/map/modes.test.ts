import { expect, test } from "vitest";
import type { Columns } from "../api/types";
import { fleetOf } from "./fleet";
import { formatDeviceValue, hasMode } from "./modes";
import { countCodes, LEVELS, NOT_KNOWN, paintCodes } from "./paint-codes";
import { shortened } from "./painter";
import { fieldsOf, filtersOf, serverFilters, tableLink } from "./parameters";

function fleet(fields: Record<string, (number | null)[]>) {
  const rows = Object.values(fields)[0]?.length ?? 0;
  const columns = Object.fromEntries(
    Object.entries(fields).map(([name, values]) => [name, { kind: "number" as const, values }]),
  );
  return fleetOf({ at: 0, generation: 1, rows, fields: columns } satisfies Columns);
}

test("the scale is clamped, and unknown is not 0", () => {
  const use = fleet({ utilization_ratio: [0, 0.5, 1, 1.4, -0.1, null] });
  expect([...paintCodes(use, "use")]).toEqual([0, LEVELS / 2, LEVELS - 1, LEVELS - 1, 0, NOT_KNOWN]);
  expect(countCodes(paintCodes(use, "use"), [0, 4, 5])[0]).toBe(2);
});

test("shares of an unknown limit are unknown", () => {
  const power = fleet({ power_watts: [350, 92, null], power_limit_watts: [700, null, 700] });
  expect([...paintCodes(power, "power")]).toEqual([LEVELS / 2, NOT_KNOWN, NOT_KNOWN]);
  expect([0, 1, 2].map((row) => formatDeviceValue("power", power, row))).toEqual([
    "350 W, 50 % of limit",
    "92 W",
    "–",
  ]);
});

test("a mode needs its fields", () => {
  const use = fleet({ utilization_ratio: [0] });
  expect(hasMode(use, "use")).toBe(true);
  expect(hasMode(use, "memory")).toBe(false);
  expect(hasMode(use, "health")).toBe(true);
});

test("parameters are applied in the browser, sent to the API, or ignored", () => {
  const address = new URLSearchParams("mode=age&size=8&q=x&vendor=amd,nvidia&namespace=vision&errors_min=1");
  expect(filtersOf(address)).toEqual({ vendor: ["amd", "nvidia"] });
  expect(serverFilters(address)).toEqual({ namespaces: ["vision"], errors_min: ["1"] });
  expect(tableLink(address)).toBe("/devices?q=x&vendor=amd%2Cnvidia&namespace=vision&errors_min=1");
  expect(fieldsOf("memory")).toBe(
    "cluster,node,vendor,model,health,state,index,memory_used_bytes,memory_total_bytes",
  );
});

test("a long name keeps its start and its end", () => {
  const width = (text: string) => text.length;
  expect(shortened("nvidia-h100x8-0001", 18, width)).toBe("nvidia-h100x8-0001");
  expect(shortened("nvidia-h100x8-0001", 10, width)).toBe("nvi…8-0001");
  expect(shortened("nvidia-h100x8-0001", 5, width)).toBe("");
});
