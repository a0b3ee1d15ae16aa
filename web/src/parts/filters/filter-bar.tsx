// Filters of a table: search, facets and chips of the active filters. All are stored in the address.
import type { ComponentChildren } from "preact";
import { go, pathname, search, withParameter } from "../../app/location";
import { chipsOf, toggleValue, withoutFilters } from "./active";
import { FacetMenu } from "./facet-menu";
import type { Facet } from "./facets";
import { QueryBox } from "./query-box";
import "./filters.css";

interface Props {
  what: string; // plural: "devices"
  placeholder: string; // searched fields
  facets: readonly Facet[];
  own?: readonly string[]; // parameters of the address that are not filters
  isFilter?: (name: string) => boolean; // default: all other parameters
  children?: ComponentChildren; // further controls
}

export function FilterBar({ what, placeholder, facets, own = [], isFilter, children }: Props) {
  const chips = chipsOf(search.value, own, isFilter);
  return (
    <search class="filters" aria-label={`Filter ${what}`}>
      <div class="filters-line">
        <QueryBox label={`Search ${what}`} placeholder={placeholder} />
        {facets.map((facet) => (
          <FacetMenu key={facet.title} facet={facet} />
        ))}
        {children}
      </div>
      {chips.length > 0 && (
        <ul class="filters-chips" aria-label="Active filters">
          {chips.map(({ name, value, title, text }) => (
            <li key={`${name}=${value}`}>
              <button
                type="button"
                class="chip"
                aria-label={`Remove filter ${title} ${text}`}
                onClick={() => go(withParameter(name, toggleValue(search.value, name, value)))}
              >
                <span class="chip-title">{title}</span> {text}
                <span class="chip-cross" aria-hidden="true">
                  ×
                </span>
              </button>
            </li>
          ))}
          <li>
            <button type="button" class="plain filters-clear" onClick={() => clearFilters(own)}>
              Clear all
            </button>
          </li>
        </ul>
      )}
    </search>
  );
}

export function isFiltered(own: readonly string[] = [], isFilter?: (name: string) => boolean): boolean {
  return (search.value.get("q") ?? "") !== "" || chipsOf(search.value, own, isFilter).length > 0;
}

export function clearFilters(own: readonly string[] = []): void {
  const rest = withoutFilters(search.value, own).toString();
  go(pathname.value + (rest ? `?${rest}` : ""));
}
