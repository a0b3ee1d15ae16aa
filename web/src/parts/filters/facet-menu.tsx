// One facet: a button that opens a list of values to tick. Counts are asked for when it opens.
import { useState } from "preact/hooks";
import type { Summary } from "../../api/types";
import { go, search, withParameter } from "../../app/location";
import { count } from "../../app/units";
import { useResource } from "../../live/resource";
import { toggled } from "./active";
import { type Choice, choicesOf, countedBy, type Facet } from "./facets";
import { Menu } from "./menu";
import { wordsOf } from "./words";

const LONG_LIST = 12; // choices; from here on they can be searched

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
  if (facet.group) return wordsOf(address, facet.group).length;
  return (facet.choices ?? []).filter(({ name, value }) => wordsOf(address, name).includes(value)).length;
}

function CountedChoices({ facet, group }: { facet: Facet; group: NonNullable<Facet["group"]> }) {
  const address = search.value;
  const { data, loading, problem } = useResource<Summary>("/api/v1/summary", countedBy(group, address), {
    atMostEverySeconds: 5,
    keepWhileAsking: true,
  });
  if (data === null && loading) return <p class="facet-note facet-late">Loading</p>;
  if (data === null && problem) return <p class="facet-note">{problem.title}</p>;
  const choices = choicesOf(group, data, wordsOf(address, group));
  if (choices.length === 0) return <p class="facet-note">None</p>;
  return <Choices facet={facet} of={choices} />;
}

function Choices({ facet, of }: { facet: Facet; of: readonly Choice[] }) {
  const [sought, setSought] = useState("");
  const address = search.value;
  const shown = of.filter(({ text }) => text.toLowerCase().includes(sought.trim().toLowerCase()));
  return (
    <fieldset class="facet-choices">
      <legend class="unseen">{facet.title}</legend>
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
              checked={wordsOf(address, choice.name).includes(choice.value)}
              onChange={() =>
                go(withParameter(choice.name, toggled(search.value, choice.name, choice.value)))
              }
            />
            <span class="facet-text">{choice.text}</span>
            {choice.count !== null && (
              <span class="facet-count" title="devices">
                {count(choice.count)}
                <span class="unseen"> devices</span>
              </span>
            )}
          </label>
        ))}
        {shown.length === 0 && <p class="facet-note">No match</p>}
      </div>
    </fieldset>
  );
}
