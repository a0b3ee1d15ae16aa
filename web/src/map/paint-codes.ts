// Colour codes of devices: a level of the scale, a health, or "not known".
import { type Fleet, HEALTHS, healthCodes } from "./fleet";
import { MODE_INFO, type Mode } from "./modes";

export const LEVELS = 48;
export const NOT_KNOWN = LEVELS;
export const FIRST_HEALTH = LEVELS + 1;
export const CODES = FIRST_HEALTH + HEALTHS.length;

export function paintCodes(fleet: Fleet, mode: Mode): Uint8Array {
  const meaning = MODE_INFO[mode];
  if (meaning.scale === null) return healthCodes(fleet).map((health) => FIRST_HEALTH + health);
  const codes = new Uint8Array(fleet.rows);
  const steep = LEVELS / (meaning.high - meaning.low);
  for (let row = 0; row < fleet.rows; row += 1) {
    const value = meaning.value(fleet, row);
    codes[row] = value === null ? NOT_KNOWN : level((value - meaning.low) * steep);
  }
  return codes;
}

function level(place: number): number {
  return Math.min(LEVELS - 1, Math.max(0, Math.floor(place)));
}

// Number of devices by code.
export function countCodes(codes: Uint8Array, rows: ArrayLike<number>): Uint32Array {
  const counts = new Uint32Array(CODES);
  for (let place = 0; place < rows.length; place += 1) {
    const code = codes[rows[place] as number] as number;
    counts[code] = (counts[code] as number) + 1;
  }
  return counts;
}
