import type { ComponentChildren } from "preact";
import { duration } from "../app/units";
import { words } from "./health";
import "./badge.css";

interface Props {
  tone?: "plain" | "warning" | "critical" | "lost" | undefined;
  title?: string | undefined;
  children: ComponentChildren;
}

export function Badge({ tone = "plain", title, children }: Props) {
  return (
    <span class={`badge badge-${tone}`} title={title}>
      {children}
    </span>
  );
}

// Marks data of a simulated cluster.
export function Simulated() {
  return <Badge title="From a simulated cluster">simulated</Badge>;
}

// Marks a stale row with its age.
export function Stale({
  ageSeconds,
  reason,
}: {
  ageSeconds?: number | null | undefined;
  reason?: string | null | undefined;
}) {
  const age = ageSeconds === null || ageSeconds === undefined ? "" : ` ${duration(ageSeconds)}`;
  return (
    <Badge
      tone="warning"
      title={`No new data${reason ? `: ${words(reason)}` : ""}. Showing the last known values`}
    >
      stale{age}
    </Badge>
  );
}
