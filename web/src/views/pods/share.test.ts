import { expect, it } from "vitest";
import { shareOf } from "./share";

const none = { allocated: 1, partition: null, memory_share_bytes: null, compute_share_ratio: null };

it.each([
  [{ ...none, allocated: 0 }, "none"],
  [{ ...none, partition: "1g.10gb" }, "partition"],
  [{ ...none, compute_share_ratio: 0.5, memory_share_bytes: 2 ** 34 }, "50 %, 16 GiB"],
  [{ ...none, memory_share_bytes: 2 ** 34 }, "16 GiB"],
  [{ ...none, allocated: 3 }, "allocated, 3 ids"],
  [none, "allocated"],
])("%j", (row, text) => {
  expect(shareOf(row)).toBe(text);
});
