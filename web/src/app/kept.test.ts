import { afterEach, describe, expect, it, vi } from "vitest";

const refusing = {
  configurable: true,
  get: () => {
    throw new DOMException("denied", "SecurityError");
  },
};

function keeping(): void {
  const values = new Map<string, string>();
  vi.stubGlobal("localStorage", {
    getItem: (name: string) => values.get(name) ?? null,
    setItem: (name: string, value: string) => values.set(name, value),
    removeItem: (name: string) => values.delete(name),
  });
}

afterEach(() => {
  vi.unstubAllGlobals();
  for (const name of ["localStorage", "sessionStorage"]) Reflect.deleteProperty(globalThis, name);
  vi.resetModules();
});

describe("a browser that keeps nothing", () => {
  it("still has a page, a token and keys", async () => {
    for (const name of ["localStorage", "sessionStorage"]) Object.defineProperty(globalThis, name, refusing);
    const { token, useToken } = await import("../api/client");
    const { keysOn, turnKeys } = await import("./keyboard");
    expect(token.value).toBeNull();
    expect(keysOn.value).toBe(true);
    useToken("secret");
    turnKeys(false);
    expect(token.value).toBe("secret");
    expect(keysOn.value).toBe(false);
  });
});

describe("a browser that keeps things", () => {
  it("gives back what it was given, until that is taken back", async () => {
    keeping();
    const { keep, kept } = await import("./kept");
    expect(kept("localStorage", "theme")).toBeNull();
    keep("localStorage", "theme", "dark");
    expect(kept("localStorage", "theme")).toBe("dark");
    keep("localStorage", "theme", null);
    expect(kept("localStorage", "theme")).toBeNull();
  });
});
