import { describe, expect, it } from "vitest";
import { escapeValue, splitValues, valuesOf } from "./values";

describe("values of a parameter", () => {
  it.each([
    ["a", ["a"]],
    ["a,b", ["a", "b"]],
    ["a\\,b", ["a,b"]],
    ["a\\\\,b", ["a\\", "b"]],
    ["a\\", ["a\\"]],
    [",,a,", ["a"]],
    ["", []],
  ])("%j", (text, words) => {
    expect(splitValues(text)).toEqual(words);
  });

  it.each(["plain", "a,b", "back\\slash", "\\,", "end\\"])("escapes and splits: %j", (value) => {
    expect(splitValues(escapeValue(value))).toEqual([value]);
  });

  it("merges repeated and joined values", () => {
    expect(valuesOf(new URLSearchParams("v=a,b&v=b&v=c&w=x"), "v")).toEqual(["a", "b", "c"]);
    expect(valuesOf(new URLSearchParams("w=x"), "v")).toEqual([]);
  });
});
