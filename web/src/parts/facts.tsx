// A list of names and values.
import type { ComponentChildren } from "preact";
import { Value } from "./absent";
import "./facts.css";

export type Fact = readonly [name: string, value: ComponentChildren, reason?: string | null];

export function Facts({ facts }: { facts: readonly Fact[] }) {
  return (
    <dl class="facts">
      {facts.map(([name, value, reason]) => (
        <div key={name} class="facts-fact">
          <dt>{name}</dt>
          <dd>
            {typeof value === "string" || value === null || value === undefined ? (
              <Value text={value} reason={reason} />
            ) : (
              value
            )}
          </dd>
        </div>
      ))}
    </dl>
  );
}
