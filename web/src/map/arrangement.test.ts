import { expect, test } from "vitest";
import type { Columns, NumberColumn, TextColumn } from "../api/types";
import { arranged, isAlike } from "./arrangement";
import { moved, type Step } from "./cursor";
import { named, placeOf } from "./device-of";
import { found } from "./finding";
import { type Fleet, fleetOf, healthCodes, textOf } from "./fleet";
import { blockOf, fitted, hit, laidOut, nextPitch, spotOf } from "./layout";

function text(values: (string | null)[]): TextColumn {
  const texts = [...new Set(values.filter((value) => value !== null))];
  return {
    kind: "text",
    texts,
    codes: values.map((value) => (value === null ? null : texts.indexOf(value))),
  };
}

function number(values: (number | null)[]): NumberColumn {
  return { kind: "number", values };
}

type Row = [cluster: string, node: string, index: number, model: string | null, health?: string];

function fleet(rows: Row[]): Fleet {
  const columns: Columns = {
    at: 0,
    generation: 1,
    rows: rows.length,
    fields: {
      cluster: text(rows.map((row) => row[0])),
      node: text(rows.map((row) => row[1])),
      index: number(rows.map((row) => row[2])),
      vendor: text(rows.map(() => "nvidia")),
      model: text(rows.map((row) => row[3])),
      health: text(rows.map((row) => row[4] ?? "ok")),
      state: text(rows.map(() => "fresh")),
    },
  };
  return fleetOf(columns);
}

const FLEET = fleet([
  ["oslo", "n10", 1, "B"],
  ["oslo", "n10", 0, "A"],
  ["oslo", "n2", 0, "A"],
  ["berlin", "n2", 0, null],
  ["oslo", "n2", 1, "A", "lost"],
]);

function shown(of: Fleet, { groups, starts, rows }: ReturnType<typeof arranged>) {
  return groups.map((group) => [
    group.text,
    ...Array.from({ length: group.blocks }, (_, place) => {
      const block = group.firstBlock + place;
      return [...rows.subarray(starts[block], starts[block + 1])]
        .map((row) => `${textOf(of, "node", row)}/${of.numbers.index?.[row]}`)
        .join(" ");
    }),
  ]);
}

test("nodes of a cluster by name, where 2 is before 10, and their devices by index", () => {
  expect(shown(FLEET, arranged(FLEET, "cluster", {}))).toEqual([
    ["berlin", "n2/0"],
    ["oslo", "n2/0 n2/1", "n10/0 n10/1"],
  ]);
});

test("a node with two models is in both of their groups; what has none comes last", () => {
  expect(shown(FLEET, arranged(FLEET, "model", {}))).toEqual([
    ["A", "n2/0 n2/1", "n10/0"],
    ["B", "n10/1"],
    [null, "n2/0"],
  ]);
});

test("all in one group", () => {
  expect(shown(FLEET, arranged(FLEET, "none", {}))).toEqual([[null, "n2/0", "n2/0 n2/1", "n10/0 n10/1"]]);
});

test("filters leave out rows, and groups that have none left", () => {
  expect(shown(FLEET, arranged(FLEET, "cluster", { health: ["lost"] }))).toEqual([["oslo", "n2/1"]]);
  expect(shown(FLEET, arranged(FLEET, "cluster", { cluster: ["paris"] }))).toEqual([]);
  expect(shown(FLEET, arranged(FLEET, "cluster", { model: [] })).length).toBe(2);
});

test("counts of a group", () => {
  expect(arranged(FLEET, "cluster", {}).groups.map(({ blocks, devices }) => [blocks, devices])).toEqual([
    [1, 1],
    [2, 4],
  ]);
});

test("every word must be found, in whatever field", () => {
  expect([...(found(FLEET, "oslo N2") ?? [])]).toEqual([0, 0, 1, 0, 1]);
  expect([...(found(FLEET, "lost") ?? [])]).toEqual([0, 0, 0, 0, 1]);
  expect([...(found(FLEET, "paris") ?? [])]).toEqual([0, 0, 0, 0, 0]);
  expect(found(FLEET, "  ")).toBeNull();
});

test("a health that we do not know is unknown", () => {
  expect([...healthCodes(fleet([["a", "b", 0, "c", "splendid"]]))]).toEqual([4]);
});

// Three nodes of 8, 3 and 1 devices in one group, at 10 pixels a device: blocks 40, 20 and 10 wide, 5 apart.
const THREE = fleet([
  ...Array.from({ length: 8 }, (_, index): Row => ["a", "n1", index, "m"]),
  ...Array.from({ length: 3 }, (_, index): Row => ["a", "n2", index, "m"]),
  ["a", "n3", 0, "m"],
  ["b", "n1", 0, "m"],
]);
const ARRANGED = arranged(THREE, "cluster", {});

