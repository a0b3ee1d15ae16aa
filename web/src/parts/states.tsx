// Loading, empty, error and stale states of a view.
import type { ComponentChildren } from "preact";
import type { Problem } from "../api/client";
import type { Resource } from "../live/resource";
import { HealthIcon } from "./health";
import "./states.css";

// A skeleton of the expected size. It becomes visible after 150 ms.
export function Loading({
  rows = 6,
  label = "Loading",
}: {
  rows?: number | undefined;
  label?: string | undefined;
}) {
  return (
    <div class="loading" role="status" aria-label={label}>
      {Array.from({ length: rows }, (_, row) => (
        <div key={row} class="loading-row" />
      ))}
    </div>
  );
}

interface EmptyProps {
  title: string; // the reason: "No pod matches these filters"
  children?: ComponentChildren; // what to do about it
  action?: { text: string; run: () => void } | undefined;
}

export function Empty({ title, children, action }: EmptyProps) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children ? <div class="empty-text">{children}</div> : null}
      {action ? (
        <button type="button" onClick={action.run}>
          {action.text}
        </button>
      ) : null}
    </div>
  );
}

// A failed request. Older data stays visible below it.
export function ProblemNote({ problem, retry }: { problem: Problem; retry?: (() => void) | undefined }) {
  return (
    <div class="note note-critical" role="alert">
      <HealthIcon tone="critical" />
      <div class="note-text">
        <strong>{problem.title}</strong>
        {problem.detail ? <div>{problem.detail}</div> : null}
      </div>
      {retry ? (
        <button type="button" onClick={retry}>
          Try again
        </button>
      ) : null}
    </div>
  );
}

// Why the data is stale.
export function StaleNote({ children }: { children: ComponentChildren }) {
  return (
    <div class="note note-warning" role="status">
      <HealthIcon tone="warning" />
      <div class="note-text">{children}</div>
    </div>
  );
}

interface ResourceViewProps<T> {
  of: Resource<T>;
  loading?: ComponentChildren; // replaces the default skeleton
  children: (data: T) => ComponentChildren;
}

// Shows a resource in any state: skeleton, problem, data, or old data with a problem above it.
export function ResourceView<T>({ of, loading, children }: ResourceViewProps<T>) {
  return (
    <>
      {of.problem ? <ProblemNote problem={of.problem} retry={of.refetch} /> : null}
      {of.data !== null ? children(of.data) : of.problem === null ? (loading ?? <Loading />) : null}
    </>
  );
}
