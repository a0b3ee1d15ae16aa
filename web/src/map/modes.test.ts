import { expect, test } from "vitest";
import type { Columns } from "../api/types";
import { fleetOf } from "./fleet";
import { has, told } from "./modes";
import { counted, LEVELS, NOT_KNOWN, paintCodes } from "./paint-codes";
import { shortened } from "./painter";
import { asTable, fieldsOf, filtersOf, othersOf } from "./question";

function fleet(fields: Record<string, (number | null)[]>) {
  const rows = Object.values(fields)[0]?.length ?? 0;
  const columns = Object.fromEntries(
    Object.entries(fields).map(([name, values]) => [name, { kind: "number" as const, values }]),
  );
  return fleetOf({ at: 0, generation: 1, rows, fields: columns } satisfies Columns);
}

test("the scale ends at its ends, and what is not known is not 0", () => {
  const use = fleet({ utilization_ratio: [0, 0.5, 1, 1.4, -0.1, null] });
  expect([...paintCodes(use, "use")]).toEqual([0, LEVELS / 2, LEVELS - 1, LEVELS - 1, 0, NOT_KNOWN]);
  expect(counted(paintCodes(use, "use"), [0, 4, 5])[0]).toBe(2);
});

test("shares of something that is not known are not known", () => {
  const power = fleet({ power_watts: [350, 92, null], power_limit_watts: [700, null, 700] });
  expect([...paintCodes(power, "power")]).toEqual([LEVELS / 2, NOT_KNOWN, NOT_KNOWN]);
  expect([0, 1, 2].map((row) => told("power", power, row))).toEqual(["350 W, 50 % of limit", "92 W", "–"]);
});

test("a fleet without the numbers of a mode cannot show it", () => {
  const use = fleet({ utilization_ratio: [0] });
  expect(has(use, "use")).toBe(true);
  expect(has(use, "memory")).toBe(false);
  expect(has(use, "health")).toBe(true);
});

test("what the address says: done here, asked for, or left", () => {
  const address = new URLSearchParams("mode=age&size=8&q=x&vendor=amd,nvidia&namespace=vision&errors_min=1");
  expect(filtersOf(address)).toEqual({ vendor: ["amd", "nvidia"] });
  expect(othersOf(address)).toEqual({ namespaces: ["vision"], errors_min: ["1"] });
  expect(asTable(address)).toBe("/devices?q=x&vendor=amd%2Cnvidia&namespace=vision&errors_min=1");
  expect(fieldsOf("memory")).toBe(
    "cluster,node,vendor,model,health,state,index,memory_used_bytes,memory_total_bytes",
  );
});

test("a long name keeps its beginning and its end", () => {
  const width = (text: string) => text.length;
  expect(shortened("nvidia-h100x8-0001", 18, width)).toBe("nvidia-h100x8-0001");
  expect(shortened("nvidia-h100x8-0001", 10, width)).toBe("nvi…8-0001");
  expect(shortened("nvidia-h100x8-0001", 5, width)).toBe("");
});
