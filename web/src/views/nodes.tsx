// Nodes that have accelerators or should have them.
import type { NodeRow, NodeRowPage } from "../api/types";
import { linkTo } from "../app/routes";
import { celsius, count } from "../app/units";
import { Value } from "../parts/absent";
import { Badge } from "../parts/badge";
import { choice, FACETS, type Facet } from "../parts/filters/facets";
import { Health } from "../parts/health";
import {
  AgeCell,
  ClusterCell,
  MemoryCell,
  MiddleEllipsis,
  PowerCell,
  TextCell,
  UseCell,
} from "../parts/table/cells";
import type { Column } from "../parts/table/columns";
import { staleness } from "../parts/table/data-table";
import { NODE_FIELDS } from "../parts/table/fields";
import { ListView } from "../parts/table/list";
import { NoDevices } from "../parts/table/no-devices";
import { useTable } from "../parts/table/use-table";

const COLUMNS: readonly Column<NodeRow>[] = [
  {
    key: "node",
    title: "Node",
    width: 190,
    least: 110,
    grow: true,
    sort: "node",
    under: { column: "cluster", text: ({ cluster }) => cluster },
    cell: ({ node }) => <MiddleEllipsis text={node} />,
  },
  {
    key: "cluster",
    title: "Cluster",
    width: 110,
    priority: 2,
    sort: "cluster",
    cell: ({ cluster }) => <ClusterCell cluster={cluster} />,
  },
  {
    key: "state",
    title: "State",
    width: 132,
    least: 92,
    sort: "state",
    cell: ({ state, reason }) => <Health state={state} reason={reason} />,
  },
  {
    key: "devices",
    title: "Devices",
    width: 124,
    priority: 2,
    align: "end",
    sort: "devices",
    cell: (row) => <Devices row={row} />,
  },
  {
    key: "models",
    title: "Models",
    width: 200,
    priority: 3,
    sort: "models",
    cell: ({ models }) => <TextCell text={models?.replaceAll(",", ", ") ?? null} />,
  },
  {
    key: "use",
    title: "Use",
    note: "Mean of its devices",
    width: 124,
    least: 80,
    align: "end",
    sort: "utilization_ratio",
    cell: ({ utilization_ratio }) => <UseCell ratio={utilization_ratio} />,
  },
  {
    key: "memory",
    title: "Memory",
    note: "Sorted by the bytes in use",
    width: 212,
    priority: 2,
    align: "end",
    sort: "memory_used_bytes",
    cell: (row) => (
      <MemoryCell used={row.memory_used_bytes} total={row.memory_total_bytes} ratio={row.memory_used_ratio} />
    ),
  },
  {
    key: "power",
    title: "Power",
    width: 84,
    priority: 2,
    align: "end",
    sort: "power_watts",
    cell: ({ power_watts }) => <PowerCell drawn={power_watts} />,
  },
  {
    key: "temperature",
    title: "Hottest",
    width: 84,
    priority: 2,
    align: "end",
    sort: "temperature_max_celsius",
    cell: (row) => <Value text={celsius(row.temperature_max_celsius)} />,
  },
  {
    key: "pods",
    title: "Pods",
    width: 70,
    priority: 4,
    align: "end",
    sort: "pods",
    cell: ({ pods }) => count(pods),
  },
  {
    key: "processes",
    title: "Processes",
    width: 92,
    priority: 4,
    align: "end",
    sort: "processes",
    cell: ({ processes }) => count(processes),
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
    cell: ({ age_seconds, state, reason }) => (
      <AgeCell seconds={age_seconds} stale={state === "stale"} reason={reason} />
    ),
  },
  {
    key: "source",
    title: "Source",
    width: 110,
    priority: 4,
    sort: "source",
    cell: ({ source }) => <TextCell text={source} />,
  },
  {
    key: "agent",
    title: "Agent",
    width: 110,
    priority: 4,
    sort: "agent_version",
    cell: ({ agent_version }) => <TextCell text={agent_version} />,
  },
];

function Devices({ row }: { row: NodeRow }) {
  const unhealthy = row.devices_unhealthy;
  return (
    <>
      {unhealthy > 0 && (
        <Badge tone={row.devices_lost > 0 ? "lost" : "critical"} title={`${row.devices_lost} of them lost`}>
          {unhealthy} unhealthy
        </Badge>
      )}{" "}
      {count(row.devices)}
    </>
  );
}

const STATES: Facet = {
  title: "State",
  choices: [
    choice("state", "fresh"),
    choice("state", "stale"),
    choice("state", "incompatible"),
    choice("state", "unread"),
    choice("devices_unhealthy_min", "1", "with unhealthy devices"),
  ],
};

export function NodesView() {
  const table = useTable<NodeRow, NodeRowPage>("/api/v1/nodes", {
    fields: NODE_FIELDS,
    sort: "cluster,node",
    rename: { vendor: "vendors", model: "models" },
  });
  return (
    <ListView
      title="Nodes"
      what="nodes"
      one="node"
      name="nodes"
      table={table}
      columns={COLUMNS}
      rowKey={({ cluster, node }) => `${cluster}/${node}`}
      rowLink={({ cluster, node }) => linkTo("node", { cluster, node })}
      rowStale={staleness}
      simulated={({ simulated }) => simulated}
      placeholder="Name, model, source, agent version"
      facets={[FACETS.cluster, FACETS.vendor, FACETS.model, STATES]}
      empty={<NoDevices what="node" />}
    />
  );
}
