// A small table without sorting and paging.
import type { ComponentChildren } from "preact";

export interface Row {
  key: string;
  cells: readonly ComponentChildren[]; // the first is the row header
}

interface Props {
  caption: string;
  columns: readonly string[]; // "#Use": a numeric column
  rows: readonly Row[];
}

export function SmallTable({ caption, columns, rows }: Props) {
  const numbers = columns.map((title) => title.startsWith("#"));
  return (
    <table class="plain">
      <caption class="visually-hidden">{caption}</caption>
      <thead>
        <tr>
          {columns.map((title, place) => (
            <th key={title} scope="col" class={numbers[place] ? "number" : undefined}>
              {title.replace(/^#/, "")}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map(({ key, cells: [name, ...rest] }) => (
          <tr key={key}>
            <th scope="row">{name}</th>
            {rest.map((cell, place) => (
              <td key={columns[place + 1]} class={numbers[place + 1] ? "number" : undefined}>
                {cell}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
