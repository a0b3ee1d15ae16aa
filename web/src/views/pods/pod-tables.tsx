// Tables of a pod: devices, processes and allocations.
import type { Allocation, DeviceRow, ProcessRow } from "../../api/types";
import { linkTo } from "../../app/routes";
import { bytes, duration, percent, plural } from "../../app/units";
import { toFleetTime } from "../../live/fleet-clock";
import { Value } from "../../parts/absent";
import { Health } from "../../parts/health";
import { now } from "../../parts/now";
import { SmallTable } from "../../parts/small-table";
import { MemoryCell, PowerCell, TemperatureCell, UseCell } from "../../parts/table/cells";

export function Devices({ rows }: { rows: readonly DeviceRow[] }) {
  return (
    <SmallTable
      caption="Devices of the pod, including use by other pods"
      columns={["Device", "Node", "Health", "#Use", "#Memory", "#Temperature", "#Power", "#Allocated to"]}
      rows={inOrder(rows).map((row) => ({
        key: `${row.node}/${row.id}`,
        cells: [
          <a key="device" href={linkTo("device", { cluster: row.cluster, node: row.node, device: row.id })}>
            {row.model ?? row.vendor} {row.index === null ? "" : `#${row.index}`}
          </a>,
          <a key="node" href={linkTo("node", { cluster: row.cluster, node: row.node })}>
            {row.node}
          </a>,
          <Health key="health" state={row.health} reason={row.health_reason} />,
          <UseCell key="use" ratio={row.utilization_ratio} />,
          <MemoryCell key="memory" used={row.memory_used_bytes} total={row.memory_total_bytes} />,
          <TemperatureCell
            key="temperature"
            at={row.temperature_celsius}
            slowdown={row.temperature_slowdown_celsius}
          />,
          <PowerCell key="power" drawn={row.power_watts} limit={row.power_limit_watts} />,
          plural(row.allocated, "container"),
        ],
      }))}
    />
  );
}

function inOrder(rows: readonly DeviceRow[]): DeviceRow[] {
  return [...rows].sort(
    (one, other) => one.node.localeCompare(other.node) || (one.index ?? 0) - (other.index ?? 0),
  );
}

export function Processes({ rows }: { rows: readonly ProcessRow[] }) {
  return (
    <SmallTable
      caption="Processes of the pod"
      columns={[
        "Program",
        "#Pid",
        "Container",
        "#Device",
        "User",
        "#Use",
        "#Memory",
        "#Host CPU",
        "#Host memory",
        "#Running for",
      ]}
      rows={rows.map((row) => ({
        key: `${row.node}/${row.pid}/${row.device}/${row.partition}`,
        cells: [
          <Value key="program" text={row.name} />,
          row.pid,
          <Value key="container" text={row.container} />,
          <a
            key="device"
            href={linkTo("device", { cluster: row.cluster, node: row.node, device: row.device })}
          >
            {row.device_index ?? row.device}
          </a>,
          <Value key="user" text={row.user} />,
          <UseCell key="use" ratio={row.utilization_ratio} />,
          <Value key="memory" text={bytes(row.memory_bytes)} />,
          <Value key="cpu" text={percent(row.cpu_ratio)} />,
          <Value key="resident" text={bytes(row.resident_memory_bytes)} />,
          <RunTime key="time" since={row.started_at} />,
        ],
      }))}
    />
  );
}

// Time since the start, updated every second.
export function RunTime({ since }: { since: number | null }) {
  return <Value text={since === null ? null : duration(toFleetTime(now.value) / 1000 - since)} />;
}

export function Allocations({ rows }: { rows: readonly Allocation[] }) {
  return (
    <SmallTable
      caption="Allocations of the pod and their source"
      columns={[
        "Container",
        "Resource",
        "Device id",
        "Claim",
        "#Share of memory",
        "#Share of compute",
        "Source",
      ]}
      rows={rows.map((row) => ({
        key: `${row.container}/${row.resource}/${row.device_id}`,
        cells: [
          row.container,
          <Value key="resource" text={row.resource} />,
          <span key="device" class="mono">
            {row.device_id}
          </span>,
          <Value key="claim" text={row.claim} />,
          <Value key="memory" text={bytes(row.memory_bytes)} />,
          <Value key="use" text={percent(row.compute_ratio)} />,
          row.source,
        ],
      }))}
    />
  );
}
