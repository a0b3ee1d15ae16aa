import type { NodeRow } from "../../api/types";
import { linkTo } from "../../app/routes";
import { celsius, count, watts } from "../../app/units";
import { Value } from "../../parts/absent";
import { Age } from "../../parts/age";
import { Bar } from "../../parts/bar";
import { Health, words } from "../../parts/health";

interface Props {
  caption: string;
  nodes: readonly NodeRow[];
  withReason?: boolean | undefined; // replaces the models
}

export function NodeTable({ caption, nodes, withReason = false }: Props) {
  return (
    <table class="plain">
      <caption class="visually-hidden">{caption}</caption>
      <thead>
        <tr>
          <th scope="col">Node</th>
          <th scope="col">State</th>
          <th scope="col">{withReason ? "Reason" : "Models"}</th>
          <th scope="col" class="number">
            Devices
          </th>
          <th scope="col" class="number">
            Unhealthy
          </th>
          <th scope="col">Use</th>
          <th scope="col">Memory</th>
          <th scope="col" class="number">
            Power
          </th>
          <th scope="col" class="number">
            Hottest
          </th>
          <th scope="col" class="number">
            Age
          </th>
        </tr>
      </thead>
      <tbody>
        {nodes.map((row) => (
          <tr key={row.node}>
            <th scope="row">
              <a href={linkTo("node", { cluster: row.cluster, node: row.node })}>{row.node}</a>
            </th>
            <td>
              <Health state={row.state} reason={row.reason} />
            </td>
            <td class={withReason ? "wraps" : undefined}>
              <Value text={withReason ? row.reason && words(row.reason) : row.models} />
            </td>
            <td class="number">{count(row.devices)}</td>
            <td class="number">{count(row.devices_unhealthy)}</td>
            <td>
              <Bar ratio={row.utilization_ratio} label="Use" />
            </td>
            <td>
              <Bar ratio={row.memory_used_ratio} label="Memory" />
            </td>
            <td class="number">
              <Value text={watts(row.power_watts)} />
            </td>
            <td class="number">
              <Value text={celsius(row.temperature_max_celsius)} />
            </td>
            <td class="number">
              <Age seconds={row.age_seconds} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
