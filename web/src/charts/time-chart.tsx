// A line chart over time, with a description for screen readers and a table of the values.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { ChartTable } from "./chart-table";
import { type Limit, type Plotted, plotOptions } from "./plot";
import { historyStart, latest, timeRange, timesOf, type Values } from "./points";
import { useSize } from "./size";
import { describeChart } from "./summary";
import { themeChanges } from "./theme";
import { formatValue, moment, timeMark, type Unit } from "./units";
import "./time-chart.css";

export type { Limit } from "./plot";

export interface Series {
  label: string; // "Use"
  values: Values; // null: no reading
  unit: Unit; // the axis uses that of the first series
  colour?: string | undefined; // name of a token; default: series-1, series-2 …
}

type When =
  | { start: number; step: number } // seconds since the epoch, seconds
  | { times: readonly number[] }; // one for each value, for irregular readings

type Props = When & {
  title: string;
  series: readonly Series[];
  height?: number | undefined;
  syncKey?: string | undefined; // charts with the same key share the cursor
  limits?: readonly Limit[] | undefined;
  floor?: number | null | undefined; // start of the axis, default 0; null: the lowest value
  ceiling?: number | null | undefined; // minimum end of the axis; default for ratios: 1
  empty?: string | undefined; // text without data
  spanSeconds?: number | null | undefined; // maximum time range; default: all
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
  // Skip unknown values at the start.
  const first = useMemo(
    () => times.findIndex((_, place) => series.some((one) => (one.values[place] ?? null) !== null)),
    [times, series],
  );
  const span = timeRange(first > 0 ? times.slice(first) : times, spanSeconds);
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

  // The plot is created again only for other lines or colours. New values and sizes update it.
  const lines = coloured.map((one) => `${one.label} ${one.unit} ${one.colour}`).join("\n");
  const theme = themeChanges.value;
  const drawable = width > 0;
  // `lines` identifies the series.
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
  // Also redraws if limits or bounds change.
  useEffect(() => {
    plot.current?.setData(data);
  }, [data, floor, ceiling, span[0], span[1], limits.map((limit) => limit.value).join()]);
  const at = pointed === null ? null : (times[pointed] ?? null);
  const younger = historyStart(spanSeconds, times, first);
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
              {formatValue(
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
        aria-label={describeChart(title, times, series, limits)}
      >
        <div class="chart-canvas" ref={box} aria-hidden="true" />
        {known ? null : <p class="chart-empty">{props.empty ?? "No data yet"}</p>}
      </div>
      {younger === null ? null : <span class="chart-since">since {timeMark(younger, 60)}</span>}
      {known ? <ChartTable title={title} times={times} series={series} /> : null}
    </figure>
  );
}
