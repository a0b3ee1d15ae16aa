import { Empty } from "./states";

export function NoClusters() {
  return (
    <Empty title="No clusters configured">
      List your clusters in a file and start the fleet with it:{" "}
      <code>accelscope fleet --clusters-file clusters.yaml</code>. The file is reloaded when it changes. To
      try it without a cluster: <code>accelscope simulate fleet DIR</code>.
    </Empty>
  );
}
