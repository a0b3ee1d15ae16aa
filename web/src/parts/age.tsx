// Time since an event. `seconds` is fixed until the next response; with `at` it is updated every second.
import { duration } from "../app/units";
import { toFleetTime } from "../live/fleet-clock";
import { Absent } from "./absent";
import { now } from "./now";

type Props =
  | { seconds: number | null | undefined; reason?: string | null | undefined }
  | { at: number | null | undefined; reason?: string | null | undefined }; // seconds since the epoch

export function Age(props: Props) {
  const seconds = "at" in props ? secondsSince(props.at, toFleetTime(now.value)) : props.seconds;
  if (seconds === null || seconds === undefined) return <Absent reason={props.reason} />;
  const title = "at" in props && props.at ? new Date(props.at * 1000).toLocaleString("en-GB") : undefined;
  return (
    <span class="age" title={title}>
      {duration(seconds)}
      <span class="visually-hidden"> ago</span>
    </span>
  );
}

export function secondsSince(at: number | null | undefined, nowMilliseconds: number): number | null {
  return at === null || at === undefined ? null : Math.max(0, nowMilliseconds / 1000 - at);
}
