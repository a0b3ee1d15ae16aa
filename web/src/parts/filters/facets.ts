// Facets of a table: values of a field with counts, or named conditions.
import type { Parameters } from "../../api/client";
import type { Summary } from "../../api/types";
import { vendorName } from "../vendor";

export type GroupField = "cluster" | "vendor" | "model" | "namespace" | "health";

export interface Choice {
  name: string; // parameter of the address
  value: string;
  text: string;
  count: number | null;
}

export interface Facet {
  title: string;
  group?: GroupField; // field of the summary that provides the values; also the parameter
  choices?: readonly Choice[]; // fixed values
}

export const FACETS = {
  cluster: { title: "Cluster", group: "cluster" },
  vendor: { title: "Vendor", group: "vendor" },
  model: { title: "Model", group: "model" },
  namespace: { title: "Namespace", group: "namespace" },
  health: { title: "Health", group: "health" },
} as const satisfies Record<string, Facet>;

export function choice(name: string, value: string, text = value): Choice {
  return { name, value, text, count: null };
}

const HEALTH = ["ok", "warning", "critical", "lost", "unknown"];

// Values with their number of devices. Selected values are always listed, also without devices.
export function choicesOf(field: GroupField, summary: Summary | null, chosen: readonly string[]): Choice[] {
  const counted = new Map<string, number | null>();
  for (const row of summary?.groups ?? []) {
    const value = row[field];
    if (value !== null) counted.set(value, row.devices);
  }
  for (const value of chosen) if (!counted.has(value)) counted.set(value, summary ? 0 : null);
  if (field === "health")
    for (const value of HEALTH) if (!counted.has(value)) counted.set(value, summary ? 0 : null);
  const choices = [...counted].map(([value, count]) => ({
    name: field,
    value,
    text: textOf(field, value),
    count,
  }));
  return choices.sort((one, other) =>
    field === "health"
      ? HEALTH.indexOf(one.value) - HEALTH.indexOf(other.value)
      : one.text.localeCompare(other.text, "en", { numeric: true }),
  );
}

function textOf(field: GroupField, value: string): string {
  return field === "vendor" ? vendorName(value) : value;
}

// Filters that the summary supports.
const SUMMARY_FIELDS: readonly GroupField[] = ["cluster", "vendor", "model", "namespace", "health"];

export function facetParameters(field: GroupField, address: URLSearchParams): Parameters {
  const parameters: Record<string, string | string[]> = { group_by: field };
  for (const name of SUMMARY_FIELDS) {
    const values = address.getAll(name).filter((value) => value !== "");
    if (name !== field && values.length > 0) parameters[name] = values;
  }
  return parameters;
}
