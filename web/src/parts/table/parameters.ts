// Converts the page's address to API parameters. Unknown parameters are not sent.
import type { Parameters } from "../../api/client";
import { isFilter } from "./fields";

export const FIRST_ROWS = 100;
const MORE_ROWS = 200;
const MOST_ROWS = 500; // users search longer lists

export interface Defaults {
  fields: readonly string[]; // fields of the API's rows that can be filtered
  sort?: string; // default order; undefined: not sortable
  rename?: Readonly<Record<string, string>>; // name in the address → name in this API table
  own?: readonly string[]; // parameters of the address for the view only
  fixed?: Readonly<Record<string, string | number>>; // always sent
}

export function tableParameters(
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

// Number of rows to request for "Show more"; null: no more.
export function moreRows(shown: number, total: number): number | null {
  if (shown >= total || shown >= MOST_ROWS) return null;
  return Math.min(shown + MORE_ROWS, MOST_ROWS);
}
