// One pod: allocated devices, their use and idle time.
import { path } from "../api/client";
import type { HistorySeries, PodDetail } from "../api/types";
import { linkTo } from "../app/routes";
import { bytes, count, duration, energy, percent } from "../app/units";
import { HOUR, useHistory } from "../charts/history";
import { TimeChart } from "../charts/time-chart";
import { affectsClusters, useResource } from "../live/resource";
import { Badge, Simulated, Stale } from "../parts/badge";
import { type Fact, Facts } from "../parts/facts";
import { words } from "../parts/health";
import { Panel } from "../parts/panel";
import { Empty, ResourceView } from "../parts/states";
import { IDLE_FROM, LONG_IDLE } from "../parts/table/cells";
import { Tile, Tiles } from "../parts/tile";
import { View } from "../parts/view";
import { Containers } from "./pods/containers";
import { groupRows, type PodGroup } from "./pods/group";
import { OwnerCell } from "./pods/owner";
import { Allocations, Devices, Processes } from "./pods/pod-tables";

interface Place {
  cluster: string;
  namespace: string;
  pod: string;
}

export function PodView(place: Place) {
  const resource = useResource<PodDetail>(
    `/api/v1/pods/${path(place.cluster, place.namespace, place.pod)}`,
    {},
    { affects: affectsClusters([place.cluster]) },
  );
  const detail = resource.data;
  const group = detail && detail.containers.length > 0 ? groupRows("", detail.containers) : null;
  return (
    <View
      kind="Pod"
      title={place.pod}
      crumbs={[
        { text: place.cluster, href: linkTo("cluster", { cluster: place.cluster }) },
        {
          text: place.namespace,
          href: linkTo("pods", {}, { cluster: place.cluster, namespace: place.namespace }),
        },
      ]}
      badges={group && <Badges pod={group} />}
    >
      {resource.problem?.status === 404 && detail === null ? (
        <Empty title="This pod uses no device">
          It has ended, or it never used one. <a href={linkTo("pods", {}, { q: place.pod })}>Search for it</a>
        </Empty>
      ) : (
        <ResourceView of={resource}>
          {(data) => <Whole place={place} detail={data} pod={group} />}
        </ResourceView>
      )}
    </View>
  );
}

function Badges({ pod }: { pod: PodGroup }) {
  return (
    <>
      {pod.stale && <Stale ageSeconds={pod.ageSeconds} />}
      {pod.unusual && (
        <Badge tone="warning" title={words(pod.unusual)}>
          anomaly: {words(pod.unusual)}
        </Badge>
      )}
      {pod.simulated && <Simulated />}
    </>
  );
}

function Whole({ place, detail, pod }: { place: Place; detail: PodDetail; pod: PodGroup | null }) {
  return (
    <>
      {pod && <Numbers pod={pod} />}
      <Panel title="Pod details">
        <Facts facts={factsOf(detail, pod)} />
      </Panel>
      <Past place={place} />
      {detail.containers.length > 0 && (
        <Panel title="Containers and their devices" flush>
          <Containers rows={detail.containers} caption="Containers and their devices" bare />
        </Panel>
      )}
      {detail.devices.length > 0 && (
        <Panel title="Whole devices" aside="including use by other pods" flush>
          <Devices rows={detail.devices} />
        </Panel>
      )}
      <Panel title="Processes" aside={count(detail.processes.length)} flush>
        {detail.processes.length > 0 ? (
          <Processes rows={detail.processes} />
        ) : (
          <Empty title="No processes">Either none is running, or the driver does not report processes.</Empty>
        )}
      </Panel>
      {detail.allocations.length > 0 && (
        <Panel title="Allocations" flush>
          <Allocations rows={detail.allocations} />
        </Panel>
      )}
    </>
  );
}

function Numbers({ pod }: { pod: PodGroup }) {
  const idle = pod.idleSeconds;
  return (
    <Tiles label="Pod totals">
      <Tile
        title="Devices"
        value={count(pod.devices)}
        detail={pod.allocated ? pod.models.join(", ") : "used but not allocated"}
      />
      <Tile title="Use" value={percent(pod.use)} detail="mean over its devices" />
      <Tile title="Memory" value={bytes(pod.memoryBytes)} detail="on its devices" />
      <Tile title="Energy" value={energy(pod.energyJoules)} detail="its share so far" />
      <Tile
        title="Idle"
        value={idle !== null && idle < IDLE_FROM ? "no" : duration(idle)}
        tone={idle !== null && idle >= LONG_IDLE ? "warning" : "plain"}
        detail={idleDetail(pod)}
      />
      <Tile title="Processes" value={count(pod.processes)} />
    </Tiles>
  );
}

function idleDetail({ allocated, idleSeconds }: PodGroup): string {
  if (!allocated) return "none allocated";
  return idleSeconds !== null && idleSeconds < IDLE_FROM
    ? "used within the last minute"
    : "since it last used one";
}

function factsOf({ object, cluster, namespace, containers }: PodDetail, pod: PodGroup | null): Fact[] {
  const first = containers[0];
  const facts: Fact[] = [
    ["Namespace", namespace],
    ["Cluster", cluster],
    ["Owner", pod ? <OwnerCell owner={pod.owner} /> : null],
    ["Node", pod ? <Nodes pod={pod} /> : null],
    ["Uid", object?.uid ?? first?.pod_uid ?? null],
    ["Resources", first?.resources?.replaceAll(",", ", ") ?? null],
    ["Source", first?.source ?? null],
  ];
  for (const [name, value] of object?.labels ?? []) facts.push([name, value]);
  return facts;
}

function Nodes({ pod }: { pod: PodGroup }) {
  return (
    <>
      {pod.nodes.map((node, place) => (
        <span key={node}>
          {place > 0 && ", "}
          <a href={linkTo("node", { cluster: pod.cluster, node })}>{node}</a>
        </span>
      ))}
    </>
  );
}

function Past({ place: { cluster, namespace, pod } }: { place: Place }) {
  const past = useHistory({ scope: "pod", key: pod, cluster, namespace }, HOUR);
  if (past.data === null && (past.problem === null || past.problem.status === 404)) return null;
  return (
    <Panel title="The last hour">
      <ResourceView of={past}>{(series) => <Charts series={series} />}</ResourceView>
    </Panel>
  );
}

function Charts({ series: { start, step_seconds: step, fields } }: { series: HistorySeries }) {
  return (
    <div class="columns">
      <TimeChart
        title="Use"
        start={start}
        step={step}
        syncKey="pod"
        series={[{ label: "Use", values: fields.utilization_ratio ?? [], unit: "ratio" }]}
      />
      <TimeChart
        title="Memory"
        start={start}
        step={step}
        syncKey="pod"
        series={[
          { label: "Memory", values: fields.memory_used_bytes ?? [], unit: "bytes", colour: "series-2" },
        ]}
      />
    </div>
  );
}
