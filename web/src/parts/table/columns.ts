// Columns of a table, and which of them fit.
import type { ComponentChildren } from "preact";

export interface Column<R> {
  key: string;
  title: string;
  note?: string; // tooltip
  cell: (row: R) => ComponentChildren;
  width: number; // preferred width in pixels; growing columns share the rest
  least?: number; // minimum width in pixels
  grow?: boolean;
  sort?: string; // field of the API
  align?: "start" | "end"; // end: numbers, sorted descending first
  ages?: boolean; // shows the age of the row, which changes with every response
  priority?: 1 | 2 | 3 | 4; // 1 is always shown, 4 is dropped first
  // Of the first column: the text of another column, as a second line if a narrow table drops that column.
  under?: { column: string; text: (row: R) => string };
}

const SLACK = 1; // pixel; tolerates rounding

// Adds columns by priority, and in order within a priority, until one does not fit.
export function columnsThatFit<R>(columns: readonly Column<R>[], room: number, taken = 0): Column<R>[] {
  const kept = new Set(columns.filter((column) => (column.priority ?? 1) === 1));
  let used = taken;
  for (const column of kept) used += column.width;
  for (const priority of [2, 3, 4]) {
    for (const column of columns) {
      if (column.priority !== priority) continue;
      if (used + column.width > room + SLACK) return columns.filter((one) => kept.has(one));
      kept.add(column);
      used += column.width;
    }
  }
  return columns.filter((one) => kept.has(one));
}

// Text of the second line; null: its column is shown.
export function subtitle<R>(shown: readonly Column<R>[]): ((row: R) => string) | null {
  const under = shown[0]?.under;
  return under && !shown.some(({ key }) => key === under.column) ? under.text : null;
}

export function leastWidth<R>(columns: readonly Column<R>[]): number {
  return columns.reduce((sum, { width, least = width }) => sum + least, 0);
}

// Columns that the user did not hide. New columns are shown.
export function columnsChosen<R>(columns: readonly Column<R>[], hidden: readonly string[]): Column<R>[] {
  return columns.filter((column, place) => place === 0 || !hidden.includes(column.key));
}

// 0: minimum widths; 1: preferred widths.
export function widthRatio<R>(columns: readonly Column<R>[], room: number): number {
  const least = leastWidth(columns);
  const full = columns.reduce((sum, { width }) => sum + width, 0);
  return room >= full ? 1 : Math.max(0, (room - least) / (full - least));
}

export function widthOf<R>({ width, least = width }: Column<R>, ease: number): number {
  return Math.floor(least + (width - least) * ease);
}
