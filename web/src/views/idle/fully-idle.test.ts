import { expect, test } from "vitest";
import { query } from "../../api/client";
import { fullyIdle } from "./fully-idle";

test("fully idle devices use the filters that devices share with pods", () => {
  const address = new URLSearchParams("cluster=oslo&namespace=ml&q=notebook&owner_kind=Job&min_seconds=60");
  expect(query(fullyIdle(address, 60))).toBe("?cluster=oslo&namespace=ml&idle_seconds_min=60");
});
