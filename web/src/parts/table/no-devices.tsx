// Why there is nothing although nothing is filtered: no clusters, clusters out of reach, or none with accelerators.
import type { Clusters } from "../../api/types";
import { linkTo } from "../../app/routes";
import { howMany } from "../../app/units";
import { useResource } from "../../live/resource";
import { NoClusters } from "../no-clusters";
import { Answer, Empty, Loading } from "../states";

export function NoDevices({ what }: { what: string }) {
  const clusters = useResource<Clusters>("/api/v1/clusters");
  return (
    <Answer of={clusters} loading={<Loading rows={2} />}>
      {({ items }) => (items.length === 0 ? <NoClusters /> : <Nothing what={what} clusters={items} />)}
    </Answer>
  );
}

function Nothing({ what, clusters }: { what: string; clusters: Clusters["items"] }) {
  const silent = clusters.filter(({ reachable }) => reachable !== true);
  return (
    <Empty title={`No ${what} yet`}>
      {silent.length > 0
        ? `${silent.length} of ${howMany(clusters.length, "cluster")} have not responded yet.`
        : "All clusters respond, and none reports an accelerator."}{" "}
      <a href={linkTo("clusters")}>Show clusters and their sources</a>
    </Empty>
  );
}
