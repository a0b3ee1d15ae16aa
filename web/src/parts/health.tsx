// Health is shown by shape, word and colour.
import type { ComponentChildren } from "preact";
import "./health.css";

export type Tone = "ok" | "warning" | "critical" | "lost" | "unknown";

const TONES: Record<string, Tone> = {
  ok: "ok",
  warning: "warning",
  critical: "critical",
  lost: "lost",
  unknown: "unknown",
  fresh: "ok",
  stale: "warning",
  incompatible: "critical",
  unread: "unknown",
};

// The tone of a device's health or a node's state.
export function toneOf(state: string): Tone {
  return TONES[state] ?? "unknown";
}

// Formats identifiers of the API such as device_lost.
export function words(reason: string): string {
  return reason.replaceAll("_", " ").replaceAll(",", ", ").replace(/ {2,}/g, " ");
}

const SHAPES: Record<Tone, ComponentChildren> = {
  ok: <path d="M3.2 8.4 6.6 11.8 12.8 4.6" fill="none" stroke="currentColor" stroke-width="2" />,
  warning: (
    <path
      d="M8 1.8 15 14H1Z M7.2 6h1.6l-.25 4.2h-1.1Z M7.2 11.2h1.6v1.5H7.2Z"
      fill="currentColor"
      fill-rule="evenodd"
    />
  ),
  critical: (
    <path
      d="M5.1 1h5.8L15 5.1v5.8L10.9 15H5.1L1 10.9V5.1Z M5.6 4.5 4.5 5.6 6.9 8 4.5 10.4l1.1 1.1L8 9.1l2.4 2.4 1.1-1.1L9.1 8l2.4-2.4-1.1-1.1L8 6.9Z"
      fill="currentColor"
      fill-rule="evenodd"
    />
  ),
  lost: (
    <path
      d="M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8ZM3 13 13 3"
      fill="none"
      stroke="currentColor"
      stroke-width="2"
    />
  ),
  unknown: (
    <g fill="none" stroke="currentColor" stroke-width="1.6">
      <circle cx="8" cy="8" r="6.2" stroke-dasharray="2.4 2" />
      <path d="M8 10.4V8.8c0-.9 1.6-1.2 1.6-2.7A1.6 1.6 0 0 0 6.4 6" />
      <path d="M8 11.3v1.3" />
    </g>
  ),
};

// The icon alone; it needs a text beside it.
export function HealthIcon({ tone }: { tone: Tone }) {
  return (
    <svg class={`health-icon health-${tone}`} viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
      {SHAPES[tone]}
    </svg>
  );
}

interface Props {
  state: string; // ok, warning, critical, lost, unknown; or a node's fresh, stale, incompatible, unread
  reason?: string | null | undefined;
  showReason?: boolean | undefined; // as text, not only as a tooltip
}

export function Health({ state, reason, showReason = false }: Props) {
  const tone = toneOf(state);
  return (
    <span class={`health health-${tone}`} title={reason ? words(reason) : undefined}>
      <HealthIcon tone={tone} />
      <span class="health-word">{state}</span>
      {reason && showReason ? <span class="health-reason">{words(reason)}</span> : null}
      {reason && !showReason ? <span class="visually-hidden">: {words(reason)}</span> : null}
    </span>
  );
}
