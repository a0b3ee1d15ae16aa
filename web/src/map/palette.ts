// Colours as 32-bit pixels, computed once per theme and mode.
import { HEALTHS } from "./fleet";
import { CODES, FIRST_HEALTH, LEVELS, NOT_KNOWN } from "./paint-codes";

export type Rgb = readonly [red: number, green: number, blue: number];

export interface Palette {
  ground: number;
  ink: string; // of names
  mark: number; // frame around matches of the search
  plain: Uint32Array; // by paint code
  stale: Uint32Array; // faded
  dim: Uint32Array; // does not match the search
  frames: Uint32Array; // by health: around an unhealthy device
  dimFrames: Uint32Array;
}

const STALE = 0.55; // share of the background colour
const DIM = 0.84;
const OK_FADE = 0.5; // healthy devices are less prominent

export function rgb(hex: string): Rgb {
  const digits = hex.trim().slice(1);
  const whole = digits.length === 3 ? digits.replace(/./g, "$&$&") : digits;
  if (!/^[0-9a-f]{6}$/i.test(whole)) throw new Error(`not a colour: ${hex}`);
  return [0, 2, 4].map((at) => Number.parseInt(whole.slice(at, at + 2), 16)) as unknown as Rgb;
}

export function mix(one: Rgb, other: Rgb, ofOther: number): Rgb {
  return one.map((part, place) =>
    Math.round(part + ((other[place] as number) - part) * ofOther),
  ) as unknown as Rgb;
}

// Little endian, as on all platforms of browsers: red first.
export function pixel([red, green, blue]: Rgb): number {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

// Interpolates between the stops of a scale; place from 0 to 1.
export function interpolate(stops: readonly Rgb[], place: number): Rgb {
  const at = Math.min(1, Math.max(0, place)) * (stops.length - 1);
  const below = Math.min(stops.length - 2, Math.floor(at));
  return mix(stops[below] as Rgb, stops[below + 1] as Rgb, at - below);
}

// token: returns the value of a CSS token as #rrggbb.
export function paletteOf(scale: "scale" | "heat" | null, token: (name: string) => string): Palette {
  const ground = rgb(token("surface"));
  const stops = [0, 1, 2, 3, 4].map((stop) => rgb(token(`${scale ?? "scale"}-${stop}`)));
  const healths = HEALTHS.map((health) => rgb(token(health)));
  const colours: Rgb[] = new Array(CODES);
  for (let level = 0; level < LEVELS; level += 1) colours[level] = interpolate(stops, level / (LEVELS - 1));
  colours[NOT_KNOWN] = mix(rgb(token("unknown")), ground, 0.35);
  for (const [place, colour] of healths.entries())
    colours[FIRST_HEALTH + place] = place === 0 ? mix(colour, ground, OK_FADE) : colour;
  const all = (ofGround: number) =>
    Uint32Array.from(colours, (colour) => pixel(mix(colour, ground, ofGround)));
  return {
    ground: pixel(ground),
    ink: token("ink-soft"),
    mark: pixel(rgb(token("ink"))),
    plain: all(0),
    stale: all(STALE),
    dim: all(DIM),
    frames: Uint32Array.from(healths, pixel),
    dimFrames: Uint32Array.from(healths, (colour) => pixel(mix(colour, ground, DIM))),
  };
}
