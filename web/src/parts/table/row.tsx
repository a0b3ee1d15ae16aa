// A table row that renders again only if its data changed.
import { useMemo, useRef } from "preact/hooks";
import { go } from "../../app/location";
import { Simulated, Stale } from "../badge";
import type { Column } from "./columns";
import { AGE_FIELDS, isSameRow } from "./same-row";

interface Props<R> {
  name: string; // key
  row: R;
  columns: readonly Column<R>[];
  under: ((row: R) => string) | null; // second line below the name
  link: string | undefined;
  stale: boolean;
  ageSeconds: number | null; // of a stale row
  simulated: boolean;
  expands: boolean | null; // null: rows of this table have no details
  open: boolean;
  onToggle: (name: string) => void;
}

const NOTHING: ReadonlySet<string> = new Set();

export function Row<R>(props: Props<R>) {
  const { columns, under, link, stale, ageSeconds, simulated, expands, open, name, onToggle } = props;
  const kept = useRef(props.row);
  const aged = columns.some(({ ages }) => ages);
  const ignored = aged ? NOTHING : AGE_FIELDS;
  if (!isSameRow(kept.current, props.row, ignored)) kept.current = props.row;
  const row = kept.current;
  return useMemo(() => {
    const names = ["table-row", stale && "table-row-stale", link && "table-row-link"]
      .filter(Boolean)
      .join(" ");
    return (
      <tr class={names} onClick={link === undefined ? undefined : (event) => followRow(event, link)}>
        {expands !== null && (
          <td class="table-expander">
            {expands && <Expander open={open} onToggle={() => onToggle(name)} />}
          </td>
        )}
        {columns.map((column, place) =>
          place === 0 ? (
            <th key={column.key} scope="row" class={`table-${column.align ?? "start"}`}>
              <span class="table-name">
                {link === undefined ? (
                  column.cell(row)
                ) : (
                  <a href={link} data-row="">
                    {column.cell(row)}
                  </a>
                )}
                {stale && !aged && <Stale ageSeconds={ageSeconds} />}
                {simulated && <Simulated />}
              </span>
              {under && <span class="table-under">{under(row)}</span>}
            </th>
          ) : (
            <td key={column.key} class={`table-${column.align ?? "start"}`}>
              {column.cell(row)}
            </td>
          ),
        )}
      </tr>
    );
  }, [row, columns, under, aged, link, stale, ageSeconds, simulated, expands, open, name, onToggle]);
}

function Expander({ open, onToggle }: { open: boolean; onToggle: () => void }) {
  return (
    <button type="button" class="table-expand" aria-expanded={open} aria-label="Details" onClick={onToggle}>
      <svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
        <path d="M4 2.5 8 6 4 9.5" fill="none" stroke="currentColor" stroke-width="1.5" />
      </svg>
    </button>
  );
}

// A click on the row follows the link of its first cell, except on other links and buttons or while selecting text.
function followRow(event: MouseEvent, link: string): void {
  if (event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if ((event.target as Element).closest("a, button, input, label, summary")) return;
  if (String(getSelection() ?? "") !== "") return;
  go(link);
}

const STEPS: Record<string, (place: number, last: number) => number> = {
  ArrowDown: (place, last) => Math.min(place + 1, last),
  ArrowUp: (place) => Math.max(place - 1, 0),
  Home: () => 0,
  End: (_, last) => last,
};

// Arrow keys move the focus between the links of rows.
export function moveAmongRows(event: KeyboardEvent): void {
  const step = STEPS[event.key];
  const from = (event.target as Element).closest("tr");
  if (!step || !from || event.ctrlKey || event.metaKey || event.altKey) return;
  const links = [...(event.currentTarget as Element).querySelectorAll<HTMLElement>("a[data-row]")];
  const place = links.findIndex((link) => from.contains(link));
  const next = links[step(place, links.length - 1)];
  if (!next) return;
  event.preventDefault();
  next.focus();
}
