import { expect, test } from "vitest";
import { nameOf, toneOf, whatToDo } from "./errors";

test("an error has the vendor's name", () => {
  expect(nameOf({ kind: "xid", code: "48" })).toBe("XID 48");
  expect(nameOf({ kind: "axi", code: "axi_post_error" })).toBe("axi post error");
});

test("only what affects the health has a colour", () => {
  expect(toneOf({ severity: "critical" })).toBe("critical");
  expect(toneOf({ severity: "warning" })).toBe("warning");
  expect(toneOf({ severity: "info" })).toBeUndefined();
  expect(toneOf({ severity: null })).toBeUndefined();
});

test("the first action says what ends the error", () => {
  expect(whatToDo({ action: "Drain the GPU", until: "reset" })).toBe("Drain the GPU. Lasts until a reset");
  expect(whatToDo({ action: "Restart the application", until: null })).toBe("Restart the application");
  expect(whatToDo({ action: null, until: null })).toBe("");
});
