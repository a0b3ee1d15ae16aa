// Keyboard navigation of the map: the next device in a direction, across nodes, lines and groups.
import { type Layout, positionOf } from "./layout";

export type Step = "left" | "right" | "up" | "down" | "first" | "last" | "group-before" | "group-after";

export function moveCursor(layout: Layout, place: number, step: Step): number {
  const { rows, groups, starts } = layout.arrangement;
  if (rows.length === 0) return place;
  switch (step) {
    case "first":
      return 0;
    case "last":
      return rows.length - 1;
    case "group-before":
    case "group-after": {
      const { block } = positionOf(layout, place);
      const at = groups.findLastIndex((group) => group.firstBlock <= block);
      const to = Math.min(groups.length - 1, Math.max(0, at + (step === "group-after" ? 1 : -1)));
      return starts[groups[to]?.firstBlock ?? 0] ?? 0;
    }
    default:
      return neighbour(layout, place, step);
  }
}

function neighbour(layout: Layout, place: number, step: "left" | "right" | "up" | "down"): number {
  const { starts } = layout.arrangement;
  const { x, line, block } = positionOf(layout, place);
  const first = starts[block] as number;
  const wide = layout.columns[block] as number;
  const deep = Math.floor((place - first) / wide);
  const column = (place - first) % wide;
  if (step === "left" || step === "right") {
    const across = column + (step === "right" ? 1 : -1);
    const next = first + deep * wide + across;
    if (across >= 0 && across < wide && next < (starts[block + 1] as number)) return next;
    return edge(layout, block + (step === "right" ? 1 : -1), deep, step) ?? place;
  }
  const below = deep + (step === "down" ? 1 : -1);
  const straight = first + below * wide + column;
  if (below >= 0 && straight >= first && straight < (starts[block + 1] as number)) return straight;
  return nearest(layout, line + (step === "down" ? 1 : -1), x, step === "down" ? 0 : 1) ?? place;
}

// The device at the near edge of a block, in the same row if the block has it.
function edge(layout: Layout, block: number, deep: number, step: "left" | "right"): number | null {
  const { starts } = layout.arrangement;
  if (block < 0 || block >= starts.length - 1) return null;
  const first = starts[block] as number;
  const end = starts[block + 1] as number;
  const wide = layout.columns[block] as number;
  const from = first + deep * wide;
  if (from >= end) return step === "right" ? first : Math.min(first + wide, end) - 1;
  return step === "right" ? from : Math.min(from + wide, end) - 1;
}

// The device of a line that is nearest to x.
function nearest(layout: Layout, line: number, x: number, deep: number): number | null {
  if (line < 0 || line >= layout.tops.length) return null;
  const { starts } = layout.arrangement;
  let best: number | null = null;
  let distance = Number.POSITIVE_INFINITY;
  const from = layout.lineStarts[line] as number;
  const to = layout.lineStarts[line + 1] as number;
  for (let block = from; block < to; block += 1) {
    const first = starts[block] as number;
    const end = starts[block + 1] as number;
    const wide = layout.columns[block] as number;
    for (let column = 0; column < wide; column += 1) {
      const away = Math.abs((layout.lefts[block] as number) + column * layout.pitch - x);
      if (away >= distance) continue;
      const wanted = first + deep * wide + column;
      best = wanted < end ? wanted : Math.min(first + column, end - 1);
      distance = away;
    }
  }
  return best;
}
