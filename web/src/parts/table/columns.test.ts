import { describe, expect, it } from "vitest";
import {
  type Column,
  columnsChosen,
  columnsThatFit,
  leastWidth,
  subtitle,
  widthOf,
  widthRatio,
} from "./columns";

const column = (key: string, width: number, priority: 1 | 2 | 3 | 4): Column<object> => ({
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

  it("subtracts the space that is taken", () => {
    expect(keys(columnsThatFit(COLUMNS, 400, 32))).toEqual(["name", "use"]);
  });

  it("sums the minimum widths", () => {
    expect(leastWidth(COLUMNS)).toBe(630);
    expect(leastWidth([{ ...column("name", 200, 1), least: 120 }, column("use", 100, 1)])).toBe(220);
  });
});

describe("selected columns", () => {
  it("always contain the row header", () => {
    expect(keys(columnsChosen(COLUMNS, ["name", "age"]))).toEqual(["name", "model", "use", "power"]);
  });
});

describe("widths", () => {
  const tight = [{ ...column("name", 200, 1), least: 100 }, column("use", 100, 1)];
  it.each([
    [100, [100, 100]],
    [200, [100, 100]],
    [250, [150, 100]],
    [300, [200, 100]],
    [900, [200, 100]],
  ])("in %d pixels", (room, widths) => {
    expect(tight.map((one) => widthOf(one, widthRatio(tight, room)))).toEqual(widths);
  });
});

describe("the line below the name", () => {
  const name = { ...column("name", 200, 1), under: { column: "model", text: () => "H100" } };
  it("is shown if its column is not", () => {
    expect(subtitle([name, column("use", 100, 1)])?.({})).toBe("H100");
    expect(subtitle([name, column("model", 100, 1)])).toBeNull();
    expect(subtitle([column("use", 100, 1)])).toBeNull();
  });
});
