// Lines over time. What it shows can also be read: a sentence for those who listen, and the numbers in a table.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { ChartTable } from "./chart-table";
import { type Limit, type Plotted, plotOptions } from "./plot";
import { latest, stretch, timesOf, type Values, youngerThan } from "./points";
import { useSize } from "./size";
import { said } from "./summary";
import { themeChanges } from "./theme";
import { moment, timeMark, type Unit, written } from "./units";
import "./time-chart.css";

export type { Limit } from "./plot";

export interface Series {
  label: string; // "Use"
  values: Values; // null: nothing was read then
  unit: Unit; // the axis has that of the first series
  colour?: string | undefined; // name of a token; left out: series-1, series-2 …
}

type When =
  | { start: number; step: number } // seconds since the epoch, seconds
  | { times: readonly number[] }; // of each value: for readings that come when they come

type Props = When & {
  title: string;
  series: readonly Series[];
  height?: number | undefined;
  syncKey?: string | undefined; // charts with the same one point at the same moment
  limits?: readonly Limit[] | undefined;
  floor?: number | null | undefined; // the axis starts at 0 unless said; null: wherever the values do
  ceiling?: number | null | undefined; // and reaches at least so far: 1 for ratios unless said
  empty?: string | undefined; // why there is nothing to draw
  spanSeconds?: number | null | undefined; // at most so much is shown; left out: all
};

export function TimeChart(props: Props) {
  const { title, series, height = 160, syncKey, limits = [], floor = 0, spanSeconds = null } = props;
  const ceiling = props.ceiling === undefined && series[0]?.unit === "ratio" ? 1 : (props.ceiling ?? null);
  const given = "times" in props ? props.times : null;
  const { start, step } = "times" in props ? { start: 0, step: 0 } : props;
  const length = series[0]?.values.length ?? 0;
  const times = useMemo(() => given ?? timesOf(start, step, length), [given, start, step, length]);
  const coloured = series.map((one, place) => ({ ...one, colour: one.colour ?? `series-${place + 1}` }));
  const known = series.some((one) => one.values.some((value) => value !== null));
  const [pointed, setPointed] = useState<number | null>(null);

  const box = useRef<HTMLDivElement>(null);
  const { width } = useSize(box);
  const plot = useRef<uPlot | null>(null);
  // A past that begins with nothing known begins where something is.
  const first = useMemo(
    () => times.findIndex((_, place) => series.some((one) => (one.values[place] ?? null) !== null)),
    [times, series],
  );
  const span = stretch(first > 0 ? times.slice(first) : times, spanSeconds);
  const plotted = useRef<Plotted>({} as Plotted);
  plotted.current = {
    series: coloured,
    width,
    height,
    syncKey: syncKey ?? null,
    limits,
    floor,
    ceiling,
    span,
    pointed: setPointed,
  };
  const data = useMemo(
    () => [times, ...series.map((one) => one.values)] as unknown as uPlot.AlignedData,
    [times, series],
  );

  // A new plot only for other lines or colours; new numbers and sizes go to the one that is there.
  const lines = coloured.map((one) => `${one.label} ${one.unit} ${one.colour}`).join("\n");
  const theme = themeChanges.value;
  const drawable = width > 0;
  // `lines` stands for all that a plot is made of.
  useEffect(() => {
    if (!box.current || !drawable) return;
    const made = new uPlot(
      plotOptions(() => plotted.current),
      data,
      box.current,
    );
    plot.current = made;
    return () => {
      plot.current = null;
      made.destroy();
    };
  }, [lines, syncKey, drawable, theme]);
  useEffect(() => {
    if (drawable) plot.current?.setSize({ width, height });
  }, [width, height, drawable]);
  // Limits and bounds are drawn too.
  useEffect(() => {
    plot.current?.setData(data);
  }, [data, floor, ceiling, span[0], span[1], limits.map((limit) => limit.value).join()]);
  const at = pointed === null ? null : (times[pointed] ?? null);
  const younger = youngerThan(spanSeconds, times, first);
  return (
    <figure class="chart">
      <figcaption class="chart-head">
        <span class="chart-title">{title}</span>
        <span class="chart-when">{at === null ? "" : moment(at, span[1] - span[0])}</span>
        {coloured.map((one) => (
          <span key={one.label} class="chart-key">
            <span class="chart-swatch" style={{ background: `var(--${one.colour})` }} />
            {series.length > 1 ? `${one.label} ` : ""}
            <span class="chart-value">
              {written(
                one.unit,
                pointed === null ? latest(times, one.values) : (one.values[pointed] ?? null),
              )}
            </span>
          </span>
        ))}
      </figcaption>
      <div
        class="chart-plot"
        style={{ height: `${height}px` }}
        role="img"
        aria-label={said(title, times, series, limits)}
      >
        <div class="chart-canvas" ref={box} aria-hidden="true" />
        {known ? null : <p class="chart-empty">{props.empty ?? "No data yet"}</p>}
      </div>
      {younger === null ? null : <span class="chart-since">since {timeMark(younger, 60)}</span>}
      {known ? <ChartTable title={title} times={times} series={series} /> : null}
    </figure>
  );
}
