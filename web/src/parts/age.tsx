// How long ago. `seconds` as the API says it stands still until the next answer; `at` grows by the second.
import { duration } from "../app/units";
import { byFleet } from "../live/fleet-clock";
import { Absent } from "./absent";
import { now } from "./now";

type Props =
  | { seconds: number | null | undefined; reason?: string | null | undefined }
  | { at: number | null | undefined; reason?: string | null | undefined }; // seconds since the epoch

export function Age(props: Props) {
  const seconds = "at" in props ? sinceThen(props.at, byFleet(now.value)) : props.seconds;
  if (seconds === null || seconds === undefined) return <Absent reason={props.reason} />;
  const title = "at" in props && props.at ? new Date(props.at * 1000).toLocaleString("en-GB") : undefined;
  return (
    <span class="age" title={title}>
      {duration(seconds)}
      <span class="unseen"> ago</span>
    </span>
  );
}

export function sinceThen(at: number | null | undefined, nowMilliseconds: number): number | null {
  return at === null || at === undefined ? null : Math.max(0, nowMilliseconds / 1000 - at);
}
