// Filters of the log, stored in the address.
import type { Severity } from "../../api/types";
import { go, withParameter } from "../../app/location";
import { FILTERS, type Filters, KINDS, kindName, SEVERITIES } from "../../parts/events";
import { escapeValue } from "../../parts/filters/values";
import { HealthIcon, type Tone } from "../../parts/health";
import "./event-filters.css";

const TONES: Record<Severity, Tone> = { critical: "critical", warning: "warning", info: "unknown" };
const CHIPS = ["node", "device", "namespace", "pod"] as const; // set by links from other views

function choose(name: string, values: readonly string[]): void {
  go(withParameter(name, values.map(escapeValue)), { replace: true });
}

export function EventFilters({ filters, clusters }: { filters: Filters; clusters: readonly string[] }) {
  const severities = filters.severity ?? [];
  const narrowed = FILTERS.some((name) => (filters[name]?.length ?? 0) > 0);
  return (
    <section class="event-filters" aria-label="Filters">
      <fieldset class="event-filters-severities">
        <legend class="visually-hidden">Severity</legend>
        {SEVERITIES.map((severity) => {
          const on = severities.includes(severity);
          return (
            <button
              key={severity}
              type="button"
              aria-pressed={on}
              onClick={() =>
                choose(
                  "severity",
                  on ? severities.filter((one) => one !== severity) : [...severities, severity],
                )
              }
            >
              <HealthIcon tone={TONES[severity]} /> {severity}
            </button>
          );
        })}
      </fieldset>
      <Choice
        name="kind"
        label="Kind"
        all="All kinds"
        values={filters.kind ?? []}
        options={Object.keys(KINDS)}
        text={kindName}
      />
      <Choice
        name="cluster"
        label="Cluster"
        all="All clusters"
        values={filters.cluster ?? []}
        options={clusters}
      />
      {CHIPS.map((name) =>
        (filters[name] ?? []).map((value) => (
          <button
            key={`${name} ${value}`}
            type="button"
            aria-label={`Remove the filter ${name} ${value}`}
            onClick={() =>
              choose(
                name,
                (filters[name] ?? []).filter((one) => one !== value),
              )
            }
          >
            {name}: {value} ✕
          </button>
        )),
      )}
      {narrowed ? (
        <button type="button" class="plain" onClick={() => go("/events", { replace: true })}>
          Clear
        </button>
      ) : null}
    </section>
  );
}

interface ChoiceProps {
  name: string;
  label: string;
  all: string;
  values: readonly string[];
  options: readonly string[];
  text?: (option: string) => string;
}

// A select for one value. The address may contain several, which are shown as one option.
function Choice({ name, label, all, values, options, text = (option) => option }: ChoiceProps) {
  const several = values.length > 1;
  const known = new Set([...options, ...values]);
  return (
    <select
      aria-label={label}
      value={several ? "several" : (values[0] ?? "")}
      onChange={(event) => {
        const chosen = event.currentTarget.value;
        if (chosen !== "several") choose(name, chosen === "" ? [] : [chosen]);
      }}
    >
      <option value="">{all}</option>
      {several ? <option value="several">{values.map(text).join(", ")}</option> : null}
      {[...known].map((option) => (
        <option key={option} value={option}>
          {text(option)}
        </option>
      ))}
    </select>
  );
}
