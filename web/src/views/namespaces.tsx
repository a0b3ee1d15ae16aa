// Namespaces with allocated, used and idle devices.
import type { NamespaceRow, Namespaces } from "../api/types";
import { linkTo } from "../app/routes";
import { bytes, count, fraction } from "../app/units";
import { Value } from "../parts/absent";
import { Badge } from "../parts/badge";
import { FACETS } from "../parts/filters/facets";
import { Empty } from "../parts/states";
import { ClusterCell, EnergyCell, TextCell, UseCell } from "../parts/table/cells";
import type { Column } from "../parts/table/columns";
import { NAMESPACE_FIELDS } from "../parts/table/fields";
import { ListView } from "../parts/table/list";
import { useTable } from "../parts/table/use-table";

const COLUMNS: readonly Column<NamespaceRow>[] = [
  {
    key: "namespace",
    title: "Namespace",
    width: 180,
    least: 110,
    grow: true,
    sort: "namespace",
    under: { column: "cluster", text: ({ cluster }) => cluster },
    cell: ({ namespace }) => <TextCell text={namespace} />,
  },
  {
    key: "cluster",
    title: "Cluster",
    width: 120,
    priority: 2,
    sort: "cluster",
    cell: ({ cluster }) => <ClusterCell cluster={cluster} />,
  },
  {
    key: "devices",
    title: "Devices",
    note: "Allocated to or used by its pods",
    width: 84,
    least: 76,
    align: "end",
    sort: "devices",
    cell: ({ devices }) => count(devices),
  },
  {
    key: "held",
    title: "Allocated",
    note: "Devices allocated to its pods",
    width: 84,
    priority: 2,
    align: "end",
    sort: "devices_allocated",
    cell: ({ devices_allocated }) => count(devices_allocated),
  },
  {
    key: "use",
    title: "Use",
    note: "Mean over its devices, use by its own pods only",
    width: 124,
    least: 80,
    align: "end",
    sort: "utilization_ratio",
    cell: ({ utilization_ratio }) => <UseCell ratio={utilization_ratio} />,
  },
  {
    key: "idle",
    title: "Idle devices",
    note: "Sum of the allocated device shares that its pods have not used for an hour or more",
    width: 110,
    priority: 2,
    align: "end",
    sort: "devices_idle",
    cell: ({ cluster, namespace, devices_idle }) =>
      devices_idle > 0 ? (
        <a href={linkTo("idle", {}, { cluster, namespace })}>
          <Badge tone="warning">{fraction(devices_idle)}</Badge>
        </a>
      ) : (
        "0"
      ),
  },
  {
    key: "memory",
    title: "Memory",
    note: "Device memory used by its processes",
    width: 96,
    priority: 2,
    align: "end",
    sort: "memory_used_bytes",
    cell: ({ memory_used_bytes }) => <Value text={bytes(memory_used_bytes)} />,
  },
  {
    key: "energy",
    title: "Energy",
    note: "Device energy in proportion to its pods' use, since monitoring began",
    width: 100,
    priority: 2,
    align: "end",
    sort: "energy_joules",
    cell: ({ energy_joules }) => <EnergyCell joules={energy_joules} />,
  },
  {
    key: "pods",
    title: "Pods",
    width: 76,
    priority: 2,
    align: "end",
    sort: "pods",
    cell: ({ pods }) => count(pods),
  },
  {
    key: "nodes",
    title: "Nodes",
    width: 76,
    priority: 3,
    align: "end",
    sort: "nodes",
    cell: ({ nodes }) => count(nodes),
  },
  {
    key: "processes",
    title: "Processes",
    width: 96,
    priority: 3,
    align: "end",
    sort: "processes",
    cell: ({ processes }) => count(processes),
  },
  {
    key: "stale",
    title: "Stale devices",
    width: 116,
    priority: 3,
    align: "end",
    sort: "devices_stale",
    cell: ({ devices_stale }) =>
      devices_stale > 0 ? <Badge tone="warning">{count(devices_stale)}</Badge> : "0",
  },
];

export function NamespacesView() {
  const table = useTable<NamespaceRow, Namespaces>("/api/v1/namespaces", {
    fields: NAMESPACE_FIELDS,
    sort: "-devices",
  });
  return (
    <ListView
      title="Namespaces"
      what="namespaces"
      one="namespace"
      name="namespaces"
      table={table}
      columns={COLUMNS}
      rowKey={({ cluster, namespace }) => `${cluster}/${namespace}`}
      rowLink={({ cluster, namespace }) => linkTo("pods", {}, { cluster, namespace })}
      simulated={({ devices, devices_simulated }) => devices > 0 && devices === devices_simulated}
      placeholder="Name of a namespace"
      facets={[FACETS.cluster, FACETS.vendor, FACETS.model]}
      empty={
        <Empty title="No namespace has a pod with a device">
          Pods are reported by agents with access to the kubelet or the API server.
        </Empty>
      }
    />
  );
}
