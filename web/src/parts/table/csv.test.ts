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

it("quotes what needs it", () => {
  expect(csv(["x"], [['say "a,b"'], ["two\nlines"]])).toBe('x\r\n"say ""a,b"""\r\n"two\nlines"\r\n');
});

it.each(["=1+1", "+1", "-1", "@x", "\tx"])("does not let a text be a formula: %j", (text) => {
  expect(csv(["x"], [[text]])).toContain(`'${text}`);
});

it("leaves negative numbers alone", () => {
  expect(csv(["x"], [[-1]])).toBe("x\r\n-1\r\n");
});
