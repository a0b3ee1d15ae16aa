import { expect, test } from "vitest";
import type { Columns, NumberColumn, TextColumn } from "../api/types";
import { arrange, hasSameRows } from "./arrangement";
import { moveCursor, type Step } from "./cursor";
import { deviceKey, placeOf } from "./device-key";
import { type Fleet, fleetOf, healthCodes, textOf } from "./fleet";
import { blockOf, fitLayout, hitTest, layOut, nextPitch, positionOf } from "./layout";
import { findDevices } from "./search";

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

function shown(of: Fleet, { groups, starts, rows }: ReturnType<typeof arrange>) {
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

test("sorts nodes in natural order and devices by index", () => {
  expect(shown(FLEET, arrange(FLEET, "cluster", {}))).toEqual([
    ["berlin", "n2/0"],
    ["oslo", "n2/0 n2/1", "n10/0 n10/1"],
  ]);
});

test("a node with two models is in both groups; unknown models come last", () => {
  expect(shown(FLEET, arrange(FLEET, "model", {}))).toEqual([
    ["A", "n2/0 n2/1", "n10/0"],
    ["B", "n10/1"],
    [null, "n2/0"],
  ]);
});

test("all in one group", () => {
  expect(shown(FLEET, arrange(FLEET, "none", {}))).toEqual([[null, "n2/0", "n2/0 n2/1", "n10/0 n10/1"]]);
});

test("filters remove rows and empty groups", () => {
  expect(shown(FLEET, arrange(FLEET, "cluster", { health: ["lost"] }))).toEqual([["oslo", "n2/1"]]);
  expect(shown(FLEET, arrange(FLEET, "cluster", { cluster: ["paris"] }))).toEqual([]);
  expect(shown(FLEET, arrange(FLEET, "cluster", { model: [] })).length).toBe(2);
});

test("groups count blocks and devices", () => {
  expect(arrange(FLEET, "cluster", {}).groups.map(({ blocks, devices }) => [blocks, devices])).toEqual([
    [1, 1],
    [2, 4],
  ]);
});

test("every word must match some field", () => {
  expect([...(findDevices(FLEET, "oslo N2") ?? [])]).toEqual([0, 0, 1, 0, 1]);
  expect([...(findDevices(FLEET, "lost") ?? [])]).toEqual([0, 0, 0, 0, 1]);
  expect([...(findDevices(FLEET, "paris") ?? [])]).toEqual([0, 0, 0, 0, 0]);
  expect(findDevices(FLEET, "  ")).toBeNull();
});

test("an unrecognized health is unknown", () => {
  expect([...healthCodes(fleet([["a", "b", 0, "c", "splendid"]]))]).toEqual([4]);
});

// Three nodes of 8, 3 and 1 devices in one group, at 10 pixels a device: blocks 40, 20 and 10 wide, 5 apart.
const THREE = fleet([
  ...Array.from({ length: 8 }, (_, index): Row => ["a", "n1", index, "m"]),
  ...Array.from({ length: 3 }, (_, index): Row => ["a", "n2", index, "m"]),
  ["a", "n3", 0, "m"],
  ["b", "n1", 0, "m"],
]);
const ARRANGED = arrange(THREE, "cluster", {});

test("nodes flow like words in lines", () => {
  const wide = layOut(ARRANGED, 200, 10);
  expect([...wide.lefts]).toEqual([0, 45, 70, 0]);
  expect([...wide.columns]).toEqual([4, 2, 1, 1]);
  expect([...wide.tops]).toEqual([30, 93]);
  const narrow = layOut(ARRANGED, 65, 10);
  expect([...narrow.lefts]).toEqual([0, 45, 0, 0]);
  expect([...narrow.tops]).toEqual([30, 55, 118]);
  expect(narrow.headings).toEqual([0, 88]);
});

test("a node that is wider than the map has a line of its own", () => {
  expect([...layOut(ARRANGED, 20, 10).lineStarts]).toEqual([0, 1, 2, 3, 4]);
});

test("a hit test finds every device at its position", () => {
  for (const pitch of [3, 10, 20]) {
    const layout = layOut(ARRANGED, 130, pitch);
    for (let place = 0; place < ARRANGED.rows.length; place += 1) {
      const { x, y, block } = positionOf(layout, place);
      expect(hitTest(layout, x + 1, y + 1)).toEqual({ block, place });
      expect(blockOf(layout, place)).toBe(block);
    }
  }
});

test("a hit test finds nothing between devices, and the node at its name", () => {
  const layout = layOut(ARRANGED, 200, 10);
  expect(hitTest(layout, 42, 35)).toBeNull(); // between two nodes
  expect(hitTest(layout, 5, 10)).toBeNull(); // a heading
  expect(hitTest(layout, 56, 45)).toBeNull(); // where a fourth device would be
  expect(hitTest(layout, 500, 35)).toBeNull();
  const deviceKey = layOut(ARRANGED, 200, 20);
  expect(hitTest(deviceKey, 5, 33)).toEqual({ block: 0, place: null });
});

test("fits the largest size", () => {
  expect(fitLayout(ARRANGED, 400, 300).pitch).toBe(34);
  expect(fitLayout(ARRANGED, 200, 130).pitch).toBe(10);
  expect(fitLayout(ARRANGED, 200, 10).pitch).toBe(2); // larger maps are scrolled
  expect(fitLayout(arrange(THREE, "cluster", { node: ["none"] }), 200, 100).height).toBe(0);
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
  expect(moveCursor(layOut(ARRANGED, 200, 10), from, step)).toBe(to);
});

test("an arrangement is reused while devices keep their rows", () => {
  const rows: Row[] = [
    ["a", "n1", 0, "m"],
    ["a", "n1", 1, "m"],
  ];
  const unhealthy: Row[] = [rows[0] as Row, ["a", "n1", 1, "m", "critical"]];
  expect(hasSameRows(fleet(rows), fleet(rows), {})).toBe(true);
  expect(hasSameRows(fleet(rows), fleet(unhealthy), {})).toBe(true);
  expect(hasSameRows(fleet(rows), fleet(unhealthy), { health: ["ok"] })).toBe(false);
  expect(hasSameRows(fleet(rows), fleet([...rows].reverse()), {})).toBe(false);
  expect(hasSameRows(fleet(rows), fleet(rows.slice(1)), {})).toBe(false);
});

test("finds a device again after a change", () => {
  const before = arrange(THREE, "cluster", {});
  const device = deviceKey(THREE, before.rows[9] as number);
  expect(placeOf(before, THREE, device, 9)).toBe(9);
  expect(placeOf(arrange(THREE, "cluster", { node: ["n2"] }), THREE, device, 9)).toBe(1);
  expect(placeOf(arrange(THREE, "cluster", { node: ["n1"] }), THREE, device, 9)).toBeNull();
});
