// A small bar with its number. The number is always there: the bar only makes it quick to see.
import { percent } from "../app/units";
import { Absent } from "./absent";
import type { Tone } from "./health";
import "./bar.css";

interface Props {
  ratio: number | null | undefined; // 0 to 1; null: not known
  label: string; // what it is of: "use", "memory"; read out, and shown as a title
  text?: string | undefined; // in the place of "42 %"
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
            <span class="unseen">{label} </span>
            {shown}
          </>
        ) : (
          <Absent />
        )}
      </span>
    </span>
  );
}

// Parts of a whole, side by side: devices by health, by vendor.
export interface Part {
  key: string;
  label: string;
  count: number;
  tone: Tone;
}

export function PartsBar({ parts, label }: { parts: readonly Part[]; label: string }) {
  const total = parts.reduce((sum, part) => sum + part.count, 0);
  const said = parts.filter((part) => part.count > 0).map((part) => `${part.count} ${part.label}`);
  return (
    <span class="parts-bar" role="img" aria-label={`${label}: ${said.join(", ") || "none"}`}>
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