test("nodes flow like words", () => {
  const wide = laidOut(ARRANGED, 200, 10);
  expect([...wide.lefts]).toEqual([0, 45, 70, 0]);
  expect([...wide.columns]).toEqual([4, 2, 1, 1]);
  expect([...wide.tops]).toEqual([30, 93]);
  const narrow = laidOut(ARRANGED, 65, 10);
  expect([...narrow.lefts]).toEqual([0, 45, 0, 0]);
  expect([...narrow.tops]).toEqual([30, 55, 118]);
  expect(narrow.headings).toEqual([0, 88]);
});

test("a node that is wider than the map has a line of its own", () => {
  expect([...laidOut(ARRANGED, 20, 10).lineStarts]).toEqual([0, 1, 2, 3, 4]);
});

test("every device is hit where it is drawn", () => {
  for (const pitch of [3, 10, 20]) {
    const layout = laidOut(ARRANGED, 130, pitch);
    for (let place = 0; place < ARRANGED.rows.length; place += 1) {
      const { x, y, block } = spotOf(layout, place);
      expect(hit(layout, x + 1, y + 1)).toEqual({ block, place });
      expect(blockOf(layout, place)).toBe(block);
    }
  }
});

test("nothing is hit beside devices, and a name is its node", () => {
  const layout = laidOut(ARRANGED, 200, 10);
  expect(hit(layout, 42, 35)).toBeNull(); // between two nodes
  expect(hit(layout, 5, 10)).toBeNull(); // a heading
  expect(hit(layout, 56, 45)).toBeNull(); // where a fourth device would be
  expect(hit(layout, 500, 35)).toBeNull();
  const named = laidOut(ARRANGED, 200, 20);
  expect(hit(named, 5, 33)).toEqual({ block: 0, place: null });
});

test("as large as fits", () => {
  expect(fitted(ARRANGED, 400, 300).pitch).toBe(34);
  expect(fitted(ARRANGED, 200, 130).pitch).toBe(10);
  expect(fitted(ARRANGED, 200, 10).pitch).toBe(2); // what does not fit is scrolled
  expect(fitted(arranged(THREE, "cluster", { node: ["none"] }), 200, 100).height).toBe(0);
});

test.each<[number, 1 | -1, number]>([
  [10, 1, 12],
  [10, -1, 8],
  [11, 1, 12],
  [34, 1, 34],
  [2, -1, 2],
])("from a size of %i by %i to %i", (pitch, by, next) => {
  expect(nextPitch(pitch, by)).toBe(next);
});

// 0 1 2 3 | 8 9 | 11
// 4 5 6 7 | 10  |
// 12
test.each<[Step, number, number]>([
  ["right", 0, 1],
  ["right", 3, 8],
  ["right", 7, 10],
  ["right", 10, 11],
  ["left", 8, 3],
  ["left", 10, 7],
  ["left", 0, 0],
  ["down", 1, 5],
  ["up", 5, 1],
  ["down", 9, 12],
  ["down", 5, 12],
  ["up", 12, 4],
  ["down", 12, 12],
  ["right", 11, 12],
  ["first", 9, 0],
  ["last", 0, 12],
  ["group-after", 5, 12],
  ["group-before", 12, 0],
  ["group-after", 12, 12],
])("%s of device %i is device %i", (step, from, to) => {
  expect(moved(laidOut(ARRANGED, 200, 10), from, step)).toBe(to);
});

test("what was arranged holds as long as devices stay in their rows", () => {
  const rows: Row[] = [
    ["a", "n1", 0, "m"],
    ["a", "n1", 1, "m"],
  ];
  const sick: Row[] = [rows[0] as Row, ["a", "n1", 1, "m", "critical"]];
  expect(isAlike(fleet(rows), fleet(rows), {})).toBe(true);
  expect(isAlike(fleet(rows), fleet(sick), {})).toBe(true);
  expect(isAlike(fleet(rows), fleet(sick), { health: ["ok"] })).toBe(false);
  expect(isAlike(fleet(rows), fleet([...rows].reverse()), {})).toBe(false);
  expect(isAlike(fleet(rows), fleet(rows.slice(1)), {})).toBe(false);
});

test("a device is found again where it went, or not at all", () => {
  const before = arranged(THREE, "cluster", {});
  const device = named(THREE, before.rows[9] as number);
  expect(placeOf(before, THREE, device, 9)).toBe(9);
  expect(placeOf(arranged(THREE, "cluster", { node: ["n2"] }), THREE, device, 9)).toBe(1);
  expect(placeOf(arranged(THREE, "cluster", { node: ["n1"] }), THREE, device, 9)).toBeNull();
});
