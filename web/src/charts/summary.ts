// Describes a chart in a sentence, for screen readers.
import { duration } from "../app/units";
import { extremes, latest, type Values } from "./points";
import { formatValue, type Unit } from "./units";

interface Line {
  label: string;
  unit: Unit;
  values: Values;
}

export function describeChart(
  title: string,
  times: readonly number[],
  series: readonly Line[],
  limits: readonly { label: string; value: number }[] = [],
): string {
  const seconds = (times.at(-1) ?? 0) - (times[0] ?? 0);
  const parts = series.map((one) => {
    const { least, most } = extremes(one.values);
    const last = latest(times, one.values);
    const name = series.length > 1 ? `${one.label} ` : "";
    if (least === null) return `${name}not known`;
    return `${name}now ${last === null ? "not known" : formatValue(one.unit, last)}, lowest ${formatValue(one.unit, least)}, highest ${formatValue(one.unit, most)}`;
  });
  const over = seconds > 0 ? ` over ${duration(seconds)}` : "";
  return [`${title}${over}: ${parts.join("; ")}`, ...limits.map((limit) => limit.label)].join(". ");
}
