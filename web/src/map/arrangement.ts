// The order of devices on the map: by group, node and device.
import type { Coded, Fleet, TextField } from "./fleet";

export const GROUPINGS = ["cluster", "vendor", "model", "none"] as const;
export type Grouping = (typeof GROUPINGS)[number];

export type Filters = Partial<Record<TextField, readonly string[]>>; // allowed values; undefined or empty: any

export interface Group {
  text: string | null; // null: unknown, or not grouped
  firstBlock: number;
  blocks: number; // nodes in this group
  devices: number;
}

// A block is a node, or the part of a node that is in a group.
export interface Arrangement {
  groups: readonly Group[];
  starts: Uint32Array; // start of each block in `rows`, plus the end
  rows: Uint32Array; // rows of the fleet in display order
}

export function isGrouping(text: string | null): text is Grouping {
  return (GROUPINGS as readonly string[]).includes(text ?? "");
}

export function arrange(fleet: Fleet, grouping: Grouping, filters: Filters): Arrangement {
  const groupOf = grouping === "none" ? null : fleet.texts[grouping];
  const { blockOf, blockRanks } = blocksOf(fleet, groupOf, shownRows(fleet, filters));
  const order = inOrder(blockRanks);
  const { starts, rows } = sorted(fleet, blockOf, order);
  const groups: Group[] = [];
  let last: number | null = null;
  for (let place = 0; place < order.length; place += 1) {
    const code = groupOf?.codes[rows[starts[place] as number] as number] ?? -1;
    const devices = (starts[place + 1] as number) - (starts[place] as number);
    const open = groups.at(-1);
    if (open && code === last) {
      open.blocks += 1;
      open.devices += devices;
    } else groups.push({ text: groupOf?.texts[code] ?? null, firstBlock: place, blocks: 1, devices });
    last = code;
  }
  return { groups, starts, rows };
}

// Whether a new response has the same devices in the same rows, so that the arrangement can be reused.
export function hasSameRows(old: Fleet, now: Fleet, filters: Filters): boolean {
  if (old.rows !== now.rows) return false;
  const fields: TextField[] = ["cluster", "node", "vendor", "model"];
  for (const name of ["health", "state"] as const) if (filters[name]?.length) fields.push(name);
  for (const field of fields) {
    const { texts, codes } = old.texts[field];
    const other = now.texts[field];
    if (texts.length !== other.texts.length) return false;
    for (let place = 0; place < texts.length; place += 1)
      if (texts[place] !== other.texts[place]) return false;
    for (let row = 0; row < codes.length; row += 1) if (codes[row] !== other.codes[row]) return false;
  }
  const index = old.numbers.index;
  const other = now.numbers.index;
  for (let row = 0; row < now.rows; row += 1) if (!Object.is(index?.[row], other?.[row])) return false;
  return true;
}

// Indexes sorted by rank. Sorting a typed array is many times faster than sorting with a comparison function.
function inOrder(ranks: readonly number[]): Uint32Array {
  const { length } = ranks;
  const keys = new Float64Array(length);
  for (let place = 0; place < length; place += 1) keys[place] = (ranks[place] as number) * length + place;
  keys.sort();
  const order = new Uint32Array(length);
  for (let place = 0; place < length; place += 1) order[place] = (keys[place] as number) % length;
  return order;
}

function shownRows(fleet: Fleet, filters: Filters): Uint8Array {
  const shown = new Uint8Array(fleet.rows).fill(1);
  for (const [name, wanted] of Object.entries(filters)) {
    if (!wanted || wanted.length === 0) continue;
    const { texts, codes } = fleet.texts[name as TextField];
    const allowed = texts.map((text) => wanted.includes(text));
    for (let row = 0; row < fleet.rows; row += 1) if (!allowed[codes[row] as number]) shown[row] = 0;
  }
  return shown;
}

