import { setToken, token } from "../api/client";
import { DESTINATIONS } from "./destinations";
import { Dialog } from "./dialog";
import { helpOpen, keysEnabled, setKeysEnabled } from "./keyboard";
import { type Choice, choice, choose } from "./theme";

const KEYS: readonly [keys: readonly string[], does: string][] = [
  [["/"], "search"],
  [["?"], "help"],
  [["t"], "switch between light and dark"],
  [["p"], "pause or resume updates"],
  [["Esc"], "close or clear"],
];

const THEMES: readonly [Choice, string][] = [
  ["system", "System default"],
  ["light", "Light"],
  ["dark", "Dark"],
];

export function Help() {
  return (
    <Dialog title="Help and settings" close={() => (helpOpen.value = false)}>
      <h3>Keyboard shortcuts</h3>
      <dl class="help-keys">
        {KEYS.map(([keys, does]) => (
          <Key key={does} keys={keys} does={does} />
        ))}
        {DESTINATIONS.map(({ key, title }) => (
          <Key key={key} keys={["g", key]} does={title.toLowerCase()} />
        ))}
      </dl>
      <h3>Settings</h3>
      <div class="help-choices">
        <label>
          <input
            type="checkbox"
            checked={keysEnabled.value}
            onChange={(event) => setKeysEnabled(event.currentTarget.checked)}
          />
          Enable keyboard shortcuts
        </label>
      </div>
      <fieldset class="help-choices">
        <legend class="visually-hidden">Theme</legend>
        {THEMES.map(([value, text]) => (
          <label key={value}>
            <input
              type="radio"
              name="theme"
              checked={choice.value === value}
              onChange={() => choose(value)}
            />
            {text}
          </label>
        ))}
      </fieldset>
      <h3>More</h3>
      <div class="help-choices">
        <a href="/docs">API reference</a>
        {token.value === null ? null : (
          <button
            type="button"
            onClick={() => {
              helpOpen.value = false;
              setToken(null);
            }}
          >
            Forget token
          </button>
        )}
      </div>
    </Dialog>
  );
}

function Key({ keys, does }: { keys: readonly string[]; does: string }) {
  return (
    <div class="help-key">
      <dt>
        {keys.map((key) => (
          <kbd key={key}>{key}</kbd>
        ))}
      </dt>
      <dd>{does}</dd>
    </div>
  );
}
