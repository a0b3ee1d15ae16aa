// Decides when to report a lost connection. A stream that reconnects within seconds is not reported.
import type { Connection } from "../live/stream";

const LOST_AFTER_MS = 4_000;
const SILENT_AFTER_MS = 40_000; // the fleet sends a message every 15 s

const openedAt = Date.now();

export function isConnectionLost(
  connection: Connection,
  lastMessageAt: number | null,
  now: number,
  startedAt = openedAt,
): boolean {
  const silentFor = now - (lastMessageAt ?? startedAt);
  return silentFor > (connection === "live" ? SILENT_AFTER_MS : LOST_AFTER_MS);
}
