// Pods with allocated or used devices, one row per pod. Sorted by a number, one row per container and device, since the
// API sorts those.
import type { PodRow, PodRowPage, Summary } from "../api/types";
import { go, search, withParameter } from "../app/location";
import { linkTo } from "../app/routes";
import { plural } from "../app/units";
import { useResource } from "../live/resource";
import { chipsOf, fieldTitle } from "../parts/filters/active";
import { choice, FACETS, type Facet } from "../parts/filters/facets";
import { Empty } from "../parts/states";
import { LONG_IDLE } from "../parts/table/cells";
import { POD_FIELDS } from "../parts/table/fields";
import { ListView } from "../parts/table/list";
import { useTable } from "../parts/table/use-table";
import { COLUMNS, SINGLE_COLUMNS } from "./pods/columns";
import { Containers } from "./pods/containers";
import { groupByPod, keepsPodsTogether, type PodGroup, singleRows } from "./pods/group";

const CONDITIONS: Facet = {
  title: "Condition",
  choices: [
    choice("idle_seconds_min", String(LONG_IDLE), "Idle for an hour"),
    choice("allocated_max", "0", "Uses devices not allocated to it"),
    choice("present", "unusual", "Anomaly"),
    choice("state", "stale", "Stale"),
  ],
};

// Filters that the summary supports.
const COUNTED_BY = ["cluster", "vendor", "model", "namespace"];

export function PodsView() {
  const table = useTable<PodRow, PodRowPage>("/api/v1/pods", {
    fields: POD_FIELDS,
    sort: "cluster,namespace,pod",
  });
  const together = keepsPodsTogether(table.orders.map(({ field }) => field));
  const { rows, total } = table;
  const whole = rows !== null && total !== null && rows.length >= total;
  const groups = rows === null ? null : together ? groupByPod(rows, whole) : singleRows(rows);
  const pods = usePodCount(!whole && together);
  return (
    <ListView<PodGroup>
      title="Pods"
      what={together ? "pods" : "containers and devices"}
      one={together ? "pod" : "container"}
      name={together ? "pods" : "containers"}
      table={{ ...table, rows: groups, total: together && groups ? (whole ? groups.length : pods) : total }}
      {...(together && !whole && pods === null && groups
        ? { total: `more than ${plural(groups.length, "pod")}` }
        : {})}
      columns={together ? COLUMNS : SINGLE_COLUMNS}
      rowKey={({ key }) => key}
      rowLink={({ cluster, namespace, pod }) => linkTo("pod", { cluster, namespace, pod })}
      rowStale={({ stale, ageSeconds }) => (stale ? { seconds: ageSeconds } : null)}
      simulated={({ simulated }) => simulated}
      {...(together ? { expand: details } : {})}
      placeholder="Pod, namespace, owner, node, model"
      facets={[FACETS.cluster, FACETS.namespace, FACETS.vendor, FACETS.model, CONDITIONS]}
      lead={together ? null : <SortedByNote field={table.orders[0]?.field ?? ""} />}
      empty={
        <Empty title="No pod uses a device">
          Pods are reported by agents with access to the kubelet or the API server.{" "}
          <a href={linkTo("nodes")}>Show nodes and their agents</a>
        </Empty>
      }
    />
  );
}

function details(pod: PodGroup) {
  return pod.rows.length > 1 ? <Containers rows={pod.rows} caption={`Containers of ${pod.pod}`} /> : null;
}

function SortedByNote({ field }: { field: string }) {
  return (
    <p class="pods-lead">
      Sorted by {fieldTitle(field).split(",")[0]?.toLowerCase()}: one row for each container and device.
      <button type="button" onClick={() => go(withParameter("sort", []), { replace: true })}>
        Show by pod
      </button>
    </p>
  );
}

// Number of all matching pods; null if the summary does not support the filters.
function usePodCount(wanted: boolean): number | null {
  const address = search.value;
  const simple = !address.get("q") && chipsOf(address).every(({ name }) => COUNTED_BY.includes(name));
  const parameters = Object.fromEntries(COUNTED_BY.map((name) => [name, address.getAll(name)]));
  const { data } = useResource<Summary>(wanted && simple ? "/api/v1/summary" : null, parameters, {
    minIntervalSeconds: 5,
    keepPreviousData: true,
  });
  return wanted && simple ? (data?.total.pods ?? null) : null;
}
