import { expect, it } from "vitest";
import { ofBytes } from "./pair";

const GIB = 2 ** 30;

it.each([
  [150 * GIB, 192 * GIB, "150 / 192 GiB"],
  [0.27 * GIB, 192 * GIB, "0.3 / 192 GiB"],
  [0, 192 * GIB, "0 / 192 GiB"],
  [1020 * GIB, 1536 * GIB, "1.0 / 1.5 TiB"],
  [100, 200, "100 / 200 B"],
  [null, 192 * GIB, "–"],
  [GIB, null, "–"],
])("%s of %s", (part, whole, text) => {
  expect(ofBytes(part, whole)).toBe(text);
});
