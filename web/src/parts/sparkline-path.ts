// The SVG path of a sparkline. Unknown values are gaps.

export interface Frame {
  width: number;
  height: number;
  min: number;
  max: number;
}

export function range(values: readonly (number | null)[], least = 0): { min: number; max: number } {
  let min = least;
  let max = Number.NEGATIVE_INFINITY;
  for (const value of values) {
    if (value === null) continue;
    if (value > max) max = value;
    if (value < min) min = value;
  }
  return { min, max: max > min ? max : min + 1 };
}

export function sparklinePath(
  values: readonly (number | null)[],
  { width, height, min, max }: Frame,
): string {
  const step = values.length > 1 ? width / (values.length - 1) : 0;
  let path = "";
  let drawing = false;
  for (const [place, value] of values.entries()) {
    if (value === null) {
      drawing = false;
      continue;
    }
    const x = (place * step).toFixed(1);
    const y = (1 + (height - 2) * (1 - (value - min) / (max - min))).toFixed(1);
    const alone = !drawing && (values[place + 1] ?? null) === null;
    path += drawing ? `L${x} ${y}` : `M${x} ${y}`;
    if (alone) path += "h1"; // a single value between gaps is a dot
    drawing = true;
  }
  return path;
}
