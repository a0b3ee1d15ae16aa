import { expect, test } from "vitest";
import { frame, type Pixels, shaped, square } from "./raster";

function paper(size = 8): Pixels {
  return { data: new Uint32Array(size * size), width: size, height: size };
}

function seen({ data, width, height }: Pixels): string[] {
  return Array.from({ length: height }, (_, row) =>
    [...data.subarray(row * width, (row + 1) * width)].map((one) => ".#"[one] ?? "?").join(""),
  );
}

test("a square, and no more than the paper", () => {
  const one = paper(4);
  square(one, 1, 1, 2, 2, 1);
  expect(seen(one)).toEqual(["....", ".##.", ".##.", "...."]);
  const cut = paper(4);
  square(cut, -1, 3, 3, 3, 1);
  expect(seen(cut)).toEqual(["....", "....", "....", "##.."]);
});

test("a frame", () => {
  const one = paper(4);
  frame(one, 0, 0, 4, 1, 1);
  expect(seen(one)).toEqual(["####", "#..#", "#..#", "####"]);
});

test("no two healths have the same shape", () => {
  const shapes = [0, 1, 2, 3, 4].map((health) => {
    const one = paper(8);
    shaped(one, 0, 0, 8, 1, health, 0);
    return seen(one).join("\n");
  });
  expect(new Set(shapes).size).toBe(5);
});
