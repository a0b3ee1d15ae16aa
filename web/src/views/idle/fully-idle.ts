// API parameters for devices that no pod uses, with the filters that devices share with pods.
import type { Parameters } from "../../api/client";
import { DEVICE_FIELDS } from "../../parts/table/fields";
import { tableParameters } from "../../parts/table/parameters";

const OF_DEVICES = { fields: [...DEVICE_FIELDS, "namespace"], own: ["q", "present", "absent"] };

export function fullyIdle(address: URLSearchParams, seconds: number): Parameters {
  return { ...tableParameters(address, OF_DEVICES), idle_seconds_min: seconds };
}
