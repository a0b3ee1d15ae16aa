// Why there is nothing although nothing is filtered: no clusters, clusters out of reach, or none with accelerators.
import type { Clusters } from "../../api/types";
import { linkTo } from "../../app/routes";
import { useResource } from "../../live/resource";
import { NoClusters } from "../no-clusters";
import { Empty, Loading } from "../states";

export function NoDevices({ what }: { what: string }) {
  const { data } = useResource<Clusters>("/api/v1/clusters");
  if (data === null) return <Loading rows={2} />;
  if (data.items.length === 0) return <NoClusters />;
  const silent = data.items.filter((cluster) => cluster.reachable !== true);
  return (
    <Empty title={`No ${what} yet`}>
      {silent.length > 0
        ? `${silent.length} of ${data.items.length} clusters did not answer so far.`
        : "All clusters answer, and none has reported an accelerator."}{" "}
      <a href={linkTo("clusters")}>See the clusters and their sources</a>
    </Empty>
  );
}
