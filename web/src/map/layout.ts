// Layout of the map in CSS pixels. Nodes flow like words in lines of two devices height. Only lines and nodes have stored
// positions; those of devices are computed from them.
import type { Arrangement } from "./arrangement";

export const DEEP = 2; // rows of devices in a node
export const HEADING = 30; // height of a group's heading
const AFTER_GROUP = 8;
const LABEL = 15; // height of a node's name
const LABELS_FROM = 16; // minimum pitch for names
const PITCHES = [2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 26, 34] as const;

// The next larger (1) or smaller (-1) size.
export function nextPitch(pitch: number, by: 1 | -1): number {
  const at = PITCHES.findLastIndex((one) => one <= pitch);
  return PITCHES[Math.min(PITCHES.length - 1, Math.max(0, at + by))] ?? pitch;
}

export interface Layout {
  arrangement: Arrangement;
  width: number;
  height: number;
  pitch: number; // from device to device
  size: number; // of a device
  label: number; // height of a node's name; 0: not shown
  headings: readonly number[]; // top of each group
  tops: Float64Array; // of each line
  lineStarts: Uint32Array; // first block of each line, plus the end
  lefts: Float64Array; // of each block
  columns: Uint16Array; // of each block
}

export function layOut(arrangement: Arrangement, width: number, pitch: number): Layout {
  const { groups, starts } = arrangement;
  const blocks = starts.length - 1;
  const size = pitch >= 4 ? pitch - (pitch >= 12 ? 2 : 1) : pitch;
  const apart = Math.max(1, Math.round(pitch * 0.5));
  const label = pitch >= LABELS_FROM ? LABEL : 0;
  const lineHeight = label + DEEP * pitch + apart;
  const lefts = new Float64Array(blocks);
  const columns = new Uint16Array(blocks);
  const tops: number[] = [];
  const lineStarts: number[] = [];
  const headings: number[] = [];
  let y = 0;
  for (const group of groups) {
    headings.push(y);
    y += HEADING;
    let x = Number.POSITIVE_INFINITY;
    for (let block = group.firstBlock; block < group.firstBlock + group.blocks; block += 1) {
      const devices = (starts[block + 1] as number) - (starts[block] as number);
      const wide = Math.max(1, Math.ceil(devices / DEEP));
      if (x + wide * pitch > width) {
        if (x !== Number.POSITIVE_INFINITY) y += lineHeight;
        tops.push(y);
        lineStarts.push(block);
        x = 0;
      }
      lefts[block] = x;
      columns[block] = wide;
      x += wide * pitch + apart;
    }
    y += lineHeight + AFTER_GROUP;
  }
  lineStarts.push(blocks);
  return {
    arrangement,
    width,
    height: Math.max(0, y),
    pitch,
    size,
    label,
    headings,
    tops: Float64Array.from(tops),
    lineStarts: Uint32Array.from(lineStarts),
    lefts,
    columns,
  };
}

// The largest size at which everything is visible, or else the smallest size.
export function fitLayout(arrangement: Arrangement, width: number, height: number): Layout {
  let best: Layout | null = null;
  for (const pitch of PITCHES) {
    const tried = layOut(arrangement, width, pitch);
    if (best && tried.height > height) return best;
    best = tried;
  }
  return best as Layout;
}

// The last line that starts at or above y; -1: none.
export function lineAt(layout: Layout, y: number): number {
  return lastAtMost(layout.tops, y, 0, layout.tops.length);
}

function lastAtMost(sorted: Float64Array, value: number, from: number, to: number): number {
  let low = from;
  let high = to;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] as number) <= value) low = middle + 1;
    else high = middle;
  }
  return low > from ? low - 1 : -1;
}

export interface HitTarget {
  block: number;
  place: number | null; // index in the arrangement's rows; null: the node's name
}

export function hitTest(layout: Layout, x: number, y: number): HitTarget | null {
  const line = lineAt(layout, y);
  if (line < 0) return null;
  const down = y - (layout.tops[line] as number);
  if (down >= layout.label + DEEP * layout.pitch) return null;
  const first = layout.lineStarts[line] as number;
  const block = lastAtMost(layout.lefts, x, first, layout.lineStarts[line + 1] as number);
  if (block < 0) return null;
  const column = Math.floor((x - (layout.lefts[block] as number)) / layout.pitch);
  if (column >= (layout.columns[block] as number)) return null;
  if (down < layout.label) return { block, place: null };
  const place = placeAt(layout, block, column, Math.floor((down - layout.label) / layout.pitch));
  return place === null ? null : { block, place };
}

function placeAt(layout: Layout, block: number, column: number, deep: number): number | null {
  const { starts } = layout.arrangement;
  const place = (starts[block] as number) + deep * (layout.columns[block] as number) + column;
  return place < (starts[block + 1] as number) ? place : null;
}

export function blockOf(layout: Layout, place: number): number {
  const { starts } = layout.arrangement;
  let low = 0;
  let high = starts.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((starts[middle] as number) <= place) low = middle;
    else high = middle - 1;
  }
  return low;
}

export interface Position {
  x: number;
  y: number;
  line: number;
  block: number;
}

export function positionOf(layout: Layout, place: number): Position {
  const block = blockOf(layout, place);
  const line = lineOf(layout, block);
  const within = place - (layout.arrangement.starts[block] as number);
  const wide = layout.columns[block] as number;
  return {
    x: (layout.lefts[block] as number) + (within % wide) * layout.pitch,
    y: (layout.tops[line] as number) + layout.label + Math.floor(within / wide) * layout.pitch,
    line,
    block,
  };
}

function lineOf(layout: Layout, block: number): number {
  let low = 0;
  let high = layout.tops.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((layout.lineStarts[middle] as number) <= block) low = middle;
    else high = middle - 1;
  }
  return low;
}
