// Columns of a table, and which of them there is room for.
import type { ComponentChildren } from "preact";

export interface Column<R> {
  key: string;
  title: string;
  note?: string; // what the title leaves open
  cell: (row: R) => ComponentChildren;
  width: number; // pixels that it should have; those that grow share what is left
  least?: number; // pixels that will do where even the most important columns lack room
  grow?: boolean;
  sort?: string; // field of the API
  align?: "start" | "end"; // numbers are at the end, and sorted the largest first
  ages?: boolean; // shows how old the row is, so that it changes with every answer
  priority?: 1 | 2 | 3; // 1 is always there, 3 goes first when there is no room
}

const SLACK = 1; // a fraction of a pixel is no reason to drop a column

// Whole priorities come and go together from the least, column by column within one, so that the order stays.
export function columnsThatFit<R>(columns: readonly Column<R>[], room: number, taken = 0): Column<R>[] {
  const kept = new Set(columns.filter((column) => (column.priority ?? 1) === 1));
  let used = taken;
  for (const column of kept) used += column.width;
  for (const priority of [2, 3]) {
    for (const column of columns) {
      if (column.priority !== priority) continue;
      if (used + column.width > room + SLACK) return columns.filter((one) => kept.has(one));
      kept.add(column);
      used += column.width;
    }
  }
  return columns.filter((one) => kept.has(one));
}

export function leastWidth<R>(columns: readonly Column<R>[]): number {
  return columns.reduce((sum, { width, least = width }) => sum + least, 0);
}

// A reader's own choice goes before what fits; columns that are new since then show as if they had been chosen.
export function columnsChosen<R>(columns: readonly Column<R>[], hidden: readonly string[]): Column<R>[] {
  return columns.filter((column, place) => place === 0 || !hidden.includes(column.key));
}

export function fullWidth<R>(columns: readonly Column<R>[]): number {
  return columns.reduce((sum, { width }) => sum + width, 0);
}
