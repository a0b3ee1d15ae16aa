// Says when what is on the page is no longer what is: the stream was lost, or the reader paused it.
import { tokenWanted } from "../api/client";
import { clock, duration } from "../app/units";
import { connection, heardAt, paused, resume } from "../live/stream";
import { HealthIcon } from "../parts/health";
import { now } from "../parts/now";
import { silence } from "./silence";

export function StreamBanner() {
  const state = silence(connection.value, heardAt.value, now.value);
  if (tokenWanted.value || (state !== "quiet" && !paused.value)) return null;
  const from = heardAt.value === null ? null : heardAt.value / 1000;
  return (
    <div class={`stream-banner${state === "quiet" ? " stream-banner-lost" : ""}`}>
      {state === "quiet" ? (
        <>
          <HealthIcon tone="warning" />
          {/* Said once, not with every second that passes. */}
          <span class="unseen" role="status">
            No word from the fleet; what you see may be old.
          </span>
          <span aria-hidden="true">
            {from === null
              ? "The fleet does not answer yet; it is asked again and again."
              : `No word from the fleet for ${duration(now.value / 1000 - from)}; what you see is from ${clock(from)}.`}
          </span>
        </>
      ) : (
        <>
          <span role="status">Paused: nothing on the page moves.</span>
          <button type="button" onClick={resume}>
            Go on
          </button>
        </>
      )}
    </div>
  );
}
