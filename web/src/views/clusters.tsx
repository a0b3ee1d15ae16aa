// All clusters with state, sources and totals.
import type { Clusters, Summary, SummaryRow } from "../api/types";
import { linkTo } from "../app/routes";
import { count, watts } from "../app/units";
import { useResource } from "../live/resource";
import { Value } from "../parts/absent";
import { Age } from "../parts/age";
import { Simulated } from "../parts/badge";
import { Bar } from "../parts/bar";
import { NoClusters } from "../parts/no-clusters";
import { Panel } from "../parts/panel";
import { ResourceView } from "../parts/states";
import { View } from "../parts/view";
import { clusterStatus, sourceStatus } from "./clusters/status";
import { StatusLabel } from "./clusters/status-label";
import "./clusters/clusters.css";

const SLOW_REFRESH = { minIntervalSeconds: 5 };

export function ClustersView() {
  const clusters = useResource<Clusters>("/api/v1/clusters", {}, SLOW_REFRESH);
  const sums = useResource<Summary>("/api/v1/summary", { group_by: ["cluster"] }, SLOW_REFRESH);
  const of = new Map(sums.data?.groups.map((group) => [group.cluster, group]));
  return (
    <View title="Clusters">
      <Panel title="All clusters" flush aside={clusters.data ? count(clusters.data.total) : null}>
        <ResourceView of={clusters}>
          {({ items }) => (items.length > 0 ? <Table items={items} sums={of} /> : <NoClusters />)}
        </ResourceView>
      </Panel>
    </View>
  );
}

function Table({ items, sums }: { items: Clusters["items"]; sums: ReadonlyMap<string | null, SummaryRow> }) {
  return (
    <table class="plain">
      <caption class="visually-hidden">Clusters with state and totals</caption>
      <thead>
        <tr>
          <th scope="col">Cluster</th>
          <th scope="col">State</th>
          <th scope="col">Sources</th>
          <th scope="col" class="number">
            Nodes
          </th>
          <th scope="col" class="number">
            Devices
          </th>
          <th scope="col">Use</th>
          <th scope="col">Memory</th>
          <th scope="col" class="number">
            Power
          </th>
          <th scope="col" class="number">
            Last read
          </th>
        </tr>
      </thead>
      <tbody>
        {items.map((cluster) => {
          const status = clusterStatus(cluster);
          const own = sums.get(cluster.id);
          return (
            <tr key={cluster.id}>
              <th scope="row">
                <a href={linkTo("cluster", { cluster: cluster.id })}>{cluster.name ?? cluster.id}</a>{" "}
                {cluster.simulated ? <Simulated /> : null}
              </th>
              <td class="clusters-state">
                <StatusLabel status={status} />
                {status.why && status.tone !== "ok" ? <div class="clusters-why">{status.why}</div> : null}
              </td>
              <td>
                <span class="clusters-sources">
                  {cluster.sources.map((source) => {
                    const state = sourceStatus(source);
                    return (
                      <StatusLabel
                        key={source.kind}
                        status={{
                          ...state,
                          word: source.kind,
                          why: `${state.word}${state.why ? `: ${state.why}` : ""}`,
                        }}
                      />
                    );
                  })}
                </span>
              </td>
              <td class="number">
                <Value text={count(cluster.nodes)} />
              </td>
              <td class="number">
                <Value text={count(cluster.devices)} />
              </td>
              <td>
                <Bar ratio={own?.utilization_ratio} label="Use" />
              </td>
              <td>
                <Bar ratio={own?.memory_used_ratio ?? null} label="Memory" />
              </td>
              <td class="number">
                <Value text={watts(own?.power_watts)} />
              </td>
              <td class="number">
                <Age at={cluster.succeeded_at} reason="never reached" />
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
