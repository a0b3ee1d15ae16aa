// Selects the minimum idle time, which is stored in the address.
import { go, search, withParameter } from "../../app/location";
import { duration } from "../../app/units";
import { LONG_IDLE } from "../../parts/table/cells";

export const SHORTEST_SECONDS = 60;
const CHOICES = [SHORTEST_SECONDS, 300, 1800, LONG_IDLE, 2 * 3600, 12 * 3600, 24 * 3600];

export function idleThreshold(address: URLSearchParams): number {
  const text = address.get("min_seconds");
  const given = Number(text);
  return text !== null && Number.isFinite(given) && given >= 0 ? given : LONG_IDLE;
}

export function IdleThreshold() {
  const chosen = idleThreshold(search.value);
  const choices = [...new Set([...CHOICES, chosen])].sort((one, other) => one - other);
  return (
    <label class="idle-since">
      Idle for at least{" "}
      <select
        value={String(chosen)}
        onChange={({ currentTarget: { value } }) =>
          go(withParameter("min_seconds", value === String(LONG_IDLE) ? [] : [value]))
        }
      >
        {choices.map((seconds) => (
          <option key={seconds} value={String(seconds)}>
            {duration(seconds)}
          </option>
        ))}
      </select>
    </label>
  );
}
