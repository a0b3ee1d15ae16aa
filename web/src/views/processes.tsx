// Processes on devices, with their CPU and memory use on the node.
import type { ProcessRow, ProcessRowPage } from "../api/types";
import { linkTo } from "../app/routes";
import { bytes, percent } from "../app/units";
import { Value } from "../parts/absent";
import { choice, FACETS, type Facet } from "../parts/filters/facets";
import { Empty } from "../parts/states";
import { AgeCell, ClusterCell, NodeCell, ProcessOwnerCell, TextCell, UseCell } from "../parts/table/cells";
import type { Column } from "../parts/table/columns";
import { staleness } from "../parts/table/data-table";
import { PROCESS_FIELDS } from "../parts/table/fields";
import { ListView } from "../parts/table/list";
import { useTable } from "../parts/table/use-table";
import { RunTime } from "./pods/pod-tables";

const COLUMNS: readonly Column<ProcessRow>[] = [
  {
    key: "program",
    title: "Program",
    note: "Name and pid; arguments are never shown",
    width: 190,
    least: 150,
    grow: true,
    sort: "name",
    cell: ({ name, pid }) => (
      <>
        <Value text={name} /> <span class="cell-soft small">{pid}</span>
      </>
    ),
  },
  {
    key: "owner",
    title: "Pod or owner",
    width: 190,
    priority: 2,
    sort: "pod",
    cell: (row) => <ProcessOwnerCell row={row} />,
  },
  {
    key: "namespace",
    title: "Namespace",
    width: 112,
    priority: 3,
    sort: "namespace",
    cell: ({ namespace }) => <TextCell text={namespace} />,
  },
  {
    key: "node",
    title: "Node",
    width: 160,
    priority: 2,
    sort: "node",
    cell: ({ cluster, node }) => <NodeCell cluster={cluster} node={node} />,
  },
  {
    key: "device",
    title: "Device",
    width: 72,
    priority: 2,
    align: "end",
    sort: "device_index",
    cell: ({ cluster, node, device, device_index, partition }) => (
      <a href={linkTo("device", { cluster, node, device })} title={partition ?? device}>
        <Value text={device_index?.toString()} />
      </a>
    ),
  },
  {
    key: "use",
    title: "Use",
    note: "Share of the device used by this process",
    width: 124,
    least: 80,
    align: "end",
    sort: "utilization_ratio",
    cell: ({ utilization_ratio }) => <UseCell ratio={utilization_ratio} />,
  },
  {
    key: "memory",
    title: "Memory",
    note: "On the device",
    width: 92,
    least: 80,
    align: "end",
    sort: "memory_bytes",
    cell: ({ memory_bytes }) => <Value text={bytes(memory_bytes)} />,
  },
  {
    key: "cpu",
    title: "Host CPU",
    note: "100 % is one CPU of the node",
    width: 88,
    priority: 2,
    align: "end",
    sort: "cpu_ratio",
    cell: ({ cpu_ratio }) => <Value text={percent(cpu_ratio)} />,
  },
  {
    key: "resident",
    title: "Host memory",
    note: "Of the node's own memory",
    width: 106,
    priority: 2,
    align: "end",
    sort: "resident_memory_bytes",
    cell: ({ resident_memory_bytes }) => <Value text={bytes(resident_memory_bytes)} />,
  },
  {
    key: "time",
    title: "Running for",
    note: "Time since it was started",
    width: 118,
    priority: 2,
    align: "end",
    sort: "started_at",
    cell: ({ started_at }) => <RunTime since={started_at} />,
  },
  {
    key: "user",
    title: "User",
    width: 90,
    priority: 3,
    sort: "user",
    cell: ({ user }) => <TextCell text={user} />,
  },
  {
    key: "type",
    title: "Type",
    width: 90,
    priority: 3,
    sort: "type",
    cell: ({ type }) => <TextCell text={type} />,
  },
  {
    key: "cluster",
    title: "Cluster",
    width: 100,
    priority: 3,
    sort: "cluster",
    cell: ({ cluster }) => <ClusterCell cluster={cluster} />,
  },
  {
    key: "age",
    ages: true,
    title: "Age",
    note: "Time since the last reading",
    width: 100,
    priority: 3,
    align: "end",
    sort: "age_seconds",
    cell: ({ age_seconds, state }) => <AgeCell seconds={age_seconds} stale={state === "stale"} />,
  },
];

const KINDS: Facet = {
  title: "Kind",
  choices: [
    choice("type", "compute"),
    choice("type", "graphics"),
    choice("type", "both", "compute and graphics"),
    choice("absent", "pod", "in no pod"),
    choice("state", "stale"),
  ],
};

export function ProcessesView() {
  const table = useTable<ProcessRow, ProcessRowPage>("/api/v1/processes", {
    fields: PROCESS_FIELDS,
    sort: "-memory_bytes",
  });
  return (
    <ListView
      title="Processes"
      what="processes"
      one="process"
      name="processes"
      table={table}
      columns={COLUMNS}
      rowKey={({ cluster, node, pid, device, partition }) =>
        `${cluster}/${node}/${pid}/${device}/${partition}`
      }
      rowLink={processLink}
      rowStale={staleness}
      simulated={({ simulated }) => simulated}
      placeholder="Program, pod, user, node"
      facets={[FACETS.cluster, FACETS.vendor, FACETS.namespace, KINDS]}
      empty={
        <Empty title="No process uses a device">
          If a driver does not report processes or the agent markPending permission, the device page shows the
          reason.
        </Empty>
      }
    />
  );
}

// Link to the pod of a process, or else to its device.
function processLink({ cluster, namespace, pod, node, device }: ProcessRow): string {
  return namespace !== null && pod !== null
    ? linkTo("pod", { cluster, namespace, pod })
    : linkTo("device", { cluster, node, device });
}
