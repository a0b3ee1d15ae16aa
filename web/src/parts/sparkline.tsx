// A small line chart.
import { range, sparklinePath } from "./sparkline-path";
import "./sparkline.css";

interface Props {
  values: readonly (number | null)[]; // null: unknown
  label: string;
  max?: number | undefined; // default: the highest value
  width?: number | undefined;
  height?: number | undefined;
  wide?: boolean | undefined; // fills its container
}

export function Sparkline({ values, label, max, width = 96, height = 20, wide = false }: Props) {
  const own = range(values);
  const path = sparklinePath(values, { width, height, min: own.min, max: max ?? own.max });
  return (
    <svg
      class={`sparkline${wide ? " sparkline-wide" : ""}`}
      role="img"
      aria-label={label}
      viewBox={`0 0 ${width} ${height}`}
      width={wide ? undefined : width}
      height={height}
      preserveAspectRatio="none"
    >
      <path d={path} vector-effect="non-scaling-stroke" />
    </svg>
  );
}
