// From the page's address to a question for the API. Whatever the API understands may stand in the address; what it does
// not understand is not sent.
import type { Parameters } from "../../api/client";
import { isFilter } from "./fields";

export const FIRST_ROWS = 100;
const MORE_ROWS = 200;
const MOST_ROWS = 500; // a list with more is no longer read, but searched

export interface Defaults {
  fields: readonly string[]; // of the API's rows: what can be filtered by
  sort?: string; // of the API; left out: it takes none
  rename?: Readonly<Record<string, string>>; // name in the address → name in this API table
  own?: readonly string[]; // of the address: for the view, not for the API
  fixed?: Readonly<Record<string, string | number>>; // asked whatever the address says
}

export function questionOf(
  address: URLSearchParams,
  { fields, sort, rename = {}, own = [], fixed = {} }: Defaults,
): Parameters {
  const asked: Record<string, string[] | string | number> = {};
  for (const name of new Set(address.keys())) {
    if (own.includes(name) || name === "limit" || name === "cursor" || name === "sort") continue;
    const values = address.getAll(name).filter((value) => value.trim() !== "");
    const as = rename[name] ?? name;
    if (values.length === 0 || !isFilter(as, fields)) continue;
    const before = asked[as];
    asked[as] =
      name === "q" ? (values[0]?.trim() ?? "") : [...(Array.isArray(before) ? before : []), ...values];
  }
  if (sort !== undefined) asked.sort = address.get("sort") || sort;
  return { ...asked, ...fixed };
}

// How many rows to ask for when more are wanted.
export function moreRows(shown: number, total: number): number | null {
  if (shown >= total || shown >= MOST_ROWS) return null;
  return Math.min(shown + MORE_ROWS, MOST_ROWS);
}
