// Devices that none of their holders uses, by those filters of the list of pods that devices have too.
import type { Parameters } from "../../api/client";
import { DEVICE_FIELDS } from "../../parts/table/fields";
import { questionOf } from "../../parts/table/question";

const OF_DEVICES = { fields: [...DEVICE_FIELDS, "namespace"], own: ["q", "present", "absent"] };

export function whollyIdle(address: URLSearchParams, seconds: number): Parameters {
  return { ...questionOf(address, OF_DEVICES), idle_seconds_min: seconds };
}
