// All devices, one per row.
import type { DeviceRow, DeviceRowPage } from "../api/types";
import { linkTo } from "../app/routes";
import { count } from "../app/units";
import { choice, FACETS, type Facet } from "../parts/filters/facets";
import { Health } from "../parts/health";
import {
  AgeCell,
  ClusterCell,
  DeviceName,
  DeviceNotes,
  EnergyCell,
  IdleCell,
  LONG_IDLE,
  MemoryCell,
  PowerCell,
  TemperatureCell,
  TextCell,
  UseCell,
} from "../parts/table/cells";
import type { Column } from "../parts/table/columns";
import { staleness } from "../parts/table/data-table";
import { DEVICE_FIELDS } from "../parts/table/fields";
import { ListView } from "../parts/table/list";
import { NoDevices } from "../parts/table/no-devices";
import { useTable } from "../parts/table/use-table";
import { vendorName } from "../parts/vendor";

const COLUMNS: readonly Column<DeviceRow>[] = [
  {
    key: "device",
    title: "Device",
    width: 220,
    least: 116,
    grow: true,
    sort: "node",
    under: { column: "cluster", text: ({ cluster }) => cluster },
    cell: ({ node, index }) => <DeviceName node={node} index={index} />,
  },
  {
    key: "cluster",
    title: "Cluster",
    width: 110,
    priority: 3,
    sort: "cluster",
    cell: ({ cluster }) => <ClusterCell cluster={cluster} />,
  },
  {
    key: "model",
    title: "Model",
    width: 210,
    priority: 3,
    sort: "model",
    cell: ({ vendor, model }) => <TextCell text={model ?? vendorName(vendor)} />,
  },
  {
    key: "health",
    title: "Health",
    width: 100,
    least: 86,
    sort: "health",
    cell: ({ health, health_reason }) => <Health state={health} reason={health_reason} />,
  },
  {
    key: "use",
    title: "Use",
    width: 124,
    least: 80,
    align: "end",
    sort: "utilization_ratio",
    cell: ({ utilization_ratio }) => <UseCell ratio={utilization_ratio} />,
  },
  {
    key: "memory",
    title: "Memory",
    width: 212,
    priority: 2,
    align: "end",
    sort: "memory_used_bytes",
    note: "Sorted by the bytes in use",
    cell: (row) => <MemoryCell used={row.memory_used_bytes} total={row.memory_total_bytes} />,
  },
  {
    key: "temperature",
    title: "Temperature",
    width: 118,
    priority: 2,
    align: "end",
    sort: "temperature_celsius",
    cell: (row) => (
      <TemperatureCell at={row.temperature_celsius} slowdown={row.temperature_slowdown_celsius} />
    ),
  },
  {
    key: "power",
    title: "Power",
    width: 84,
    priority: 2,
    align: "end",
    sort: "power_watts",
    cell: (row) => <PowerCell drawn={row.power_watts} limit={row.power_limit_watts} />,
  },
  {
    key: "idle",
    title: "Idle",
    note: "Time since the pods it is allocated to last used it",
    width: 92,
    priority: 3,
    align: "end",
    sort: "idle_seconds",
    cell: (row) =>
      row.allocated === 0 ? <span class="cell-soft">free</span> : <IdleCell seconds={row.idle_seconds} />,
  },
  {
    key: "age",
    ages: true,
    title: "Age",
    note: "Time since the last reading",
    width: 110,
    priority: 4,
    align: "end",
    sort: "age_seconds",
    cell: (row) => <AgeCell seconds={row.age_seconds} stale={row.state === "stale"} />,
  },
  {
    key: "namespaces",
    title: "Namespaces",
    width: 130,
    priority: 4,
    sort: "namespaces",
    cell: ({ namespaces }) => <TextCell text={namespaces?.replaceAll(",", ", ") ?? null} />,
  },
  {
    key: "notes",
    title: "Notes",
    width: 120,
    priority: 4,
    cell: (row) => <DeviceNotes row={row} />,
  },
  {
    key: "processes",
    title: "Processes",
    width: 90,
    priority: 4,
    align: "end",
    sort: "processes",
    cell: ({ processes }) => count(processes),
  },
  {
    key: "energy",
    title: "Energy",
    note: "Since its driver was loaded",
    width: 96,
    priority: 4,
    align: "end",
    sort: "energy_joules",
    cell: ({ energy_joules }) => <EnergyCell joules={energy_joules} />,
  },
];

const CONDITIONS: Facet = {
  title: "Condition",
  choices: [
    choice("idle_seconds_min", String(LONG_IDLE), "Fully idle for an hour"),
    choice("allocated_max", "0", "Not allocated"),
    choice("present", "throttled", "Throttled"),
    choice("present", "unusual", "Anomaly"),
    choice("errors_min", "1", "Has errors"),
    choice("state", "stale", "Stale"),
  ],
};

export function DevicesView() {
  const table = useTable<DeviceRow, DeviceRowPage>("/api/v1/devices", {
    fields: DEVICE_FIELDS,
    sort: "cluster,node,index",
    rename: { namespace: "namespaces" },
  });
  return (
    <ListView
      title="Devices"
      what="devices"
      one="device"
      name="devices"
      table={table}
      columns={COLUMNS}
      rowKey={({ cluster, node, id }) => `${cluster}/${node}/${id}`}
      rowLink={({ cluster, node, id }) => linkTo("device", { cluster, node, device: id })}
      rowStale={staleness}
      simulated={({ simulated }) => simulated}
      placeholder="Node, model, uuid, serial, PCI address"
      facets={[FACETS.cluster, FACETS.vendor, FACETS.model, FACETS.health, FACETS.namespace, CONDITIONS]}
      empty={<NoDevices what="device" />}
    />
  );
}
