// Use of devices that is not attributed to a pod.
import type { Unattributed } from "../../api/types";
import { bytes, count } from "../../app/units";
import { Value } from "../../parts/absent";
import { words } from "../../parts/health";
import { Panel } from "../../parts/panel";
import { SmallTable } from "../../parts/small-table";
import type { DeviceNames } from "./workloads";

// Texts for the reasons.
const WHY: Record<string, string> = {
  not_in_a_pod: "runs outside Kubernetes",
  process_gone: "the process has ended or is hidden by a PID namespace",
  no_permission: "the agent may not read its cgroup",
  cgroup_hidden: "the process is in another cgroup namespace",
  pod_unknown: "the pod is not known yet, or no longer known",
  no_pod_source: "no source for pod names is available",
  no_process: "memory in use without a visible process",
};

export function UnattributedUse({
  rows,
  names,
}: {
  rows: readonly Unattributed[];
  names: DeviceNames | null;
}) {
  if (rows.length === 0) return null;
  const device = names === null ? [] : ["#Device"];
  return (
    <Panel title="Unattributed use" flush>
      <SmallTable
        caption="Use that is not attributed to a pod"
        columns={["Owner", ...device, "#Memory", "#Processes", "Reason"]}
        rows={rows.map((row) => ({
          key: `${row.device}/${row.kind}/${row.name}/${row.reason}`,
          cells: [
            <span key="owner" title={row.name ?? undefined}>
              {row.kind === "none" ? "unknown" : words(row.kind)}{" "}
              {row.name ? <Short text={row.name} /> : null}
            </span>,
            ...(names === null ? [] : [<Value key="device" text={names.get(row.device)} />]),
            <Value key="memory" text={bytes(row.memory_used_bytes)} />,
            count(row.processes),
            WHY[row.reason] ?? words(row.reason),
          ],
        }))}
      />
    </Panel>
  );
}

function Short({ text }: { text: string }) {
  return <span class="mono">{text.length > 20 ? `${text.slice(0, 12)}…` : text}</span>;
}
