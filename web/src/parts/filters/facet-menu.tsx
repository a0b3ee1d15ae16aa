// A facet: a button with a list of values. Counts are fetched when it opens.
import { useState } from "preact/hooks";
import type { Summary } from "../../api/types";
import { go, search, withParameter } from "../../app/location";
import { count } from "../../app/units";
import { useResource } from "../../live/resource";
import { toggleValue } from "./active";
import { type Choice, choicesOf, type Facet, facetParameters } from "./facets";
import { Menu } from "./menu";
import { valuesOf } from "./values";

const LONG_LIST = 12; // longer lists have a search field

export function FacetMenu({ facet }: { facet: Facet }) {
  return (
    <Menu title={facet.title} chosen={chosenCount(facet, search.value)}>
      {() =>
        facet.group ? (
          <CountedChoices facet={facet} group={facet.group} />
        ) : (
          <Choices facet={facet} of={facet.choices ?? []} />
        )
      }
    </Menu>
  );
}

function chosenCount(facet: Facet, address: URLSearchParams): number {
  if (facet.group) return valuesOf(address, facet.group).length;
  return (facet.choices ?? []).filter(({ name, value }) => valuesOf(address, name).includes(value)).length;
}

function CountedChoices({ facet, group }: { facet: Facet; group: NonNullable<Facet["group"]> }) {
  const address = search.value;
  const { data, loading, problem } = useResource<Summary>(
    "/api/v1/summary",
    facetParameters(group, address),
    {
      minIntervalSeconds: 5,
      keepPreviousData: true,
    },
  );
  if (data === null && loading) return <p class="facet-note facet-late">Loading</p>;
  if (data === null && problem) return <p class="facet-note">{problem.title}</p>;
  const choices = choicesOf(group, data, valuesOf(address, group));
  if (choices.length === 0) return <p class="facet-note">None</p>;
  return <Choices facet={facet} of={choices} />;
}

function Choices({ facet, of }: { facet: Facet; of: readonly Choice[] }) {
  const [sought, setSought] = useState("");
  const address = search.value;
  const shown = of.filter(({ text }) => text.toLowerCase().includes(sought.trim().toLowerCase()));
  return (
    <fieldset class="facet-choices">
      <legend class="visually-hidden">{facet.title}</legend>
      {of.length > LONG_LIST && (
        <input
          type="search"
          class="facet-search"
          aria-label={`Find in ${facet.title.toLowerCase()}`}
          placeholder="Find"
          value={sought}
          onInput={(event) => setSought(event.currentTarget.value)}
        />
      )}
      <div class="facet-scroll">
        {shown.map((choice) => (
          <label key={`${choice.name}=${choice.value}`} class="facet-choice">
            <input
              type="checkbox"
              checked={valuesOf(address, choice.name).includes(choice.value)}
              onChange={() =>
                go(withParameter(choice.name, toggleValue(search.value, choice.name, choice.value)))
              }
            />
            <span class="facet-text">{choice.text}</span>
            {choice.count !== null && (
              <span class="facet-count" title="devices">
                {count(choice.count)}
                <span class="visually-hidden"> devices</span>
              </span>
            )}
          </label>
        ))}
        {shown.length === 0 && <p class="facet-note">No match</p>}
      </div>
    </fieldset>
  );
}
