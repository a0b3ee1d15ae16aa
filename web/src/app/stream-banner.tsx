// Says when what is on the page is no longer what is: the stream was lost, questions hang, or the reader paused it.
import type { ComponentChildren } from "preact";
import { tokenWanted } from "../api/client";
import { clock, duration } from "../app/units";
import { behindSince, isBehind } from "../live/behind";
import { byFleet } from "../live/fleet-clock";
import { connection, heardAt, paused, resume } from "../live/stream";
import { HealthIcon } from "../parts/health";
import { now } from "../parts/now";
import { silence } from "./silence";

export function StreamBanner() {
  if (tokenWanted.value) return null;
  if (silence(connection.value, heardAt.value, now.value) === "quiet")
    return (
      <Warning said="Connection lost; data may be stale.">
        {heardAt.value === null
          ? "Cannot connect to the fleet; retrying."
          : `Connection lost ${since(heardAt.value)} ago; data is from ${clock(byFleet(heardAt.value) / 1000)}.`}
      </Warning>
    );
  if (paused.value)
    return (
      <div class="stream-banner">
        <span role="status">Updates are paused.</span>
        <button type="button" onClick={resume}>
          Resume
        </button>
      </div>
    );
  if (isBehind(behindSince.value, now.value))
    return (
      <Warning said="The fleet responds slowly; some data is stale.">
        The fleet responds slowly: changes from {since(behindSince.value)} ago are not shown yet.
      </Warning>
    );
  return null;
}

function since(moment: number): string {
  return duration((now.value - moment) / 1000);
}

// said: once, not with every second that passes.
function Warning({ said, children }: { said: string; children: ComponentChildren }) {
  return (
    <div class="stream-banner stream-banner-lost">
      <HealthIcon tone="warning" />
      <span class="unseen" role="status">
        {said}
      </span>
      <span aria-hidden="true">{children}</span>
    </div>
  );
}
