// Texts about errors with a code.
import type { DeviceError } from "../../api/types";
import { words } from "../../parts/health";

export function nameOf({ kind, code }: Pick<DeviceError, "kind" | "code">): string {
  return code.startsWith(`${kind}_`) ? words(code) : `${kind.toUpperCase()} ${words(code)}`;
}

// The colour of a severity that affects the health.
export function toneOf({ severity }: Pick<DeviceError, "severity">): "critical" | "warning" | undefined {
  return severity === "critical" || severity === "warning" ? severity : undefined;
}

const UNTIL: Record<string, string> = {
  reset: "a reset",
  driver_reload: "a reload of the driver",
  reboot: "a reboot",
  replacement: "the replacement",
};

export function whatToDo({ action, until }: Pick<DeviceError, "action" | "until">): string {
  if (action === null) return "";
  return until === null ? action : `${action}. Lasts until ${UNTIL[until] ?? words(until)}`;
}
