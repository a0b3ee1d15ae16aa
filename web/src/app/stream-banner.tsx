// Shown when the page is not up to date: connection lost, slow responses, or paused.
import type { ComponentChildren } from "preact";
import { tokenRequired } from "../api/client";
import { clock, duration } from "../app/units";
import { toFleetTime } from "../live/fleet-clock";
import { isDelayed, pendingSince } from "../live/pending";
import { connection, lastMessageAt, paused, resume } from "../live/stream";
import { HealthIcon } from "../parts/health";
import { now } from "../parts/now";
import { isConnectionLost } from "./connection-lost";

export function StreamBanner() {
  if (tokenRequired.value) return null;
  if (isConnectionLost(connection.value, lastMessageAt.value, now.value))
    return (
      <Warning announcement="Connection lost; data may be stale.">
        {lastMessageAt.value === null
          ? "Cannot connect to the fleet; retrying."
          : `Connection lost ${since(lastMessageAt.value)} ago; data is from ${clock(toFleetTime(lastMessageAt.value) / 1000)}.`}
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
  if (isDelayed(pendingSince.value, now.value))
    return (
      <Warning announcement="The fleet responds slowly; some data is stale.">
        The fleet responds slowly: changes from {since(pendingSince.value)} ago are not shown yet.
      </Warning>
    );
  return null;
}

function since(moment: number): string {
  return duration((now.value - moment) / 1000);
}

// announcement: read out once, not with every second that passes.
function Warning({ announcement, children }: { announcement: string; children: ComponentChildren }) {
  return (
    <div class="stream-banner stream-banner-lost">
      <HealthIcon tone="warning" />
      <span class="visually-hidden" role="status">
        {announcement}
      </span>
      <span aria-hidden="true">{children}</span>
    </div>
  );
}
