// Selects the time range, which is stored in the address.
import { go, search, withParameter } from "../app/location";
import { isSpan, needsStore, type Scope, SPANS, type Span } from "./history";
import "./span-buttons.css";

const USUAL: Span = "1 h";
const NEEDS_STORE = "Ranges over one hour need a Prometheus store";

export function chosenSpan(): Span {
  const asked = search.value.get("span");
  return isSpan(asked) ? asked : USUAL;
}

// kept: whether the history is from the fleet's own memory.
export function SpanButtons({ scope, kept }: { scope: Scope; kept: boolean }) {
  const chosen = chosenSpan();
  return (
    <fieldset class="spans">
      <legend class="visually-hidden">Time range</legend>
      {kept && needsStore(scope, chosen) ? <span class="spans-hint">{NEEDS_STORE}</span> : null}
      {(Object.keys(SPANS) as Span[]).map((one) => (
        <button
          key={one}
          type="button"
          aria-pressed={one === chosen}
          title={needsStore(scope, one) ? NEEDS_STORE : undefined}
          onClick={() => go(withParameter("span", one === USUAL ? [] : [one]), { replace: true })}
        >
          {one}
        </button>
      ))}
    </fieldset>
  );
}