function blocksOf(fleet: Fleet, groupOf: Coded | null, shown: Uint8Array) {
  const { cluster, node } = fleet.texts;
  const clusterRanks = ranks(cluster.texts);
  const nodeRanks = ranks(node.texts);
  const groupRanks = groupOf ? ranks(groupOf.texts) : [];
  const blockOf = new Int32Array(fleet.rows).fill(-1);
  const blockRanks: number[] = []; // order by group, cluster, node
  const found = new Map<number, number>();
  let before = Number.NaN;
  let block = -1;
  for (let row = 0; row < fleet.rows; row += 1) {
    if (!shown[row]) continue;
    const group = groupOf ? (groupOf.codes[row] as number) + 1 : 0; // 0: not known
    const clusterCode = cluster.codes[row] as number;
    const nodeCode = node.codes[row] as number;
    const key =
      (group * (cluster.texts.length + 1) + clusterCode + 1) * (node.texts.length + 1) + nodeCode + 1;
    if (key !== before) {
      // Rare, since devices of a node are adjacent.
      before = key;
      block = found.get(key) ?? -1;
      if (block < 0) {
        block = blockRanks.length;
        found.set(key, block);
        const rank = group === 0 ? groupRanks.length : (groupRanks[group - 1] ?? 0);
        const inGroup = (rank * cluster.texts.length + (clusterRanks[clusterCode] ?? 0)) * node.texts.length;
        blockRanks.push(inGroup + (nodeRanks[nodeCode] ?? 0));
      }
    }
    blockOf[row] = block;
  }
  return { blockOf, blockRanks };
}

function sorted(
  fleet: Fleet,
  blockOf: Int32Array,
  order: Uint32Array,
): { starts: Uint32Array; rows: Uint32Array } {
  const starts = new Uint32Array(order.length + 1);
  const placeOf = new Uint32Array(order.length);
  for (let place = 0; place < order.length; place += 1) placeOf[order[place] as number] = place;
  for (const block of blockOf) {
    if (block < 0) continue;
    const next = (placeOf[block] as number) + 1;
    starts[next] = (starts[next] as number) + 1;
  }
  for (let place = 0; place < order.length; place += 1)
    starts[place + 1] = (starts[place + 1] as number) + (starts[place] as number);
  const rows = new Uint32Array(starts[order.length] as number);
  const filled = starts.slice();
  for (let row = 0; row < fleet.rows; row += 1) {
    const block = blockOf[row] as number;
    if (block < 0) continue;
    const place = placeOf[block] as number;
    const target = filled[place] as number;
    rows[target] = row;
    filled[place] = target + 1;
  }
  const vendor = fleet.texts.vendor.codes;
  const index = fleet.numbers.index;
  const before = (a: number, b: number) =>
    (vendor[a] as number) - (vendor[b] as number) || (index?.[a] ?? 0) - (index?.[b] ?? 0) || a - b;
  for (let place = 0; place < order.length; place += 1) {
    const end = starts[place + 1] as number;
    for (let at = (starts[place] as number) + 1; at < end; at += 1) {
      if (before(rows[at - 1] as number, rows[at] as number) <= 0) continue; // usually already sorted
      rows.subarray(starts[place], end).sort(before);
      break;
    }
  }
  return { starts, rows };
}

// Ranks of texts in natural order (node-2 before node-10). Cached, since texts rarely change between responses.
const kept = new Map<string, { texts: readonly string[]; ranks: readonly number[] }>();

function ranks(texts: readonly string[]): readonly number[] {
  const name = `${texts.length} ${texts[0] ?? ""} ${texts.at(-1) ?? ""}`;
  const old = kept.get(name);
  if (old?.texts.every((text, place) => text === texts[place])) return old.ranks;
  const keys = texts.map((text, place) => ({
    place,
    key: text.replace(/\d+/g, (digits) => digits.padStart(12, "0")),
  }));
  keys.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
  const made = new Array<number>(texts.length);
  for (const [rank, { place }] of keys.entries()) made[place] = rank;
  if (kept.size >= 16) kept.clear();
  kept.set(name, { texts, ranks: made });
  return made;
}
