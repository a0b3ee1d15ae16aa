// Values that reconcile the pods' use with that of the device.
import type { DeviceBalance } from "../../api/types";
import { bytes, energy } from "../../app/units";
import { type Fact, Facts } from "../../parts/facts";
import { Panel } from "../../parts/panel";
import { oneShare } from "./units";

export function Balance({ balance }: { balance: DeviceBalance | null }) {
  if (balance === null) return null;
  const facts: Fact[] = [
    ["Unattributed energy", energy(balance.idle_energy_joules)],
    ["Memory counted more than once", bytes(balance.surplus_memory_bytes)],
    ["One share", oneShare(balance.share_ratio)],
    ...(balance.jobs.length > 0 ? ([["Batch jobs", balance.jobs.join(", ")]] as const) : []),
  ];
  return (
    <Panel title="Attribution balance" aside="pods against device">
      <Facts facts={facts} />
    </Panel>
  );
}
