// When to say that nothing is heard. A stream that comes back within seconds is nobody's concern.
import type { Connection } from "../live/stream";

const LOST_AFTER_MS = 4_000;
const SILENT_AFTER_MS = 40_000; // the fleet says something every 15 s

export type Silence = "heard" | "quiet";

const openedAt = Date.now();

export function silence(
  connection: Connection,
  heardAt: number | null,
  now: number,
  startedAt = openedAt,
): Silence {
  const quietFor = now - (heardAt ?? startedAt);
  return quietFor > (connection === "live" ? SILENT_AFTER_MS : LOST_AFTER_MS) ? "quiet" : "heard";
}
