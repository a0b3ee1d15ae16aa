import { expect, test } from "vitest";
import { query } from "../../api/client";
import { whollyIdle } from "./wholly";

test("wholly idle devices are those of the filters that the list of pods has", () => {
  const address = new URLSearchParams("cluster=oslo&namespace=ml&q=notebook&owner_kind=Job&min_seconds=60");
  expect(query(whollyIdle(address, 60))).toBe("?cluster=oslo&namespace=ml&idle_seconds_min=60");
});
