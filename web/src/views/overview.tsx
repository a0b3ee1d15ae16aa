// The overview: capacity, use and problems of the fleet.
import type { Clusters, DeviceRowPage, HealthReport, IdlePods, Summary, UnusualReport } from "../api/types";
import { FAULT_THROTTLES } from "../api/vendors";
import { linkTo } from "../app/routes";
import { useResource } from "../live/resource";
import { summary } from "../live/stream";
import { NoClusters } from "../parts/no-clusters";
import { Empty, Loading, ProblemNote } from "../parts/states";
import { HOT, HOT_WITHOUT_LIMIT } from "../parts/table/heat";
import { View } from "../parts/view";
import { AttentionPanel } from "./overview/attention-panel";
import { ByCluster, ByModel, ByVendor } from "./overview/groups";
import { HistoryPanel } from "./overview/history-panel";
import { HottestPanel } from "./overview/hottest-panel";
import { RecentEvents } from "./overview/recent-events";
import { SumTiles } from "./overview/tiles";
import "./overview/overview.css";

const SLOW_REFRESH = { minIntervalSeconds: 5 };

export function OverviewView() {
  const clusters = useResource<Clusters>("/api/v1/clusters", {}, SLOW_REFRESH);
  const byCluster = useResource<Summary>("/api/v1/summary", { group_by: ["cluster"] }, SLOW_REFRESH);
  const byVendor = useResource<Summary>("/api/v1/summary", { group_by: ["vendor"] }, SLOW_REFRESH);
  const byModel = useResource<Summary>("/api/v1/summary", { group_by: ["vendor", "model"] }, SLOW_REFRESH);
  const health = useResource<HealthReport>("/api/v1/health", { limit: 20 }, SLOW_REFRESH);
  const hottest = useResource<DeviceRowPage>(
    "/api/v1/devices",
    { sort: "-temperature_celsius", present: "temperature_celsius", limit: 10 },
    SLOW_REFRESH,
  );
  const hot = useResource<DeviceRowPage>("/api/v1/devices", { ...HOT, limit: 10 }, SLOW_REFRESH);
  const hotWithoutLimit = useResource<DeviceRowPage>(
    "/api/v1/devices",
    { ...HOT_WITHOUT_LIMIT, limit: 10 },
    SLOW_REFRESH,
  );
  const throttled = useResource<DeviceRowPage>(
    "/api/v1/devices",
    { throttled: FAULT_THROTTLES, limit: 10 },
    SLOW_REFRESH,
  );
  const unusual = useResource<UnusualReport>("/api/v1/unusual", { limit: 10 }, SLOW_REFRESH);
  const idle = useResource<IdlePods>("/api/v1/idle", { limit: 10 }, SLOW_REFRESH);
  const sums = summary.value ?? byCluster.data?.total ?? null;

  if (clusters.data?.total === 0)
    return (
      <View title="Overview">
        <NoClusters />
      </View>
    );
  const answers = [health, hottest, hot, hotWithoutLimit, throttled, unusual, idle];
  return (
    <View title="Overview">
      {byCluster.problem ? <ProblemNote problem={byCluster.problem} retry={byCluster.refetch} /> : null}
      {sums && sums.devices === 0 && clusters.data ? <NothingYet clusters={clusters.data} /> : null}
      <div class="overview-tiles">
        {sums ? <SumTiles sums={sums} health={health.data} /> : <Loading rows={4} />}
      </div>
      <div class="columns overview-first">
        <AttentionPanel
          known={{
            health: health.data,
            hot: hot.data,
            hotWithoutLimit: hotWithoutLimit.data,
            throttled: throttled.data,
            unusual: unusual.data,
            idle: idle.data,
          }}
          problem={answers.find(({ problem }) => problem)?.problem ?? null}
          retry={() => {
            for (const answer of answers) if (answer.problem) answer.refetch();
          }}
        />
        <RecentEvents />
      </div>
      <HistoryPanel of={{ scope: "fleet" }} />
      <div class="columns overview-groups">
        <div class="overview-stack">
          <ByCluster of={byCluster} />
          <ByModel of={byModel} />
        </div>
        <div class="overview-stack">
          <ByVendor of={byVendor} />
          {hottest.data === null || hottest.data.items.length > 0 ? (
            <HottestPanel devices={hottest.data?.items ?? null} />
          ) : null}
        </div>
      </div>
    </View>
  );
}

function NothingYet({ clusters }: { clusters: Clusters }) {
  const untried = clusters.items.some(({ reachable }) => reachable === null);
  return (
    <Empty title={untried ? "Reading the clusters for the first time" : "No accelerators found"}>
      {untried ? (
        "This takes a few seconds."
      ) : (
        <>
          The <a href={linkTo("clusters")}>clusters page</a> shows which sources respond, and why others do
          not.
        </>
      )}
    </Empty>
  );
}
