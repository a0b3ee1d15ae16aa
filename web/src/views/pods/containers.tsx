// Containers of a pod by device.
import type { PodRow } from "../../api/types";
import { linkTo } from "../../app/routes";
import { bytes, count } from "../../app/units";
import { Value } from "../../parts/absent";
import { EnergyCell, IdleCell, UseCell } from "../../parts/table/cells";
import { shareOf } from "./share";
import "./pods.css";

interface Props {
  rows: readonly PodRow[];
  caption: string;
  bare?: boolean; // without a frame
}

export function Containers({ rows, caption, bare = false }: Props) {
  return (
    <div class={bare ? "pod-containers-bare" : "pod-containers"}>
      <table class="plain">
        <caption class="visually-hidden">{caption}</caption>
        <thead>
          <tr>
            <th scope="col">Container</th>
            <th scope="col">Device</th>
            <th scope="col" class="number">
              Use
            </th>
            <th scope="col" class="number">
              Memory
            </th>
            <th scope="col">Share</th>
            <th scope="col" class="number">
              Energy
            </th>
            <th scope="col" class="number">
              Idle
            </th>
            <th scope="col" class="number">
              Processes
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={`${row.container}/${row.device}/${row.partition}`}>
              <th scope="row">{row.container}</th>
              <td>
                <a href={linkTo("device", { cluster: row.cluster, node: row.node, device: row.device })}>
                  {row.model ?? row.vendor}
                </a>{" "}
                <span class="soft small">{row.partition ?? row.device}</span>
              </td>
              <td class="number">
                <UseCell ratio={row.utilization_ratio} />
              </td>
              <td class="number">
                <Value text={bytes(row.memory_used_bytes)} />
              </td>
              <td>{shareOf(row)}</td>
              <td class="number">
                <EnergyCell joules={row.energy_joules} />
              </td>
              <td class="number">
                {row.allocated > 0 ? (
                  <IdleCell seconds={row.idle_seconds} />
                ) : (
                  <span class="soft">not allocated</span>
                )}
              </td>
              <td class="number">{count(row.processes)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
