// Writes devices directly into pixels: 80,000 squares in a few milliseconds. Canvas drawing calls would take many frames.
import { DEEP, type Layout, lineAt } from "./layout";
import { FIRST_HEALTH, NOT_KNOWN } from "./paint-codes";
import type { Palette } from "./palette";

export interface Pixels {
  data: Uint32Array;
  width: number; // in device pixels, as all numbers here
  height: number;
}

export interface Painting {
  layout: Layout;
  codes: Uint8Array; // by row of the fleet
  healths: Uint8Array;
  stale: Uint8Array;
  found: Uint8Array | null; // null: no search
  palette: Palette;
}

const MARKED = 1000; // maximum number of small matches that get a mark
const SHAPES_FROM = 6; // pixels; smaller squares have only a colour

// Draws the map from `top` (CSS pixels); `ratio`: device pixels per CSS pixel.
export function paint(pixels: Pixels, painting: Painting, top: number, ratio: number): void {
  const { layout, palette } = painting;
  const { arrangement, pitch } = layout;
  pixels.data.fill(palette.ground);
  const bottom = top + pixels.height / ratio;
  const size = Math.max(1, Math.round(layout.size * ratio));
  const marks: { row: number; x: number; y: number }[] = [];
  for (let line = Math.max(0, lineAt(layout, top) - 1); line < layout.tops.length; line += 1) {
    const lineTop = (layout.tops[line] as number) + layout.label;
    if (lineTop > bottom) break;
    if (lineTop + DEEP * pitch < top) continue;
    const end = layout.lineStarts[line + 1] as number;
    for (let block = layout.lineStarts[line] as number; block < end; block += 1) {
      const first = arrangement.starts[block] as number;
      const last = arrangement.starts[block + 1] as number;
      const wide = layout.columns[block] as number;
      const left = layout.lefts[block] as number;
      for (let place = first; place < last; place += 1) {
        const within = place - first;
        const deep = within >= wide ? Math.floor(within / wide) : 0;
        const x = Math.round((left + (within - deep * wide) * pitch) * ratio);
        const y = Math.round((lineTop + deep * pitch - top) * ratio);
        const row = arrangement.rows[place] as number;
        device(pixels, painting, row, x, y, size);
        if (painting.found?.[row] && size < SHAPES_FROM && marks.length <= MARKED) marks.push({ row, x, y });
      }
    }
  }
  if (marks.length > MARKED) return;
  for (const { x, y } of marks) fillRect(pixels, x - 2, y - 2, size + 4, size + 4, palette.mark);
  for (const { row, x, y } of marks) device(pixels, painting, row, x, y, size);
}

function device(pixels: Pixels, painting: Painting, row: number, x: number, y: number, size: number): void {
  const { codes, healths, stale, found, palette } = painting;
  const code = codes[row] as number;
  const health = healths[row] as number;
  const dimmed = found !== null && !found[row];
  // Unhealthy devices do not fade: lost devices are always stale.
  const faded = stale[row] && !(code >= FIRST_HEALTH && health >= 1 && health <= 3);
  const colours = dimmed ? palette.dim : faded ? palette.stale : palette.plain;
  const colour = colours[code] as number;
  if (size < SHAPES_FROM) {
    fillRect(pixels, x, y, size, size, colour);
    return;
  }
  if (code >= FIRST_HEALTH) {
    drawHealthShape(pixels, x, y, size, colour, code - FIRST_HEALTH, palette.ground);
    return;
  }
  if (code === NOT_KNOWN) frame(pixels, x, y, size, Math.max(1, Math.round(size / 8)), colour);
  else fillRect(pixels, x, y, size, size, colour);
  if (health >= 1 && health <= 3) {
    const frames = dimmed ? palette.dimFrames : palette.frames;
    const thick = Math.max(1, Math.round(size / (health === 1 ? 7 : 5)));
    frame(pixels, x, y, size, thick, frames[health] as number);
    // A gap between frame and content, which may have the same lightness.
    if (size >= 12) frame(pixels, x + thick, y + thick, size - 2 * thick, 1, palette.ground);
  }
}

// Each health has a shape in addition to its colour: full, cut corner, hole, ring, stripes.
export function drawHealthShape(
  pixels: Pixels,
  x: number,
  y: number,
  size: number,
  colour: number,
  health: number,
  ground: number,
): void {
  const third = Math.max(1, Math.round(size / 3));
  if (health === 3) {
    frame(pixels, x, y, size, Math.max(1, Math.round(size / 5)), colour);
    return;
  }
  fillRect(pixels, x, y, size, size, colour);
  if (health === 1) {
    const cut = Math.round(size * 0.6);
    for (let down = 0; down < cut; down += 1)
      fillRect(pixels, x + size - cut + down, y + down, cut - down, 1, ground);
  } else if (health === 2) {
    const hole = Math.max(2, size - 2 * third);
    const start = (size - hole) >> 1;
    fillRect(pixels, x + start, y + start, hole, hole, ground);
  } else if (health === 4) {
    const stripe = Math.max(1, Math.round(size / 5));
    fillRect(pixels, x, y + stripe, size, stripe, ground);
    fillRect(pixels, x, y + 3 * stripe, size, stripe, ground);
  }
}

export function frame(
  pixels: Pixels,
  x: number,
  y: number,
  size: number,
  thick: number,
  colour: number,
): void {
  if (size <= 0) return;
  fillRect(pixels, x, y, size, thick, colour);
  fillRect(pixels, x, y + size - thick, size, thick, colour);
  fillRect(pixels, x, y + thick, thick, size - 2 * thick, colour);
  fillRect(pixels, x + size - thick, y + thick, thick, size - 2 * thick, colour);
}

export function fillRect(
  pixels: Pixels,
  x: number,
  y: number,
  wide: number,
  high: number,
  colour: number,
): void {
  const { data, width } = pixels;
  const left = Math.max(0, x);
  const right = Math.min(width, x + wide);
  const bottom = Math.min(pixels.height, y + high);
  for (let down = Math.max(0, y); down < bottom; down += 1) {
    const start = down * width;
    for (let place = start + left; place < start + right; place += 1) data[place] = colour;
  }
}
