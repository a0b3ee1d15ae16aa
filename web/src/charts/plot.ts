// uPlot options of the page: colours, units, 24-hour times and limit lines.
import type uPlot from "uplot";
import { isolatedPoints, type Values } from "./points";
import { token, tokens } from "./theme";
import { formatValue, increments, timeMark, type Unit } from "./units";

export interface Limit {
  label: string; // "slowdown at"
  value: number;
  tone: "warning" | "critical" | "unknown";
}

export interface Plotted {
  series: readonly { label: string; unit: Unit; colour: string }[]; // colour: name of a CSS token
  height: number;
  width: number;
  syncKey: string | null;
  limits: readonly Limit[];
  floor: number | null; // start of the axis; null: the lowest value
  ceiling: number | null; // minimum end of the axis
  span: [number, number]; // seconds since the epoch
  pointed: (place: number | null) => void; // called with the hovered index
}

const FONT = '11px system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif';
const ROOM = 0.08; // fraction of the axis above the highest value
const ROOM_FOR_NAME = 0.16; // the same above a limit with its label
const NAME_HEIGHT = 14; // CSS pixels

// `now` is called for each drawing, since limits and the span change.
export function plotOptions(now: () => Plotted): uPlot.Options {
  const { series, width, height, syncKey } = now();
  const unit = series[0]?.unit ?? "count";
  const soft = () => token("ink-soft");
  const grid = { stroke: () => token("line"), width: 1 };
  return {
    width,
    height,
    pxAlign: true,
    padding: [8, 12, 0, 0],
    legend: { show: false },
    cursor: {
      x: true,
      y: false,
      drag: { x: false, y: false, setScale: false },
      points: { size: 7 },
      ...(syncKey === null ? {} : { sync: { key: syncKey } }),
    },
    scales: {
      x: { time: true, range: () => now().span },
      y: { range: (_, least, most) => axisRange(least, most, now()) },
    },
    axes: [
      {
        stroke: soft,
        font: FONT,
        size: 26,
        gap: 4,
        space: 70,
        grid,
        ticks: { show: false },
        values: (_, marks, __, ___, distance) => marks.map((mark) => timeMark(mark, distance)),
      },
      {
        stroke: soft,
        font: FONT,
        size: 62,
        gap: 6,
        space: 34,
        grid,
        ticks: { show: false },
        incrs: increments(unit),
        values: (_, marks) => marks.map((mark) => formatValue(unit, mark)),
      },
    ],
    series: [
      {},
      ...series.map(
        (one): uPlot.Series => ({
          label: one.label,
          stroke: () => token(one.colour),
          width: 1.5,
          points: {
            show: true,
            size: 5,
            fill: () => token(one.colour),
            filter: (plot, place) => isolatedPoints(plot.data[place] as Values),
          },
        }),
      ),
    ],
    hooks: {
      draw: [(plot) => drawLimits(plot, now().limits)],
      setLegend: [(plot) => now().pointed(plot.cursor.idx ?? null)],
    },
  };
}

export function axisRange(
  least: number | null,
  most: number | null,
  { floor, ceiling, limits }: Pick<Plotted, "floor" | "ceiling" | "limits">,
): [number, number] {
  const highest = Math.max(most ?? 0, ceiling ?? 0, ...limits.map((limit) => limit.value));
  const lowest = floor ?? least ?? 0;
  const room = limits.some((limit) => limit.value >= highest) ? ROOM_FOR_NAME : ROOM;
  const top = ceiling !== null && highest <= ceiling ? ceiling : highest + (highest - lowest) * room;
  return [lowest, top > lowest ? top : lowest + 1];
}

function drawLimits(plot: uPlot, limits: readonly Limit[]): void {
  if (limits.length === 0) return;
  const { ctx, bbox } = plot;
  const colours = tokens(["warning", "critical", "unknown", "surface"]);
  const ratio = window.devicePixelRatio || 1;
  ctx.save();
  ctx.lineWidth = ratio;
  ctx.setLineDash([4 * ratio, 3 * ratio]);
  ctx.font = `${11 * ratio}px ${FONT.slice(FONT.indexOf(" "))}`;
  ctx.textAlign = "right";
  ctx.textBaseline = "top";
  const drawn = limits
    .map((limit) => ({ ...limit, y: Math.round(plot.valToPos(limit.value, "y", true)) + 0.5 }))
    .filter(({ y }) => y >= bbox.top - 1 && y <= bbox.top + bbox.height)
    .sort((a, b) => a.y - b.y);
  const lines = drawn.map(({ y }) => y);
  const tops = labelTops(lines, NAME_HEIGHT * ratio);
  for (const { y, tone } of drawn) {
    ctx.strokeStyle = colours[tone];
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
  }
  // Labels are drawn last, on a background, so that no line crosses them.
  for (const [place, limit] of drawn.entries()) {
    const right = bbox.left + bbox.width - 4 * ratio;
    const top = tops[place] ?? 0;
    const wide = ctx.measureText(limit.label).width;
    ctx.fillStyle = colours.surface;
    ctx.fillRect(right - wide - 2 * ratio, top, wide + 4 * ratio, (NAME_HEIGHT - 1) * ratio);
    ctx.fillStyle = colours[limit.tone];
    ctx.fillText(limit.label, right, top + ratio);
  }
  ctx.restore();
}

// Top positions of the labels of limits: the first above its line, others below theirs, moved down to avoid overlaps.
export function labelTops(lines: readonly number[], height: number): number[] {
  const tops: number[] = [];
  for (const [place, line] of lines.entries()) {
    const free = (tops.at(-1) ?? Number.NEGATIVE_INFINITY) + height;
    tops.push(place === 0 ? line - height : Math.max(line + 2, free));
  }
  return tops;
}
