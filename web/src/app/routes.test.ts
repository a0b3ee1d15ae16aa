import { expect, test } from "vitest";
import { linkTo, placeOf } from "./routes";

test.each([
  ["/", "overview", {}],
  ["/map", "map", {}],
  ["/nodes/", "nodes", {}],
  ["/nodes/berlin/h100-1", "node", { cluster: "berlin", node: "h100-1" }],
  ["/devices/b/n/nvidia%3AGPU-1%2F2", "device", { cluster: "b", node: "n", device: "nvidia:GPU-1/2" }],
])("%s is %s", (path, view, parts) => {
  expect(placeOf(path)).toEqual({ view, parts });
});

test.each(["/no", "/nodes/berlin", "/nodes/berlin/", "/devices/b/n/%E0%A4%A"])(
  "%s matches no view",
  (path) => {
    expect(placeOf(path)).toBeNull();
  },
);

test("a link is parsed back to its parts", () => {
  const parts = { cluster: "b", node: "n", device: "nvidia:GPU 1/2?#%" };
  expect(placeOf(linkTo("device", parts))).toEqual({ view: "device", parts });
});
