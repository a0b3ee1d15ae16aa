// The map's parameters in the address: some are sent to the API, the others are applied in the browser.
import type { Parameters } from "../api/client";
import { linkTo } from "../app/routes";
import { valuesOf } from "../parts/filters/values";
import { DEVICE_FIELDS, isFilter } from "../parts/table/fields";
import type { Filters } from "./arrangement";
import { TEXT_FIELDS, type TextField } from "./fleet";
import { MODE_INFO, type Mode } from "./modes";

export const OWN = ["mode", "group", "size"]; // parameters of the address that are not filters

export function fieldsOf(...modes: Mode[]): string {
  return [...TEXT_FIELDS, "index", ...modes.flatMap((mode) => MODE_INFO[mode].fields)].join(",");
}

export function filtersOf(address: URLSearchParams): Filters {
  const filters: Partial<Record<TextField, string[]>> = {};
  for (const field of TEXT_FIELDS) {
    const words = valuesOf(address, field);
    if (words.length > 0) filters[field] = words;
  }
  return filters;
}

function asAsked(name: string): string {
  return name === "namespace" ? "namespaces" : name;
}

export function isDeviceFilter(name: string): boolean {
  return isFilter(asAsked(name), DEVICE_FIELDS);
}

// Filters by fields that the map has not loaded; the API applies them.
export function serverFilters(address: URLSearchParams): Parameters {
  const others: Record<string, string[]> = {};
  for (const name of new Set(address.keys())) {
    if (name === "q" || OWN.includes(name) || (TEXT_FIELDS as readonly string[]).includes(name)) continue;
    if (isDeviceFilter(name)) others[asAsked(name)] = address.getAll(name);
  }
  return others;
}

// Link to the table with the same filters.
export function tableLink(address: URLSearchParams): string {
  const rest = new URLSearchParams(address);
  for (const name of OWN) rest.delete(name);
  const text = rest.toString();
  return linkTo("devices") + (text ? `?${text}` : "");
}
