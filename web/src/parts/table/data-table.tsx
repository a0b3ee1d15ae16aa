// A table with sortable headers, rows that are links, and columns that are dropped if they do not fit.
import { type ComponentChildren, Fragment } from "preact";
import { useCallback, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import {
  type Column,
  columnsChosen,
  columnsThatFit,
  leastWidth,
  subtitle,
  widthOf,
  widthRatio,
} from "./columns";
import { moveAmongRows, Row } from "./row";
import { ariaSort, type Order } from "./sort";
import "./table.css";

export type { Column } from "./columns";

const EXPANDER = 32; // pixels
const NARROW = 520; // pixels; below, the name has a second line

export interface RowAge {
  seconds: number | null;
}

// The age of a stale row of the API; null: fresh.
export function staleness({
  state,
  age_seconds,
}: {
  state: string;
  age_seconds: number | null;
}): RowAge | null {
  return state === "stale" ? { seconds: age_seconds } : null;
}

interface Props<R> {
  caption: string; // for screen readers
  columns: readonly Column<R>[]; // the first is the row header
  rows: readonly R[];
  rowKey: (row: R) => string;
  rowLink?: (row: R) => string;
  rowStale?: (row: R) => RowAge | null; // null: fresh
  rowSimulated?: (row: R) => boolean;
  expand?: (row: R) => ComponentChildren; // details of a row; null: none
  orders?: readonly Order[];
  sortBy?: (field: string, descendingFirst: boolean) => void;
  hidden?: readonly string[] | null; // columns hidden by the user; null: as many as fit
  busy?: boolean; // rows of the previous request
}

export function DataTable<R>(props: Props<R>) {
  const { caption, rows, rowKey, expand, orders = [], sortBy, hidden = null, busy = false } = props;
  const frame = useRef<HTMLDivElement>(null);
  const room = useWidth(frame);
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const extra = expand ? EXPANDER : 0;
  const columns = useMemo(
    () =>
      hidden === null ? columnsThatFit(props.columns, room, extra) : columnsChosen(props.columns, hidden),
    [props.columns, room, extra, hidden],
  );
  const under = room < NARROW ? subtitle(columns) : null;
  const needed = leastWidth(columns) + extra;
  const ease = widthRatio(columns, room - extra);
  const span = columns.length + (expand ? 1 : 0);

  const toggle = useCallback((key: string) => {
    setOpen((before) => {
      const next = new Set(before);
      if (!next.delete(key)) next.add(key);
      return next;
    });
  }, []);

  return (
    <div class={needed > room + 1 ? "table-frame table-frame-wide" : "table-frame"} ref={frame}>
      <table class={busy ? "table table-busy" : "table"} style={{ minWidth: `${needed}px` }} aria-busy={busy}>
        <caption class="visually-hidden">{caption}</caption>
        <colgroup>
          {expand && <col style={{ width: `${EXPANDER}px` }} />}
          {columns.map((column) => (
            <col
              key={column.key}
              {...(column.grow ? {} : { style: { width: `${widthOf(column, ease)}px` } })}
            />
          ))}
        </colgroup>
        <thead>
          <tr>
            {expand && (
              <td class="table-expander">
                <span class="visually-hidden">Details</span>
              </td>
            )}
            {columns.map((column) => (
              <Header key={column.key} column={column} orders={orders} sortBy={sortBy} />
            ))}
          </tr>
        </thead>
        <tbody onKeyDown={moveAmongRows}>
          {rows.map((row) => {
            const key = rowKey(row);
            const hides = expand?.(row);
            const shown = Boolean(hides) && open.has(key);
            const stale = props.rowStale?.(row) ?? null;
            return (
              <Fragment key={key}>
                <Row
                  name={key}
                  row={row}
                  columns={columns}
                  under={under}
                  link={props.rowLink?.(row)}
                  stale={stale !== null}
                  ageSeconds={stale?.seconds ?? null}
                  simulated={props.rowSimulated?.(row) ?? false}
                  expands={expand ? Boolean(hides) : null}
                  open={shown}
                  onToggle={toggle}
                />
                {shown && (
                  <tr class="table-details">
                    <td colSpan={span}>{hides}</td>
                  </tr>
                )}
              </Fragment>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function Header<R>({
  column,
  orders,
  sortBy,
}: {
  column: Column<R>;
  orders: readonly Order[];
  sortBy: Props<R>["sortBy"];
}) {
  const { sort, align = "start", title, note } = column;
  if (sort === undefined || !sortBy)
    return (
      <th scope="col" class={`table-${align}`} title={note}>
        {title}
      </th>
    );
  const sorted = ariaSort(orders, sort);
  return (
    <th scope="col" class={`table-${align}`} aria-sort={sorted} title={note}>
      <button type="button" class="table-sort" onClick={() => sortBy(sort, align === "end")}>
        {title}
        <span class="table-arrow" aria-hidden="true">
          {sorted === "none" ? "" : sorted === "ascending" ? "↑" : "↓"}
        </span>
      </button>
    </th>
  );
}

function useWidth(of: { current: HTMLElement | null }): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = of.current;
    if (!element) return;
    setWidth(element.clientWidth);
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, [of]);
  return width;
}
