// One cluster: state, sources, totals and nodes.
import { path } from "../api/client";
import type { ClusterView as Cluster, DeviceRowPage, HealthReport, NodeRowPage, Summary } from "../api/types";
import { linkTo } from "../app/routes";
import { clock, count, plural } from "../app/units";
import { affectsClusters, type Resource, useResource } from "../live/resource";
import { Simulated } from "../parts/badge";
import { Panel } from "../parts/panel";
import { Empty, ResourceView, StaleNote } from "../parts/states";
import { View } from "../parts/view";
import { NodeTable } from "./clusters/node-table";
import { RefreshButton } from "./clusters/refresh-button";
import { SourceTable } from "./clusters/source-table";
import { clusterStatus } from "./clusters/status";
import { StatusLabel } from "./clusters/status-label";
import { ByModel } from "./overview/groups";
import { HistoryPanel } from "./overview/history-panel";
import { HottestPanel } from "./overview/hottest-panel";
import { RecentEvents } from "./overview/recent-events";
import { SumTiles } from "./overview/tiles";
import "./clusters/clusters.css";
import "./overview/overview.css";

const NODES_SHOWN = 15;

export function ClusterView({ cluster }: { cluster: string }) {
  const slowRefresh = { minIntervalSeconds: 5, affects: affectsClusters([cluster]) };
  const own = useResource<Cluster>(`/api/v1/clusters/${path(cluster)}`, {}, slowRefresh);
  const sums = useResource<Summary>(
    "/api/v1/summary",
    { cluster, group_by: ["vendor", "model"] },
    slowRefresh,
  );
  const health = useResource<HealthReport>("/api/v1/health", { cluster, limit: 1 }, slowRefresh);
  const troubled = useResource<NodeRowPage>(
    "/api/v1/nodes",
    { cluster, state: ["incompatible", "stale", "unread"], limit: NODES_SHOWN },
    slowRefresh,
  );
  const nodes = useResource<NodeRowPage>(
    "/api/v1/nodes",
    { cluster, sort: ["-devices_unhealthy", "-utilization_ratio"], limit: NODES_SHOWN },
    slowRefresh,
  );
  const hottest = useResource<DeviceRowPage>(
    "/api/v1/devices",
    { cluster, sort: "-temperature_celsius", present: "temperature_celsius", limit: 8 },
    slowRefresh,
  );
  const status = own.data ? clusterStatus(own.data) : null;
  return (
    <View
      title={own.data?.name ?? cluster}
      kind="Cluster"
      crumbs={[{ text: "Clusters", href: linkTo("clusters") }]}
      badges={
        <>
          {status ? <StatusLabel status={status} /> : null}
          {own.data?.simulated ? <Simulated /> : null}
        </>
      }
      actions={own.data ? <RefreshButton cluster={cluster} done={own.refetch} /> : null}
    >
      <ResourceView of={own}>
        {(data) => (
          <>
            <Reach data={data} />
            {sums.data && sums.data.total.devices > 0 ? (
              <SumTiles sums={sums.data.total} health={health.data} within={{ cluster }} />
            ) : null}
            <Panel title="Sources" flush>
              <SourceTable sources={data.sources} />
            </Panel>
            {(data.devices ?? 0) > 0 ? <HistoryPanel of={{ scope: "cluster", key: cluster }} /> : null}
            <Nodes of={data} troubled={troubled} nodes={nodes} />
            <div class="columns overview-groups">
              <div class="overview-stack">
                {(data.devices ?? 0) > 0 ? <ByModel of={sums} within={{ cluster }} /> : null}
                <RecentEvents cluster={cluster} />
              </div>
              {hottest.data && hottest.data.items.length > 0 ? (
                <HottestPanel devices={hottest.data.items} within={{ cluster }} />
              ) : null}
            </div>
          </>
        )}
      </ResourceView>
    </View>
  );
}

// A note that the cluster is unreachable, with the time of its data.
function Reach({ data }: { data: Cluster }) {
  if (data.reachable !== false) return null;
  const why = clusterStatus(data).why;
  return (
    <StaleNote>
      {data.succeeded_at === null
        ? "This cluster was never reached"
        : `This cluster is unreachable; data is from ${clock(data.succeeded_at)}`}
      {why ? `: ${why}` : "."}
    </StaleNote>
  );
}

interface NodesProps {
  of: Cluster;
  troubled: Resource<NodeRowPage>;
  nodes: Resource<NodeRowPage>;
}

function Nodes({ of, troubled, nodes }: NodesProps) {
  const cluster = of.id;
  const bad = troubled.data;
  return (
    <>
      {bad && bad.total > 0 ? (
        <Panel
          title="Nodes with read problems"
          flush
          aside={
            <a href={`${linkTo("nodes", {}, { cluster })}&state=incompatible&state=stale&state=unread`}>
              All {count(bad.total)}
            </a>
          }
        >
          {of.reachable === false ? (
            <p class="clusters-all-stale">
              {plural(bad.total, "node")} {bad.total === 1 ? "is" : "are"} stale: the cluster is unreachable.
            </p>
          ) : (
            <NodeTable caption="Nodes that are stale, incompatible or unread" nodes={bad.items} withReason />
          )}
        </Panel>
      ) : null}
      <Panel
        title="Nodes"
        flush
        aside={
          <a href={linkTo("nodes", {}, { cluster })}>
            All {nodes.data?.total ? count(nodes.data.total) : ""} nodes
          </a>
        }
      >
        <ResourceView of={nodes}>
          {({ items }) =>
            items.length > 0 ? (
              <NodeTable caption="Nodes, unhealthy and busy ones first" nodes={items} />
            ) : (
              <Empty title="No nodes with accelerators">See the state of the sources above.</Empty>
            )
          }
        </ResourceView>
      </Panel>
    </>
  );
}
