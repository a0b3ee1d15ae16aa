// What belongs to a pod, as small tables: the devices as a whole, its processes, what it was given.
import type { Allocation, DeviceRow, ProcessRow } from "../../api/types";
import { linkTo } from "../../app/routes";
import { bytes, count, duration, percent } from "../../app/units";
import { byFleet } from "../../live/fleet-clock";
import { Value } from "../../parts/absent";
import { Health } from "../../parts/health";
import { now } from "../../parts/now";
import { MemoryCell, PowerCell, TemperatureCell, UseCell } from "../../parts/table/cells";

function Head({ columns }: { columns: readonly string[] }) {
  return (
    <thead>
      <tr>
        {columns.map((title) => (
          <th key={title} scope="col" class={title.startsWith("#") ? "number" : undefined}>
            {title.replace(/^#/, "")}
          </th>
        ))}
      </tr>
    </thead>
  );
}

export function Devices({ rows }: { rows: readonly DeviceRow[] }) {
  return (
    <table class="plain">
      <caption class="unseen">Devices of the pod, with what everybody does on them</caption>
      <Head columns={["Device", "Node", "Health", "#Use", "#Memory", "#Temperature", "#Power", "#Held by"]} />
      <tbody>
        {inOrder(rows).map((row) => (
          <tr key={`${row.node}/${row.id}`}>
            <th scope="row">
              <a href={linkTo("device", { cluster: row.cluster, node: row.node, device: row.id })}>
                {row.model ?? row.vendor} {row.index === null ? "" : `#${row.index}`}
              </a>
            </th>
            <td>
              <a href={linkTo("node", { cluster: row.cluster, node: row.node })}>{row.node}</a>
            </td>
            <td>
              <Health state={row.health} reason={row.health_reason} />
            </td>
            <td class="number">
              <UseCell ratio={row.utilization_ratio} />
            </td>
            <td class="number">
              <MemoryCell used={row.memory_used_bytes} total={row.memory_total_bytes} />
            </td>
            <td class="number">
              <TemperatureCell at={row.temperature_celsius} slowdown={row.temperature_slowdown_celsius} />
            </td>
            <td class="number">
              <PowerCell drawn={row.power_watts} limit={row.power_limit_watts} />
            </td>
            <td class="number">
              {row.allocated === 1 ? "1 container" : `${count(row.allocated)} containers`}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function inOrder(rows: readonly DeviceRow[]): DeviceRow[] {
  return [...rows].sort(
    (one, other) => one.node.localeCompare(other.node) || (one.index ?? 0) - (other.index ?? 0),
  );
}

export function Processes({ rows }: { rows: readonly ProcessRow[] }) {
  return (
    <table class="plain">
      <caption class="unseen">Processes of the pod</caption>
      <Head
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
          "#Runs for",
        ]}
      />
      <tbody>
        {rows.map((row) => (
          <tr key={`${row.node}/${row.pid}/${row.device}/${row.partition}`}>
            <th scope="row">
              <Value text={row.name} />
            </th>
            <td class="number">{row.pid}</td>
            <td>
              <Value text={row.container} />
            </td>
            <td class="number">
              <a href={linkTo("device", { cluster: row.cluster, node: row.node, device: row.device })}>
                {row.device_index ?? row.device}
              </a>
            </td>
            <td>
              <Value text={row.user} />
            </td>
            <td class="number">
              <UseCell ratio={row.utilization_ratio} />
            </td>
            <td class="number">
              <Value text={bytes(row.memory_bytes)} />
            </td>
            <td class="number">
              <Value text={percent(row.cpu_ratio)} />
            </td>
            <td class="number">
              <Value text={bytes(row.resident_memory_bytes)} />
            </td>
            <td class="number">
              <RunTime since={row.started_at} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

// Since it was started; grows while one looks.
export function RunTime({ since }: { since: number | null }) {
  return <Value text={since === null ? null : duration(byFleet(now.value) / 1000 - since)} />;
}

export function Allocations({ rows }: { rows: readonly Allocation[] }) {
  return (
    <table class="plain">
      <caption class="unseen">What the pod was given, and who says so</caption>
      <Head
        columns={[
          "Container",
          "Resource",
          "Device id",
          "Claim",
          "#Share of memory",
          "#Share of use",
          "Told by",
        ]}
      />
      <tbody>
        {rows.map((row) => (
          <tr key={`${row.container}/${row.resource}/${row.device_id}`}>
            <th scope="row">{row.container}</th>
            <td>
              <Value text={row.resource} />
            </td>
            <td class="mono">{row.device_id}</td>
            <td>
              <Value text={row.claim} />
            </td>
            <td class="number">
              <Value text={bytes(row.memory_bytes)} />
            </td>
            <td class="number">
              <Value text={percent(row.compute_ratio)} />
            </td>
            <td>{row.source}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
