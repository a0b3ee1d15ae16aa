import { Empty } from "./states";

export function NoClusters() {
  return (
    <Empty title="No cluster is configured">
      Name them in a file, and start the fleet with it:{" "}
      <code>accelscope fleet --clusters-file clusters.yaml</code>. The file is read anew when it changes. To
      try it without any: <code>accelscope simulate fleet DIR</code>.
    </Empty>
  );
}
