import { expect, it } from "vitest";
import { csv } from "./csv";

it("writes a line for each row, absent values empty", () => {
  expect(
    csv(
      ["pod", "hours"],
      [
        ["a", 1.5],
        ["b", null],
      ],
    ),
  ).toBe("pod,hours\r\na,1.5\r\nb,\r\n");
});

it("quotes special characters", () => {
  expect(csv(["x"], [['say "a,b"'], ["two\nlines"]])).toBe('x\r\n"say ""a,b"""\r\n"two\nlines"\r\n');
});

it.each([
  "=1+1",
  "+1",
  "-1",
  "@x",
  "\tx",
  "\rx",
  "\n=1+1",
  "\nx",
  "\u000bx",
  "\u0000=1",
  "  =1+1",
  "\u00a0=1+1",
  "\u200b=1+1",
  "\ufeff=1+1",
  "\uff1d1+1", // ＝
  "\uff0b1", // ＋
  "\uff0d1", // －
  "\uff20x", // ＠
  "\u3000\uff1d1", // after an ideographic space
  "\ufe661", // ﹦
  "\u22121", // −
])("escapes formulas: %j", (text) => {
  expect(csv(["x"], [[text]])).toContain(`'${text}`);
});

it.each(["a=1", "job-7", "x@y", "python", "８卡", "ﬁle", ""])("does not change other texts: %j", (text) => {
  expect(csv(["x"], [[text]])).toBe(`x\r\n${text}\r\n`);
});

it("does not change negative numbers", () => {
  expect(csv(["x"], [[-1]])).toBe("x\r\n-1\r\n");
});
