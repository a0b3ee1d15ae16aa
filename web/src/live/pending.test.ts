import { expect, it } from "vitest";
import {
  clearPending,
  DELAYED_AFTER_MS,
  hasFailedRequests,
  isDelayed,
  markPending,
  markResponded,
  pendingSince,
} from "./pending";

it("a change is pending until all requests have fetched it", () => {
  const [nodes, pods] = [{}, {}];
  expect(pendingSince.value).toBeNull();
  markPending(nodes, 1000);
  markPending(pods, 2000);
  markPending(nodes, 3000);
  expect(pendingSince.value).toBe(1000);
  clearPending(nodes);
  expect(pendingSince.value).toBe(2000);
  clearPending(pods);
  clearPending(pods);
  expect(pendingSince.value).toBeNull();
});

it("a failed request counts until it succeeds or is dropped", () => {
  const [nodes, pods] = [{}, {}];
  markResponded(nodes, true);
  expect(hasFailedRequests.value).toBe(false);
  markResponded(nodes, false);
  markResponded(pods, false);
  markResponded(nodes, true);
  expect(hasFailedRequests.value).toBe(true);
  clearPending(pods);
  expect(hasFailedRequests.value).toBe(false);
});

it("a short delay is not reported", () => {
  expect(isDelayed(null, 1e9)).toBe(false);
  expect(isDelayed(0, DELAYED_AFTER_MS)).toBe(false);
  expect(isDelayed(0, DELAYED_AFTER_MS + 1)).toBe(true);
});
