// Browser storage. A browser that forbids storage throws; settings then last as long as the page.

export type StorageKind = "localStorage" | "sessionStorage"; // permanent, or for this tab

export function readStorage(where: StorageKind, name: string): string | null {
  try {
    return globalThis[where].getItem(name);
  } catch {
    return null;
  }
}

// null removes the entry.
export function writeStorage(where: StorageKind, name: string, value: string | null): void {
  try {
    if (value === null) globalThis[where].removeItem(name);
    else globalThis[where].setItem(name, value);
  } catch {
    // storage is forbidden
  }
}
