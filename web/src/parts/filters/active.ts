// Active filters of the address, one chip for each value.
import { vendorName } from "../vendor";
import { escapeValue, valuesOf } from "./values";

export interface Chip {
  name: string;
  value: string;
  title: string; // "Health"
  text: string; // "critical"
}

// Parameters that are not filters.
const NO_FILTERS = new Set(["sort", "limit", "cursor", "q"]);

const TITLES: Record<string, string> = {
  cluster: "Cluster",
  vendor: "Vendor",
  vendors: "Vendor",
  model: "Model",
  models: "Model",
  namespace: "Namespace",
  namespaces: "Namespace",
  health: "Health",
  state: "State",
  node: "Node",
  pod: "Pod",
  device: "Device",
  source: "Source",
  throttled: "Throttled by",
  unusual: "Anomaly",
  owner_kind: "Owner",
  owner_name: "Owner",
  user: "User",
  name: "Program",
  type: "Type",
  pid: "Pid",
};

// "temperature_celsius" → "Temperature, °C"
const UNITS: Record<string, string> = {
  celsius: "°C",
  watts: "W",
  bytes: "bytes",
  seconds: "s",
  joules: "J",
  ratio: "0–1",
};

export function fieldTitle(field: string): string {
  const known = TITLES[field];
  if (known) return known;
  const words = field.split("_");
  const unit = UNITS[words.at(-1) ?? ""];
  const text = (unit && words.length > 1 ? words.slice(0, -1) : words).join(" ");
  const title = text.charAt(0).toUpperCase() + text.slice(1).replace("utilization", "use");
  const read = title.replace(/^Utilization/, "Use");
  return unit && words.length > 1 ? `${read}, ${unit}` : read;
}

export function chipsOf(
  parameters: URLSearchParams,
  notFilters: readonly string[] = [],
  isFilter: (name: string) => boolean = () => true,
): Chip[] {
  const chips: Chip[] = [];
  for (const name of new Set(parameters.keys())) {
    if (NO_FILTERS.has(name) || notFilters.includes(name) || !isFilter(name)) continue;
    for (const value of valuesOf(parameters, name)) chips.push({ name, value, ...chipText(name, value) });
  }
  return chips;
}

function chipText(name: string, value: string): { title: string; text: string } {
  if (name === "present") return { title: fieldTitle(value), text: "known" };
  if (name === "absent") return { title: fieldTitle(value), text: "not known" };
  if (name === "vendor" || name === "vendors") return { title: "Vendor", text: vendorName(value) };
  if (name === "simulated") return { title: "Simulated", text: value === "true" ? "yes" : "no" };
  const bound = /^(.*)_(min|max)$/.exec(name);
  if (bound?.[1]) return { title: fieldTitle(bound[1]), text: `${bound[2] === "min" ? "≥" : "≤"} ${value}` };
  return { title: fieldTitle(name), text: value };
}

// The values of a parameter with one value added or removed, escaped for the address.
export function toggleValue(parameters: URLSearchParams, name: string, value: string): string[] {
  const words = valuesOf(parameters, name);
  const next = words.includes(value) ? words.filter((word) => word !== value) : [...words, value];
  return next.map(escapeValue);
}

// The parameters that remain when all filters are cleared: sort order and display options.
export function withoutFilters(parameters: URLSearchParams, kept: readonly string[]): URLSearchParams {
  const rest = new URLSearchParams();
  for (const [name, value] of parameters)
    if (name === "sort" || kept.includes(name)) rest.append(name, value);
  return rest;
}
