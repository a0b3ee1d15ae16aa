// The values of a chart as a table, newest first.
import { useState } from "preact/hooks";
import type { Values } from "./points";
import { formatValue, moment, type Unit } from "./units";

const ROWS = 60;

interface Props {
  title: string;
  times: readonly number[];
  series: readonly { label: string; unit: Unit; values: Values }[];
}

export function ChartTable({ title, times, series }: Props) {
  const [open, setOpen] = useState(false);
  return (
    <details
      class="chart-numbers"
      onToggle={(event) => setOpen((event.currentTarget as HTMLDetailsElement).open)}
    >
      <summary>
        Values<span class="visually-hidden"> of {title}</span>
      </summary>
      {open ? (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard
        <section class="chart-table" tabIndex={0} aria-label={`Values of ${title}`}>
          <table class="plain">
            <thead>
              <tr>
                <th scope="col">Time</th>
                {series.map((one) => (
                  <th key={one.label} scope="col" class="number">
                    {one.label}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {newest(times).map((place) => (
                <tr key={times[place]}>
                  <th scope="row">{moment(times[place] ?? 0, (times.at(-1) ?? 0) - (times[0] ?? 0))}</th>
                  {series.map((one) => (
                    <td key={one.label} class="number">
                      {formatValue(one.unit, one.values[place] ?? null)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      ) : null}
    </details>
  );
}

function newest(times: readonly number[]): number[] {
  const count = Math.min(ROWS, times.length);
  return Array.from({ length: count }, (_, back) => times.length - 1 - back);
}
