import { afterEach, describe, expect, it, vi } from "vitest";

const failing = {
  configurable: true,
  get: () => {
    throw new DOMException("denied", "SecurityError");
  },
};

function stubStorage(): void {
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

describe("a browser without storage", () => {
  it("still accepts a token and settings", async () => {
    for (const name of ["localStorage", "sessionStorage"]) Object.defineProperty(globalThis, name, failing);
    const { token, setToken } = await import("../api/client");
    const { keysEnabled, setKeysEnabled } = await import("./keyboard");
    expect(token.value).toBeNull();
    expect(keysEnabled.value).toBe(true);
    setToken("secret");
    setKeysEnabled(false);
    expect(token.value).toBe("secret");
    expect(keysEnabled.value).toBe(false);
  });
});

describe("a browser with storage", () => {
  it("returns a stored value until it is removed", async () => {
    stubStorage();
    const { writeStorage, readStorage } = await import("./storage");
    expect(readStorage("localStorage", "theme")).toBeNull();
    writeStorage("localStorage", "theme", "dark");
    expect(readStorage("localStorage", "theme")).toBe("dark");
    writeStorage("localStorage", "theme", null);
    expect(readStorage("localStorage", "theme")).toBeNull();
  });
});
