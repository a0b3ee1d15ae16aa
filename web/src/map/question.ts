// What the address says, for the map: some of it is asked of the fleet, the rest is done here at once.
import type { Parameters } from "../api/client";
import { linkTo } from "../app/routes";
import { wordsOf } from "../parts/filters/words";
import { DEVICE_FIELDS, isFilter } from "../parts/table/fields";
import type { Filters } from "./arrangement";
import { TEXT_FIELDS, type TextField } from "./fleet";
import { MEANINGS, type Mode } from "./modes";

export const OWN = ["mode", "group", "size"]; // parameters of the address that are no filters

export function fieldsOf(...modes: Mode[]): string {
  return [...TEXT_FIELDS, "index", ...modes.flatMap((mode) => MEANINGS[mode].fields)].join(",");
}

export function filtersOf(address: URLSearchParams): Filters {
  const filters: Partial<Record<TextField, string[]>> = {};
  for (const field of TEXT_FIELDS) {
    const words = wordsOf(address, field);
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

// Filters by what the map has no column of.
export function othersOf(address: URLSearchParams): Parameters {
  const others: Record<string, string[]> = {};
  for (const name of new Set(address.keys())) {
    if (name === "q" || OWN.includes(name) || (TEXT_FIELDS as readonly string[]).includes(name)) continue;
    if (isDeviceFilter(name)) others[asAsked(name)] = address.getAll(name);
  }
  return others;
}

// What the map shows, as rows.
export function asTable(address: URLSearchParams): string {
  const rest = new URLSearchParams(address);
  for (const name of OWN) rest.delete(name);
  const text = rest.toString();
  return linkTo("devices") + (text ? `?${text}` : "");
}
