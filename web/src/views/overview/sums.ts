// Ratios and parts computed from the API's totals.
import type { SummaryRow } from "../../api/types";
import type { Part } from "../../parts/bar";

export function allocatedRatio({ devices, devices_allocated }: SummaryRow): number | null {
  return devices > 0 ? devices_allocated / devices : null;
}

// Devices by health, as far as the totals have it: lost, otherwise unhealthy, rest.
export function healthParts({ devices, devices_lost, devices_unhealthy }: SummaryRow): Part[] {
  return [
    { key: "lost", label: "lost", count: devices_lost, tone: "lost" },
    { key: "unhealthy", label: "unhealthy", count: devices_unhealthy - devices_lost, tone: "warning" },
    { key: "well", label: "not reported unhealthy", count: devices - devices_unhealthy, tone: "ok" },
  ];
}

const ORDER = [
  ["lost", "lost"],
  ["critical", "critical"],
  ["warning", "warning"],
  ["unknown", "unknown"],
  ["ok", "ok"],
] as const;

export function partsByHealth(devices: Record<string, number>): Part[] {
  return ORDER.map(([key, tone]) => ({ key, label: key, count: devices[key] ?? 0, tone }));
}
