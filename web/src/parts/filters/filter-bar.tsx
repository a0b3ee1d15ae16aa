// Filters of a table: search, facets, and what is chosen as chips that go away at a click. All of it is in the address.
import type { ComponentChildren } from "preact";
import { go, pathname, search, withParameter } from "../../app/location";
import { chipsOf, toggled, unfiltered } from "./active";
import { FacetMenu } from "./facet-menu";
import type { Facet } from "./facets";
import { QueryBox } from "./query-box";
import "./filters.css";

interface Props {
  what: string; // in the plural: "devices"
  placeholder: string; // what is searched
  facets: readonly Facet[];
  own?: readonly string[]; // parameters of the address that are no filters
  isFilter?: (name: string) => boolean; // which of the others are; left out: all
  children?: ComponentChildren; // more controls of the view
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
                onClick={() => go(withParameter(name, toggled(search.value, name, value)))}
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
  const rest = unfiltered(search.value, own).toString();
  go(pathname.value + (rest ? `?${rest}` : ""));
}
