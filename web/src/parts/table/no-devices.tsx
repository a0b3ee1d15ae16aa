// Explains an empty list without filters: no clusters, unreachable clusters, or no accelerators.
import type { Clusters } from "../../api/types";
import { linkTo } from "../../app/routes";
import { plural } from "../../app/units";
import { useResource } from "../../live/resource";
import { NoClusters } from "../no-clusters";
import { Empty, Loading, ResourceView } from "../states";

export function NoDevices({ what }: { what: string }) {
  const clusters = useResource<Clusters>("/api/v1/clusters");
  return (
    <ResourceView of={clusters} loading={<Loading rows={2} />}>
      {({ items }) => (items.length === 0 ? <NoClusters /> : <Nothing what={what} clusters={items} />)}
    </ResourceView>
  );
}

function Nothing({ what, clusters }: { what: string; clusters: Clusters["items"] }) {
  const silent = clusters.filter(({ reachable }) => reachable !== true);
  return (
    <Empty title={`No ${what} yet`}>
      {silent.length > 0
        ? `${silent.length} of ${plural(clusters.length, "cluster")} have not responded yet.`
        : "All clusters respond, and none reports an accelerator."}{" "}
      <a href={linkTo("clusters")}>Show clusters and their sources</a>
    </Empty>
  );
}
