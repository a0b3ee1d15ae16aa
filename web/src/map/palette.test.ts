import { expect, test } from "vitest";
import css from "../style/tokens.css?raw";
import { interpolate, mix, paletteOf, pixel, type Rgb, rgb } from "./palette";

const [light = "", dark = ""] = css.split(':root[data-theme="dark"]');

function tokens(of: string): (name: string) => string {
  return (name) => new RegExp(`--${name}:\\s*(#[0-9a-f]{6})`, "i").exec(of)?.[1] ?? "";
}

// Relative luminance, 0 to 1.
function luminance(colour: Rgb): number {
  const [red, green, blue] = colour.map((part) => {
    const value = part / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  }) as unknown as Rgb;
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

const THEMES = [
  { theme: "light", token: tokens(light) },
  { theme: "dark", token: tokens(dark) },
];

test.each(THEMES.flatMap((theme) => ["scale", "heat"].map((scale) => ({ ...theme, scale }))))(
  "$scale in $theme is ordered by lightness and visible on the background",
  ({ token, scale }) => {
    const ground = luminance(rgb(token("surface")));
    const stops = [0, 1, 2, 3, 4].map((stop) => luminance(rgb(token(`${scale}-${stop}`))));
    const away = stops.map((one) => Math.abs(one - ground));
    for (let stop = 1; stop < stops.length; stop += 1)
      expect(away[stop] as number).toBeGreaterThan((away[stop - 1] as number) + 0.02);
    const lightest = Math.max(ground, stops[0] as number);
    const darkest = Math.min(ground, stops[0] as number);
    expect((lightest + 0.05) / (darkest + 0.05)).toBeGreaterThan(1.2);
  },
);

test.each(THEMES)(
  "every code has a colour in $theme; stale and dim ones are closer to the background",
  ({ token }) => {
    const palette = paletteOf("scale", token);
    expect(palette.plain.every((colour) => colour >>> 24 === 255)).toBe(true);
    const ground = luminance(fromPixel(palette.ground));
    const away = (colour: number | undefined) => Math.abs(luminance(fromPixel(colour ?? 0)) - ground);
    expect(away(palette.stale[40])).toBeLessThan(away(palette.plain[40]));
    expect(away(palette.dim[40])).toBeLessThan(away(palette.stale[40]));
  },
);

function fromPixel(colour: number): Rgb {
  return [colour & 255, (colour >> 8) & 255, (colour >> 16) & 255];
}

test("converts colours to pixels", () => {
  expect(rgb("#0f766e")).toEqual([15, 118, 110]);
  expect(rgb("#fa0")).toEqual([255, 170, 0]);
  expect(() => rgb("red")).toThrow();
  expect(pixel([1, 2, 3])).toBe(0xff030201);
  expect(mix([0, 0, 0], [100, 200, 50], 0.5)).toEqual([50, 100, 25]);
  expect(
    interpolate(
      [
        [0, 0, 0],
        [100, 100, 100],
        [200, 0, 0],
      ],
      0.75,
    ),
  ).toEqual([150, 50, 50]);
  expect(
    interpolate(
      [
        [0, 0, 0],
        [100, 100, 100],
      ],
      2,
    ),
  ).toEqual([100, 100, 100]);
});
