// Pods and processes of a node or device.
import type { PodRow, ProcessRow } from "../../api/types";
import { linkTo } from "../../app/routes";
import { bytes, count, percent } from "../../app/units";
import { Value } from "../../parts/absent";
import { Panel } from "../../parts/panel";
import { Empty } from "../../parts/states";
import {
  EnergyCell,
  IdleCell,
  MiddleEllipsis,
  PodCell,
  ProcessOwnerCell,
  UseCell,
} from "../../parts/table/cells";
import type { Column } from "../../parts/table/columns";
import { DataTable, staleness } from "../../parts/table/data-table";
import { RunTime } from "../pods/pod-tables";
import { shareOf } from "../pods/share";
import "./workloads.css";

export type DeviceNames = ReadonlyMap<string, string>; // display names of devices by id

function deviceColumn<R extends { cluster: string; node: string; device: string }>(
  names: DeviceNames,
): Column<R> {
  return {
    key: "device",
    title: "Device",
    width: 80,
    align: "end",
    cell: ({ cluster, node, device }) => (
      <a href={linkTo("device", { cluster, node, device })} title={device}>
        <Value text={names.get(device)} />
      </a>
    ),
  };
}

const POD: readonly Column<PodRow>[] = [
  {
    key: "pod",
    title: "Pod",
    width: 220,
    least: 150,
    grow: true,
    cell: ({ cluster, namespace, pod }) => <PodCell cluster={cluster} namespace={namespace} pod={pod} />,
  },
  {
    key: "namespace",
    title: "Namespace",
    width: 120,
    priority: 2,
    cell: ({ namespace }) => <MiddleEllipsis text={namespace} />,
  },
  {
    key: "container",
    title: "Container",
    width: 110,
    priority: 3,
    cell: ({ container }) => <MiddleEllipsis text={container} />,
  },
  {
    key: "use",
    title: "Use",
    width: 124,
    least: 80,
    align: "end",
    cell: (row) => <UseCell ratio={row.utilization_ratio} />,
  },
  {
    key: "memory",
    title: "Memory",
    width: 92,
    align: "end",
    cell: ({ memory_used_bytes }) => <Value text={bytes(memory_used_bytes)} />,
  },
  { key: "share", title: "Share", width: 130, priority: 2, cell: (row) => shareOf(row) },
  {
    key: "energy",
    title: "Energy",
    width: 92,
    priority: 3,
    align: "end",
    cell: (row) => <EnergyCell joules={row.energy_joules} />,
  },
  {
    key: "idle",
    title: "Idle",
    width: 96,
    priority: 2,
    align: "end",
    cell: ({ allocated, idle_seconds }) =>
      allocated > 0 ? <IdleCell seconds={idle_seconds} /> : <span class="soft">not allocated</span>,
  },
];

const PROCESS: readonly Column<ProcessRow>[] = [
  {
    key: "program",
    title: "Program",
    note: "Name only; arguments are never shown",
    width: 140,
    least: 110,
    grow: true,
    cell: ({ name, pid }) => <Value text={name ?? `pid ${pid}`} />,
  },
  { key: "pid", title: "Pid", width: 84, priority: 2, align: "end", cell: ({ pid }) => String(pid) },
  {
    key: "owner",
    title: "Pod or owner",
    width: 190,
    priority: 2,
    cell: (row) => <ProcessOwnerCell row={row} />,
  },
  {
    key: "use",
    title: "Use",
    width: 124,
    least: 80,
    align: "end",
    cell: (row) => <UseCell ratio={row.utilization_ratio} />,
  },
  {
    key: "memory",
    title: "Memory",
    note: "On the device",
    width: 92,
    align: "end",
    cell: ({ memory_bytes }) => <Value text={bytes(memory_bytes)} />,
  },
  {
    key: "cpu",
    title: "Host CPU",
    note: "100 % is one CPU of the node",
    width: 88,
    priority: 2,
    align: "end",
    cell: ({ cpu_ratio }) => <Value text={percent(cpu_ratio)} />,
  },
  {
    key: "resident",
    title: "Host memory",
    width: 106,
    priority: 3,
    align: "end",
    cell: ({ resident_memory_bytes }) => <Value text={bytes(resident_memory_bytes)} />,
  },
  {
    key: "time",
    title: "Running for",
    width: 124,
    priority: 3,
    align: "end",
    cell: (row) => <RunTime since={row.started_at ?? null} />,
  },
  { key: "user", title: "User", width: 80, priority: 3, cell: ({ user }) => <Value text={user} /> },
  { key: "type", title: "Type", width: 90, priority: 3, cell: ({ type }) => <Value text={type} /> },
];

// names: set if there are several devices.
function withDevice<R extends { cluster: string; node: string; device: string }>(
  columns: readonly Column<R>[],
  names: DeviceNames | null,
): readonly Column<R>[] {
  const [first, ...rest] = columns;
  return names === null || !first ? columns : [first, deviceColumn<R>(names), ...rest];
}

export function Pods({ rows, names }: { rows: readonly PodRow[]; names: DeviceNames | null }) {
  return (
    <Panel title="Pods" aside={count(new Set(rows.map((row) => `${row.namespace}/${row.pod}`)).size)} flush>
      {rows.length > 0 ? (
        <DataTable
          caption="Containers of pods, by device"
          columns={withDevice(POD, names)}
          rows={rows}
          rowKey={(row) => `${row.namespace}/${row.pod}/${row.container}/${row.device}/${row.partition}`}
          rowStale={staleness}
        />
      ) : (
        <Empty title="No pods" />
      )}
    </Panel>
  );
}

export function Processes({ rows, names }: { rows: readonly ProcessRow[]; names: DeviceNames | null }) {
  return (
    <Panel title="Processes" aside={count(rows.length)} flush>
      {rows.length > 0 ? (
        <DataTable
          caption="Processes"
          columns={withDevice(PROCESS, names)}
          rows={rows}
          rowKey={(row) => `${row.pid}/${row.device}/${row.partition}`}
          rowStale={staleness}
        />
      ) : (
        <Empty title="No processes">Either none is running, or the driver does not report processes.</Empty>
      )}
    </Panel>
  );
}
