import { expect, test } from "vitest";
import { drawHealthShape, fillRect, frame, type Pixels } from "./raster";

function blank(size = 8): Pixels {
  return { data: new Uint32Array(size * size), width: size, height: size };
}

function asText({ data, width, height }: Pixels): string[] {
  return Array.from({ length: height }, (_, row) =>
    [...data.subarray(row * width, (row + 1) * width)].map((one) => ".#"[one] ?? "?").join(""),
  );
}

test("a rectangle is clipped to the image", () => {
  const one = blank(4);
  fillRect(one, 1, 1, 2, 2, 1);
  expect(asText(one)).toEqual(["....", ".##.", ".##.", "...."]);
  const cut = blank(4);
  fillRect(cut, -1, 3, 3, 3, 1);
  expect(asText(cut)).toEqual(["....", "....", "....", "##.."]);
});

test("a frame", () => {
  const one = blank(4);
  frame(one, 0, 0, 4, 1, 1);
  expect(asText(one)).toEqual(["####", "#..#", "#..#", "####"]);
});

test("each health has its own shape", () => {
  const shapes = [0, 1, 2, 3, 4].map((health) => {
    const one = blank(8);
    drawHealthShape(one, 0, 0, 8, 1, health, 0);
    return asText(one).join("\n");
  });
  expect(new Set(shapes).size).toBe(5);
});
