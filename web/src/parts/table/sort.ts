// The sort order in the API's syntax: fields separated by commas, `-` for descending.

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

// Only the first field is marked, as ARIA requires.
export function ariaSort(orders: readonly Order[], field: string): AriaSort {
  const first = orders[0];
  if (first?.field !== field) return "none";
  return first.descending ? "descending" : "ascending";
}

// The order after a click on a column: default direction, other direction, then the default order (null).
export function nextSort(orders: readonly Order[], field: string, descendingFirst: boolean): string | null {
  const first = orders[0];
  if (first?.field !== field) return descendingFirst ? `-${field}` : field;
  if (first.descending === descendingFirst) return descendingFirst ? field : `-${field}`;
  return null;
}
