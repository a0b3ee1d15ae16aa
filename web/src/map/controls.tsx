// Controls of the map: colour mode, grouping and size.
import { go, withParameter } from "../app/location";
import { GROUPINGS, type Grouping } from "./arrangement";
import { nextPitch } from "./layout";
import { MODE_INFO, MODES, type Mode } from "./modes";

interface Props {
  mode: Mode;
  grouping: Grouping;
  pitch: number | null;
  shownPitch: { current: number }; // the current pitch
  act: (event: Event) => void; // records the time of an input
}

const GROUPS: Record<Grouping, string> = {
  cluster: "cluster",
  vendor: "vendor",
  model: "model",
  none: "none",
};

export function Controls({ mode, grouping, pitch, shownPitch, act }: Props) {
  const set = (name: string, value: string | null) =>
    go(withParameter(name, value === null ? [] : [value]), { replace: true });
  const size = (event: Event, by: 1 | -1) => {
    act(event);
    set("size", String(nextPitch(shownPitch.current, by)));
  };
  return (
    <div class="map-controls">
      <fieldset class="map-modes">
        <legend class="visually-hidden">Colour by</legend>
        {MODES.map((one) => (
          <label key={one}>
            <input
              type="radio"
              name="map-mode"
              checked={one === mode}
              onChange={() => set("mode", one === "use" ? null : one)}
            />
            {MODE_INFO[one].title}
          </label>
        ))}
      </fieldset>
      <label class="map-choice">
        Group by
        <select
          value={grouping}
          onChange={(event) =>
            set("group", event.currentTarget.value === "cluster" ? null : event.currentTarget.value)
          }
        >
          {GROUPINGS.map((one) => (
            <option key={one} value={one}>
              {GROUPS[one]}
            </option>
          ))}
        </select>
      </label>
      <fieldset class="map-choice map-sizes">
        <legend class="visually-hidden">Size</legend>
        <button type="button" aria-label="Smaller" title="Smaller (−)" onClick={(event) => size(event, -1)}>
          −
        </button>
        <button type="button" aria-label="Larger" title="Larger (+)" onClick={(event) => size(event, 1)}>
          +
        </button>
        <button
          type="button"
          aria-pressed={pitch === null}
          title="Fit all (0)"
          onClick={(event) => {
            act(event);
            set("size", null);
          }}
        >
          Fit
        </button>
      </fieldset>
    </div>
  );
}
