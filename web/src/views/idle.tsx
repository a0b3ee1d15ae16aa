// Pods with idle devices, most device-hours first.
import { useState } from "preact/hooks";
import { Problem, query, toProblem } from "../api/client";
import type { IdlePod, IdlePods, Summary } from "../api/types";
import { search } from "../app/location";
import { linkTo } from "../app/routes";
import { bytes, count, duration, fraction, watts } from "../app/units";
import { fleetNow } from "../live/fleet-clock";
import { useResource } from "../live/resource";
import { Value } from "../parts/absent";
import { FACETS } from "../parts/filters/facets";
import { ProblemNote } from "../parts/states";
import { AgeCell, ClusterCell, MiddleEllipsis, NodeCell, TextCell } from "../parts/table/cells";
import type { Column } from "../parts/table/columns";
import { download } from "../parts/table/csv";
import { staleness } from "../parts/table/data-table";
import { POD_FIELDS } from "../parts/table/fields";
import { ListView } from "../parts/table/list";
import { tableParameters } from "../parts/table/parameters";
import { useTable } from "../parts/table/use-table";
import { Tile, Tiles } from "../parts/tile";
import { allIdle, fileName, idleCsv } from "./idle/export";
import { fullyIdle } from "./idle/fully-idle";
import { IdleThreshold, idleThreshold } from "./idle/idle-threshold";
import { NoIdlePods } from "./idle/no-idle-pods";
import { ownerOf } from "./pods/group";
import { OwnerCell } from "./pods/owner";
import "./idle/idle.css";

const COLUMNS: readonly Column<IdlePod>[] = [
  {
    key: "pod",
    title: "Pod",
    width: 220,
    least: 150,
    grow: true,
    under: { column: "namespace", text: ({ cluster, namespace }) => `${cluster} · ${namespace}` },
    cell: ({ pod }) => <MiddleEllipsis text={pod} />,
  },
  {
    key: "namespace",
    title: "Namespace",
    width: 130,
    priority: 2,
    cell: ({ namespace }) => <TextCell text={namespace} />,
  },
  {
    key: "cluster",
    title: "Cluster",
    width: 110,
    priority: 2,
    cell: ({ cluster }) => <ClusterCell cluster={cluster} />,
  },
  {
    key: "owner",
    title: "Owner",
    width: 160,
    priority: 2,
    cell: (pod) => <OwnerCell owner={ownerOf(pod)} />,
  },
  {
    key: "devices",
    title: "Devices",
    note: "Sum of its allocated device shares that are idle",
    width: 80,
    priority: 2,
    align: "end",
    cell: ({ devices_idle }) => fraction(devices_idle),
  },
  {
    key: "models",
    title: "Models",
    width: 210,
    priority: 2,
    cell: ({ models }) => <TextCell text={models.join(", ")} />,
  },
  {
    key: "idle",
    title: "Idle",
    note: "Shortest idle time of these devices",
    width: 96,
    align: "end",
    cell: ({ idle_seconds }) => duration(idle_seconds),
  },
  {
    key: "hours",
    title: "Device-hours",
    note: "Sum of idle time × device share",
    width: 104,
    align: "end",
    cell: ({ device_hours }) => fraction(device_hours),
  },
  {
    key: "memory",
    title: "Memory used",
    note: "On those devices",
    width: 106,
    priority: 2,
    align: "end",
    cell: ({ memory_used_bytes }) => <Value text={bytes(memory_used_bytes)} />,
  },
  {
    key: "node",
    title: "Node",
    width: 170,
    priority: 3,
    cell: ({ cluster, node }) => <NodeCell cluster={cluster} node={node} />,
  },
  {
    key: "age",
    ages: true,
    title: "Age",
    note: "Time since the last reading",
    width: 110,
    priority: 3,
    align: "end",
    cell: ({ age_seconds, state }) => <AgeCell seconds={age_seconds} stale={state === "stale"} />,
  },
];

const OWN = ["min_seconds"]; // has its own control

const OF_PODS = { fields: [...POD_FIELDS, ...OWN] };

export function IdleView() {
  const table = useTable<IdlePod, IdlePods>("/api/v1/idle", OF_PODS);
  const since = idleThreshold(search.value);
  return (
    <ListView
      title="Idle"
      what="idle pods"
      one="idle pod"
      name="idle"
      table={table}
      columns={COLUMNS}
      rowKey={({ cluster, node, namespace, pod }) => `${cluster}/${node}/${namespace}/${pod}`}
      rowLink={({ cluster, namespace, pod }) => linkTo("pod", { cluster, namespace, pod })}
      rowStale={staleness}
      simulated={({ simulated }) => simulated}
      placeholder="Pod, namespace, owner, node"
      facets={[FACETS.cluster, FACETS.namespace, FACETS.vendor, FACETS.model]}
      own={OWN}
      controls={<IdleThreshold />}
      actions={<Export />}
      lead={<IdleTotals answer={table.answer} since={since} />}
      empty={<NoIdlePods since={since} />}
    />
  );
}

function IdleTotals({ answer, since }: { answer: IdlePods | null; since: number }) {
  const wholly = fullyIdle(search.value, since);
  const { data } = useResource<Summary>("/api/v1/summary", wholly, {
    keepPreviousData: true,
    minIntervalSeconds: 5,
  });
  const sums = data?.total;
  return (
    <Tiles label="Idle totals">
      <Tile
        title="Idle device-hours"
        value={answer && fraction(answer.device_hours)}
        detail="by these pods so far"
      />
      <Tile
        title="Idle pods"
        value={answer && count(answer.total)}
        detail={`for ${duration(since)} or longer`}
      />
      <Tile
        title="Idle devices"
        value={answer && fraction(answer.devices_idle)}
        detail={sums ? `sum of shares; ${count(sums.devices)} devices fully idle` : "sum of shares"}
        href={linkTo("devices") + query(wholly)}
      />
      <Tile
        title="Power"
        value={sums && watts(sums.power_watts)}
        detail="of fully idle devices, where known"
      />
    </Tiles>
  );
}

function Export() {
  const [state, setState] = useState<"ready" | "busy" | Problem>("ready");
  const run = async () => {
    setState("busy");
    try {
      download(
        fileName(new Date(fleetNow())),
        idleCsv(await allIdle(tableParameters(search.value, OF_PODS))),
      );
      setState("ready");
    } catch (error) {
      setState(toProblem(error, "Export failed"));
    }
  };
  return (
    <>
      {state instanceof Problem && <ProblemNote problem={state} />}
      <button type="button" onClick={run} disabled={state === "busy"}>
        Download CSV
      </button>
    </>
  );
}
