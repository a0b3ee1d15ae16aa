import type { PodRow } from "../../api/types";
import { linkTo } from "../../app/routes";
import { bytes, count, plural } from "../../app/units";
import { Value } from "../../parts/absent";
import { Badge } from "../../parts/badge";
import { words } from "../../parts/health";
import {
  AgeCell,
  ClusterCell,
  EnergyCell,
  IdleCell,
  MiddleEllipsis,
  NodeCell,
  TextCell,
  UseCell,
} from "../../parts/table/cells";
import type { Column } from "../../parts/table/columns";
import type { PodGroup } from "./group";
import { OwnerCell } from "./owner";

const CONTAINER: Column<PodGroup> = {
  key: "container",
  title: "Container",
  width: 100,
  priority: 2,
  sort: "container",
  cell: ({ containers }) => <TextCell text={containers[0]} />,
};

const DEVICE: Column<PodGroup> = {
  key: "device",
  title: "Device",
  width: 150,
  priority: 2,
  sort: "device",
  cell: ({ rows }) => rows[0] && <Device row={rows[0]} />,
};

function Device({ row: { cluster, node, device, partition } }: { row: PodRow }) {
  return (
    <a href={linkTo("device", { cluster, node, device })}>
      <MiddleEllipsis text={partition ?? device.replace(/^[a-z]+:/, "")} />
    </a>
  );
}

export const COLUMNS: readonly Column<PodGroup>[] = [
  {
    key: "pod",
    title: "Pod",
    width: 230,
    least: 130,
    grow: true,
    sort: "pod",
    cell: ({ pod }) => <MiddleEllipsis text={pod} />,
  },
  {
    key: "namespace",
    title: "Namespace",
    width: 120,
    priority: 2,
    sort: "namespace",
    cell: ({ namespace, cluster }) => (
      <a href={linkTo("pods", {}, { cluster, namespace })} title={namespace}>
        {namespace}
      </a>
    ),
  },
  {
    key: "cluster",
    title: "Cluster",
    width: 100,
    priority: 2,
    sort: "cluster",
    cell: ({ cluster }) => <ClusterCell cluster={cluster} />,
  },
  {
    key: "owner",
    title: "Owner",
    width: 150,
    priority: 2,
    sort: "owner_name",
    cell: ({ owner }) => <OwnerCell owner={owner} />,
  },
  {
    key: "devices",
    title: "Devices",
    note: "Devices or partitions allocated to it or used by it",
    width: 84,
    least: 68,
    align: "end",
    cell: ({ devices, models, allocated }) => (
      <span title={models.join(", ")}>
        {!allocated && <span class="cell-soft">uses </span>}
        {count(devices)}
      </span>
    ),
  },
  {
    key: "use",
    title: "Use",
    note: "Mean over its devices",
    width: 124,
    least: 80,
    align: "end",
    sort: "utilization_ratio",
    cell: ({ use }) => <UseCell ratio={use} />,
  },
  {
    key: "memory",
    title: "Memory",
    note: "Device memory used by its processes",
    width: 92,
    priority: 2,
    align: "end",
    sort: "memory_used_bytes",
    cell: ({ memoryBytes }) => <Value text={bytes(memoryBytes)} />,
  },
  {
    key: "energy",
    title: "Energy",
    note: "Device energy in proportion to its use, since monitoring began",
    width: 92,
    priority: 2,
    align: "end",
    sort: "energy_joules",
    cell: ({ energyJoules }) => <EnergyCell joules={energyJoules} />,
  },
  {
    key: "idle",
    title: "Idle",
    note: "Time since it last used one of its allocated devices",
    width: 96,
    priority: 2,
    align: "end",
    sort: "idle_seconds",
    cell: ({ idleSeconds }) => <IdleCell seconds={idleSeconds} />,
  },
  {
    key: "node",
    title: "Node",
    width: 160,
    priority: 3,
    sort: "node",
    cell: ({ cluster, nodes }) =>
      nodes.length === 1 ? (
        <NodeCell cluster={cluster} node={nodes[0] ?? ""} />
      ) : (
        plural(nodes.length, "node")
      ),
  },
  {
    key: "models",
    title: "Models",
    width: 190,
    priority: 3,
    cell: ({ models }) => <TextCell text={models.join(", ")} />,
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
    cell: ({ ageSeconds, stale }) => <AgeCell seconds={ageSeconds} stale={stale} />,
  },
  {
    key: "processes",
    title: "Processes",
    width: 90,
    priority: 3,
    align: "end",
    sort: "processes",
    cell: ({ processes }) => count(processes),
  },
  {
    key: "notes",
    title: "Notes",
    width: 90,
    priority: 3,
    cell: ({ unusual }) =>
      unusual && (
        <Badge tone="warning" title={words(unusual)}>
          anomaly
        </Badge>
      ),
  },
];

// Single rows show container and device in place of the number of devices.
export const SINGLE_COLUMNS: readonly Column<PodGroup>[] = COLUMNS.flatMap((column) =>
  column.key === "devices" ? [CONTAINER, DEVICE] : column.key === "models" ? [] : [column],
);
