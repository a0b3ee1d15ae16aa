// What a browser keeps for the reader. One that keeps nothing, because it was told so, throws when it is asked: then a
// choice lasts as long as the page.

export type Where = "localStorage" | "sessionStorage"; // on this machine, or for this tab only

export function kept(where: Where, name: string): string | null {
  try {
    return globalThis[where].getItem(name);
  } catch {
    return null;
  }
}

// null: nothing is kept any more.
export function keep(where: Where, name: string, value: string | null): void {
  try {
    if (value === null) globalThis[where].removeItem(name);
    else globalThis[where].setItem(name, value);
  } catch {
    // as above
  }
}
