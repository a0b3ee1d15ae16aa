// A small bar with its value as text.
import { percent } from "../app/units";
import { Absent } from "./absent";
import type { Tone } from "./health";
import "./bar.css";

interface Props {
  ratio: number | null | undefined; // 0 to 1; null: unknown
  label: string; // "use", "memory"; for screen readers and the tooltip
  text?: string | undefined; // replaces "42 %"
  tone?: "plain" | "warning" | "critical" | undefined;
  wide?: boolean | undefined; // fills its container
}

export function filled(ratio: number): number {
  return Number.isFinite(ratio) ? Math.min(1, Math.max(0, ratio)) : 0;
}

export function Bar({ ratio, label, text, tone = "plain", wide = false }: Props) {
  const known = ratio !== null && ratio !== undefined;
  const shown = text ?? percent(ratio);
  return (
    <span
      class={`bar bar-${tone}${wide ? " bar-wide" : ""}`}
      title={known ? `${label}: ${percent(ratio)}` : undefined}
    >
      <span class="bar-track" aria-hidden="true">
        {known ? <span class="bar-fill" style={{ transform: `scaleX(${filled(ratio)})` }} /> : null}
      </span>
      <span class="bar-text">
        {known || text !== undefined ? (
          <>
            <span class="visually-hidden">{label} </span>
            {shown}
          </>
        ) : (
          <Absent />
        )}
      </span>
    </span>
  );
}

// Parts of a whole side by side, such as devices by health.
export interface Part {
  key: string;
  label: string;
  count: number;
  tone: Tone;
}

export function PartsBar({ parts, label }: { parts: readonly Part[]; label: string }) {
  const total = parts.reduce((sum, part) => sum + part.count, 0);
  const counts = parts.filter((part) => part.count > 0).map((part) => `${part.count} ${part.label}`);
  return (
    <span class="parts-bar" role="img" aria-label={`${label}: ${counts.join(", ") || "none"}`}>
      {parts.map((part) =>
        part.count > 0 ? (
          <span
            key={part.key}
            class={`parts-bar-part tone-${part.tone}`}
            title={`${part.count} ${part.label}`}
            style={{ flexGrow: String(part.count / total) }}
          />
        ) : null,
      )}
    </span>
  );
}
