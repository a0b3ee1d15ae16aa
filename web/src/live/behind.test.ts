import { expect, it } from "vitest";
import {
  BEHIND_MS,
  behindSince,
  isBehind,
  lacks,
  lacksNothing,
  someUnanswered,
  tellAnswered,
} from "./behind";

it("lasts from the first change that is not shown until all are", () => {
  const [nodes, pods] = [{}, {}];
  expect(behindSince.value).toBeNull();
  lacks(nodes, 1000);
  lacks(pods, 2000);
  lacks(nodes, 3000);
  expect(behindSince.value).toBe(1000);
  lacksNothing(nodes);
  expect(behindSince.value).toBe(2000);
  lacksNothing(pods);
  lacksNothing(pods);
  expect(behindSince.value).toBeNull();
});

it("is told at once of a question that got no answer, until it gets one or is not asked any more", () => {
  const [nodes, pods] = [{}, {}];
  tellAnswered(nodes, true);
  expect(someUnanswered.value).toBe(false);
  tellAnswered(nodes, false);
  tellAnswered(pods, false);
  tellAnswered(nodes, true);
  expect(someUnanswered.value).toBe(true);
  lacksNothing(pods);
  expect(someUnanswered.value).toBe(false);
});

it("is told after a while only", () => {
  expect(isBehind(null, 1e9)).toBe(false);
  expect(isBehind(0, BEHIND_MS)).toBe(false);
  expect(isBehind(0, BEHIND_MS + 1)).toBe(true);
});
