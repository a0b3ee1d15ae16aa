import { describe, expect, it } from "vitest";
import { asWord, splitWords, wordsOf } from "./words";

describe("words of a parameter", () => {
  it.each([
    ["a", ["a"]],
    ["a,b", ["a", "b"]],
    ["a\\,b", ["a,b"]],
    ["a\\\\,b", ["a\\", "b"]],
    ["a\\", ["a\\"]],
    [",,a,", ["a"]],
    ["", []],
  ])("%j", (text, words) => {
    expect(splitWords(text)).toEqual(words);
  });

  it.each(["plain", "a,b", "back\\slash", "\\,", "end\\"])("comes back as it went: %j", (value) => {
    expect(splitWords(asWord(value))).toEqual([value]);
  });

  it("takes repeated and joined values, each once", () => {
    expect(wordsOf(new URLSearchParams("v=a,b&v=b&v=c&w=x"), "v")).toEqual(["a", "b", "c"]);
    expect(wordsOf(new URLSearchParams("w=x"), "v")).toEqual([]);
  });
});
