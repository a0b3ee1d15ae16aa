import { expect, test } from "vitest";
import { query } from "../../api/client";
import { standingStill } from "./still";

test("devices that stand still are those of the filters that the list of pods has", () => {
  const address = new URLSearchParams("cluster=oslo&namespace=ml&q=notebook&owner_kind=Job&min_seconds=60");
  expect(query(standingStill(address, 60))).toBe("?cluster=oslo&namespace=ml&idle_seconds_min=60");
});
