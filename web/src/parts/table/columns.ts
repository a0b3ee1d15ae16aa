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
  priority?: 1 | 2 | 3 | 4; // 1 is always there, 4 goes first when there is no room
  // Of the first column: what another column says, in a second line where a narrow table has no room for that column.
  under?: { column: string; text: (row: R) => string };
}

const SLACK = 1; // a fraction of a pixel is no reason to drop a column

// Whole priorities come and go together from the least, column by column within one, so that the order stays.
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

// What the second line below the name says; null: there is a column for it.
export function underName<R>(shown: readonly Column<R>[]): ((row: R) => string) | null {
  const under = shown[0]?.under;
  return under && !shown.some(({ key }) => key === under.column) ? under.text : null;
}

export function leastWidth<R>(columns: readonly Column<R>[]): number {
  return columns.reduce((sum, { width, least = width }) => sum + least, 0);
}

// A reader's own choice goes before what fits; columns that are new since then show as if they had been chosen.
export function columnsChosen<R>(columns: readonly Column<R>[], hidden: readonly string[]): Column<R>[] {
  return columns.filter((column, place) => place === 0 || !hidden.includes(column.key));
}

// 0: every column has the least that will do; 1: all that it should have.
export function easeOf<R>(columns: readonly Column<R>[], room: number): number {
  const least = leastWidth(columns);
  const full = columns.reduce((sum, { width }) => sum + width, 0);
  return room >= full ? 1 : Math.max(0, (room - least) / (full - least));
}

export function widthOf<R>({ width, least = width }: Column<R>, ease: number): number {
  return Math.floor(least + (width - least) * ease);
}
