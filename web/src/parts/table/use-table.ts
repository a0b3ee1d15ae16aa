// Rows of the API for a table: asked as the address says, kept while a newer answer is on its way, live.
import { useRef, useState } from "preact/hooks";
import { type Problem, query } from "../../api/client";
import { go, pathname, search, withParameter } from "../../app/location";
import { concernsClusters, useResource, type Watching } from "../../live/resource";
import { wordsOf } from "../filters/words";
import { isFilter } from "./fields";
import { type Defaults, FIRST_ROWS, moreRows, questionOf } from "./question";
import { nextSort, type Order, orderOf } from "./sort";

export interface Rows<R> {
  items: readonly R[];
  total: number;
  at: number;
}

// What a list shows, wherever its rows are from.
export interface Listed<R> {
  rows: readonly R[] | null; // null: nothing was answered yet
  total: number | null;
  asking: boolean; // the rows are of an older question
  problem: Problem | null;
  refetch: () => void;
  more: (() => void) | null; // null: all are here, or as many as there may be
  isFilter: (name: string) => boolean; // of a parameter of the address
  orders: readonly Order[];
  sortBy: (field: string, descendingFirst: boolean) => void;
}

export interface Table<R, A extends Rows<R> = Rows<R>> extends Listed<R> {
  answer: A | null; // the whole of it
}

// All rows that are shown are asked for anew, in one question, when something changed: what was loaded later is as
// fresh as the first page, and no row is there twice because it moved in between.
export function useTable<R, A extends Rows<R> = Rows<R>>(
  url: string,
  defaults: Defaults,
  watching: Watching = {},
): Table<R, A> {
  const address = useAddress();
  const question = questionOf(address, defaults);
  const asked = query(question);
  const [wanted, setWanted] = useState({ of: asked, rows: FIRST_ROWS });
  const limit = wanted.of === asked ? wanted.rows : FIRST_ROWS;
  const resource = useResource<A>(
    url,
    { ...question, limit },
    {
      concerns: concernsClusters(wordsOf(address, "cluster")),
      ...watching,
      keepWhileAsking: true,
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

// A view stays until the next one can be shown; the new place's address is none of its business.
function useAddress(): URLSearchParams {
  const path = useRef(pathname.value);
  const last = useRef(search.value);
  if (pathname.value === path.current) last.current = search.value;
  return last.current;
}
