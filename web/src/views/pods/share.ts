// A container's share of a device as text.
import type { PodRow } from "../../api/types";
import { bytes, percent } from "../../app/units";

type Given = Pick<PodRow, "allocated" | "partition" | "memory_share_bytes" | "compute_share_ratio">;

export function shareOf(row: Given): string {
  if (row.allocated === 0) return "none";
  if (row.partition !== null) return "partition";
  const parts = [
    row.compute_share_ratio === null ? null : percent(row.compute_share_ratio),
    row.memory_share_bytes === null ? null : bytes(row.memory_share_bytes),
  ].filter((part) => part !== null);
  if (parts.length > 0) return parts.join(", ");
  return row.allocated > 1 ? `allocated, ${row.allocated} ids` : "allocated";
}
