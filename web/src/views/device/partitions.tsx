// Partitions of a device, such as MIG instances.
import type { Device, PodRow } from "../../api/types";
import { linkTo } from "../../app/routes";
import { count } from "../../app/units";
import { Value } from "../../parts/absent";
import { Panel } from "../../parts/panel";
import { SmallTable } from "../../parts/small-table";
import { MemoryCell, UseCell } from "../../parts/table/cells";

export function Partitions({ reading, pods }: { reading: Device; pods: readonly PodRow[] }) {
  if (reading.partitions.length === 0) return null;
  return (
    <Panel title="Partitions" aside={count(reading.partitions.length)} flush>
      <SmallTable
        caption="Partitions of the device"
        columns={["Partition", "Profile", "#Use", "#Memory", "#Multiprocessors", "Allocated to"]}
        rows={reading.partitions.map((part) => ({
          key: part.id,
          cells: [
            <span key="id" title={part.id}>
              {part.index ?? part.device_name ?? part.id}
            </span>,
            <Value key="profile" text={part.profile} />,
            <UseCell key="use" ratio={part.utilization_ratio ?? part.sm_active_ratio} />,
            <MemoryCell key="memory" used={part.memory_used_bytes} total={part.memory_total_bytes} />,
            count(part.multiprocessors),
            <AllocatedPods key="pods" pods={pods.filter((pod) => pod.partition === part.id)} />,
          ],
        }))}
      />
    </Panel>
  );
}

function AllocatedPods({ pods }: { pods: readonly PodRow[] }) {
  if (pods.length === 0) return <span class="soft">none</span>;
  return (
    <>
      {pods.map((pod, place) => (
        <span key={`${pod.namespace}/${pod.pod}/${pod.container}`}>
          {place > 0 ? ", " : ""}
          <a href={linkTo("pod", { cluster: pod.cluster, namespace: pod.namespace, pod: pod.pod })}>
            {pod.namespace}/{pod.pod}
          </a>
        </span>
      ))}
    </>
  );
}
