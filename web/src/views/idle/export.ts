// CSV export of all idle pods that match the filters.
import { get, type Parameters } from "../../api/client";
import type { IdlePod, IdlePods } from "../../api/types";
import { type CsvValue, csv } from "../../parts/table/csv";

const PAGE = 1000;
const PAGES = 100; // limit against an endless response

export async function allIdle(parameters: Parameters): Promise<IdlePod[]> {
  const pods: IdlePod[] = [];
  let cursor: string | null = null;
  for (let page = 0; page < PAGES; page++) {
    const answer: IdlePods = await get<IdlePods>("/api/v1/idle", { ...parameters, limit: PAGE, cursor });
    pods.push(...answer.items);
    cursor = answer.next;
    if (cursor === null) break;
  }
  return pods;
}

const HEADER = [
  "cluster",
  "namespace",
  "pod",
  "owner_kind",
  "owner_name",
  "node",
  "devices",
  "devices_idle",
  "models",
  "idle_seconds",
  "device_hours",
  "memory_used_bytes",
  "state",
  "simulated",
];

export function idleCsv(pods: readonly IdlePod[]): string {
  return csv(
    HEADER,
    pods.map((pod): CsvValue[] => [
      pod.cluster,
      pod.namespace,
      pod.pod,
      pod.owner_kind,
      pod.owner_name,
      pod.node,
      pod.devices,
      pod.devices_idle,
      pod.models.join("; "),
      Math.round(pod.idle_seconds),
      pod.device_hours,
      pod.memory_used_bytes,
      pod.state,
      pod.simulated,
    ]),
  );
}

// idle-2026-11-16T0912.csv, in local time
export function fileName(now: Date): string {
  const two = (value: number) => String(value).padStart(2, "0");
  const day = `${now.getFullYear()}-${two(now.getMonth() + 1)}-${two(now.getDate())}`;
  return `idle-${day}T${two(now.getHours())}${two(now.getMinutes())}.csv`;
}
