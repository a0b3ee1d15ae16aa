// Selection of columns: as many as fit, unless the user chose. The choice is stored in the browser.
import { useState } from "preact/hooks";
import { readStorage, writeStorage } from "../../app/storage";
import { Menu } from "../filters/menu";
import type { Column } from "./columns";

const STORAGE_KEY = "accelscope.columns.";

// null: as many as fit
export function useHiddenColumns(
  table: string,
): [readonly string[] | null, (hidden: readonly string[] | null) => void] {
  const [hidden, setHidden] = useState<readonly string[] | null>(
    () => readStorage("localStorage", STORAGE_KEY + table)?.split(",") ?? null,
  );
  return [
    hidden,
    (next) => {
      setHidden(next);
      writeStorage("localStorage", STORAGE_KEY + table, next?.join(",") ?? null);
    },
  ];
}

interface Props<R> {
  columns: readonly Column<R>[];
  hidden: readonly string[] | null;
  onHide: (hidden: readonly string[] | null) => void;
}

export function ColumnsMenu<R>({ columns, hidden, onHide }: Props<R>) {
  return (
    <Menu title="Columns" atEnd>
      {() => (
        <fieldset class="facet-choices">
          <legend class="visually-hidden">Columns</legend>
          <label class="facet-choice">
            <input
              type="checkbox"
              checked={hidden === null}
              onChange={() => onHide(hidden === null ? [] : null)}
            />
            <span class="facet-text">Fit to width</span>
          </label>
          <div class="facet-scroll menu-rule">
            {columns.slice(1).map(({ key, title }) => (
              <label key={key} class="facet-choice">
                <input
                  type="checkbox"
                  checked={!(hidden ?? []).includes(key)}
                  disabled={hidden === null}
                  onChange={() => onHide(toggledIn(hidden ?? [], key))}
                />
                <span class="facet-text">{title}</span>
              </label>
            ))}
          </div>
        </fieldset>
      )}
    </Menu>
  );
}

function toggledIn(hidden: readonly string[], key: string): readonly string[] {
  return hidden.includes(key) ? hidden.filter((one) => one !== key) : [...hidden, key];
}
