// Live rows of the API for a table, with filters and order from the address.
import { useRef, useState } from "preact/hooks";
import { type Problem, query } from "../../api/client";
import { go, pathname, search, withParameter } from "../../app/location";
import { affectsClusters, type RefreshOptions, useResource } from "../../live/resource";
import { valuesOf } from "../filters/values";
import { isFilter } from "./fields";
import { type Defaults, FIRST_ROWS, moreRows, tableParameters } from "./parameters";
import { nextSort, type Order, orderOf } from "./sort";

export interface Rows<R> {
  items: readonly R[];
  total: number;
  at: number;
}

// Data of a list view.
export interface ListData<R> {
  rows: readonly R[] | null; // null: no response yet
  total: number | null;
  asking: boolean; // the rows are from the previous request
  problem: Problem | null;
  refetch: () => void;
  more: (() => void) | null; // null: no more rows
  isFilter: (name: string) => boolean; // whether a parameter of the address is a filter
  orders: readonly Order[];
  sortBy: (field: string, descendingFirst: boolean) => void;
}

export interface Table<R, A extends Rows<R> = Rows<R>> extends ListData<R> {
  answer: A | null; // the whole response
}

// A change fetches all shown rows again in one request, so that all are equally fresh and no row appears twice.
export function useTable<R, A extends Rows<R> = Rows<R>>(
  url: string,
  defaults: Defaults,
  refresh: RefreshOptions = {},
): Table<R, A> {
  const address = useAddress();
  const question = tableParameters(address, defaults);
  const asked = query(question);
  const [wanted, setWanted] = useState({ of: asked, rows: FIRST_ROWS });
  const limit = wanted.of === asked ? wanted.rows : FIRST_ROWS;
  const resource = useResource<A>(
    url,
    { ...question, limit },
    {
      affects: affectsClusters(valuesOf(address, "cluster")),
      ...refresh,
      keepPreviousData: true,
    },
  );
  const answer = resource.data;
  const more = answer === null ? null : moreRows(answer.items.length, answer.total);
  const orders = orderOf(defaults.sort === undefined ? "" : address.get("sort") || defaults.sort);
  return {
    rows: answer?.items ?? null,
    answer,
    total: answer?.total ?? null,
    asking: resource.loading,
    problem: resource.problem,
    refetch: resource.refetch,
    more: more === null ? null : () => setWanted({ of: asked, rows: more }),
    isFilter: (name) => isFilter(defaults.rename?.[name] ?? name, defaults.fields),
    orders,
    sortBy: (field, descendingFirst) => {
      const next = nextSort(orders, field, descendingFirst);
      go(withParameter("sort", next === null ? [] : [next]), { replace: true });
    },
  };
}

// The address of this view. It is frozen when the user navigates to another view, which may take a moment to load.
function useAddress(): URLSearchParams {
  const path = useRef(pathname.value);
  const last = useRef(search.value);
  if (pathname.value === path.current) last.current = search.value;
  return last.current;
}
