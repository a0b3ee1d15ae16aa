// Groups the API's rows, one per container and device, by pod.
import type { PodRow } from "../../api/types";

export interface Owner {
  name: string;
  kind: string | null;
}

export interface PodGroup {
  key: string;
  rows: readonly PodRow[];
  cluster: string;
  namespace: string;
  pod: string;
  nodes: readonly string[];
  owner: Owner | null;
  containers: readonly string[];
  devices: number; // or partitions of them
  models: readonly string[];
  allocated: boolean; // false: it uses devices that are not allocated to it
  use: number | null; // mean of the known values
  memoryBytes: number | null; // sum of the known values
  energyJoules: number | null;
  processes: number;
  idleSeconds: number | null; // shortest idle time of its allocated devices
  stale: boolean;
  ageSeconds: number | null;
  simulated: boolean;
  unusual: string | null;
}

// Sort fields that keep the rows of a pod together. With any other, each row is shown on its own.
const OF_PODS = new Set(["cluster", "namespace", "pod", "node", "owner_kind", "owner_name", "pod_uid"]);

export function keepsPodsTogether(fields: readonly string[]): boolean {
  return fields.every((field) => OF_PODS.has(field));
}

// `whole` false: more rows follow, so the last pod may be incomplete and is left out, unless it is the only one.
export function groupByPod(rows: readonly PodRow[], whole: boolean): PodGroup[] {
  const found = new Map<string, PodRow[]>();
  for (const row of rows) {
    const key = `${row.cluster}/${row.namespace}/${row.pod}`;
    const before = found.get(key);
    if (before) before.push(row);
    else found.set(key, [row]);
  }
  const groups = [...found].map(([key, rows]) => groupRows(key, rows));
  return whole || groups.length < 2 ? groups : groups.slice(0, -1);
}

export function singleRows(rows: readonly PodRow[]): PodGroup[] {
  return rows.map((row) =>
    groupRows([row.cluster, row.namespace, row.pod, row.container, row.device, row.partition].join("/"), [
      row,
    ]),
  );
}

export function groupRows(key: string, rows: readonly PodRow[]): PodGroup {
  const first = rows[0] as PodRow;
  const allocatedRows = rows.filter((row) => row.allocated > 0);
  const idle = known(allocatedRows.map((row) => row.idle_seconds));
  return {
    key,
    rows,
    cluster: first.cluster,
    namespace: first.namespace,
    pod: first.pod,
    nodes: [...new Set(rows.map((row) => row.node))],
    owner: ownerOf(first),
    containers: [...new Set(rows.map((row) => row.container))],
    devices: new Set(rows.map((row) => `${row.device} ${row.partition ?? ""}`)).size,
    models: [...new Set(rows.flatMap((row) => row.model ?? []))],
    allocated: allocatedRows.length > 0,
    use: mean(rows.map((row) => row.utilization_ratio)),
    memoryBytes: sum(rows.map((row) => row.memory_used_bytes)),
    energyJoules: sum(rows.map((row) => row.energy_joules)),
    processes: rows.reduce((total, row) => total + row.processes, 0),
    idleSeconds: idle.length === 0 || idle.length < allocatedRows.length ? null : Math.min(...idle),
    stale: rows.some((row) => row.state === "stale"),
    ageSeconds: known(rows.map((row) => row.age_seconds)).reduce<number | null>(
      (most, age) => Math.max(most ?? age, age),
      null,
    ),
    simulated: first.simulated,
    unusual: rows.find((row) => row.unusual !== null)?.unusual ?? null,
  };
}

export function ownerOf({ owner_kind, owner_name }: Pick<PodRow, "owner_kind" | "owner_name">): Owner | null {
  return owner_name === null ? null : { name: owner_name, kind: owner_kind };
}

function known(values: readonly (number | null)[]): number[] {
  return values.filter((value) => value !== null);
}

function sum(values: readonly (number | null)[]): number | null {
  const given = known(values);
  return given.length === 0 ? null : given.reduce((total, value) => total + value, 0);
}

function mean(values: readonly (number | null)[]): number | null {
  const total = sum(values);
  return total === null ? null : total / known(values).length;
}
