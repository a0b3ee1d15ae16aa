// The order of rows, in the API's words: fields with commas between, `-` for the largest first.

export interface Order {
  field: string;
  descending: boolean;
}

export function orderOf(sort: string): Order[] {
  return sort
    .split(",")
    .filter((word) => word !== "" && word !== "-")
    .map((word) =>
      word.startsWith("-") ? { field: word.slice(1), descending: true } : { field: word, descending: false },
    );
}

export type AriaSort = "ascending" | "descending" | "none";

// Of a column: only the first field of the order shows, as ARIA asks.
export function ariaSort(orders: readonly Order[], field: string): AriaSort {
  const first = orders[0];
  if (first?.field !== field) return "none";
  return first.descending ? "descending" : "ascending";
}

// After a click on a column: first the way that is asked for most, then the other way, then as it was at first (null).
export function nextSort(orders: readonly Order[], field: string, descendingFirst: boolean): string | null {
  const first = orders[0];
  if (first?.field !== field) return descendingFirst ? `-${field}` : field;
  if (first.descending === descendingFirst) return descendingFirst ? field : `-${field}`;
  return null;
}
