import { describe, expect, it } from "vitest";
import { type Column, columnsChosen, columnsThatFit, leastWidth } from "./columns";

const column = (key: string, width: number, priority: 1 | 2 | 3): Column<object> => ({
  key,
  title: key,
  cell: () => null,
  width,
  priority,
});
const COLUMNS = [
  column("name", 200, 1),
  column("model", 150, 3),
  column("use", 100, 1),
  column("age", 100, 2),
  column("power", 80, 2),
];
const keys = (columns: Column<object>[]) => columns.map(({ key }) => key);

describe("columns that fit", () => {
  it.each([
    [1000, ["name", "model", "use", "age", "power"]],
    [630, ["name", "model", "use", "age", "power"]],
    [620, ["name", "use", "age", "power"]],
    [479, ["name", "use", "age", "power"]],
    [430, ["name", "use", "age"]],
    [390, ["name", "use"]],
    [100, ["name", "use"]],
  ])("in %d pixels", (room, shown) => {
    expect(keys(columnsThatFit(COLUMNS, room))).toEqual(shown);
  });

  it("counts what is taken by others", () => {
    expect(keys(columnsThatFit(COLUMNS, 400, 32))).toEqual(["name", "use"]);
  });

  it("adds up", () => {
    expect(leastWidth(COLUMNS)).toBe(630);
    expect(leastWidth([{ ...column("name", 200, 1), least: 120 }, column("use", 100, 1)])).toBe(220);
  });
});

describe("columns that were chosen", () => {
  it("never drops the one that names the row", () => {
    expect(keys(columnsChosen(COLUMNS, ["name", "age"]))).toEqual(["name", "model", "use", "power"]);
  });
});
