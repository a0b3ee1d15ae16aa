import type { DeviceRow } from "../../api/types";
import { linkTo } from "../../app/routes";
import { celsius, watts } from "../../app/units";
import { Value } from "../../parts/absent";
import { Bar } from "../../parts/bar";
import { Panel } from "../../parts/panel";
import { Loading } from "../../parts/states";
import { ratioOf } from "../../parts/table/cells";
import { heatTone } from "../../parts/table/heat";

const SHOWN = 8;
const USUAL_SLOWDOWN = 110; // °C: length of the bar if the device reports no slowdown temperature

export function HottestPanel({
  devices,
  within = {},
}: {
  devices: readonly DeviceRow[] | null; // null: loading
  within?: Record<string, string>;
}) {
  const all = linkTo("devices", {}, { ...within, sort: "-temperature_celsius" });
  return (
    <Panel title="Hottest devices" flush aside={<a href={all}>All devices by temperature</a>}>
      {devices === null ? <Loading rows={SHOWN} /> : <Devices rows={devices.slice(0, SHOWN)} />}
    </Panel>
  );
}

function Devices({ rows }: { rows: readonly DeviceRow[] }) {
  return (
    <table class="plain hot-table">
      <caption class="visually-hidden">The hottest devices</caption>
      <thead>
        <tr>
          <th scope="col">Device</th>
          <th scope="col">Temperature</th>
          <th scope="col" class="number hot-limit">
            Slows down at
          </th>
          <th scope="col" class="hot-use">
            Use
          </th>
          <th scope="col" class="number">
            Power
          </th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={`${row.cluster} ${row.node} ${row.id}`}>
            <th scope="row">
              <a href={linkTo("device", { cluster: row.cluster, node: row.node, device: row.id })}>
                {row.node}
                {row.index === null ? "" : ` #${row.index}`}
              </a>{" "}
              <span class="soft small">{row.cluster}</span>
            </th>
            <td>
              <Bar
                ratio={ratioOf(row.temperature_celsius, row.temperature_slowdown_celsius ?? USUAL_SLOWDOWN)}
                label="Temperature"
                text={celsius(row.temperature_celsius)}
                tone={heatTone(row.temperature_celsius, row.temperature_slowdown_celsius)}
              />
            </td>
            <td class="number hot-limit">
              <Value text={celsius(row.temperature_slowdown_celsius)} />
            </td>
            <td class="hot-use">
              <Bar ratio={row.utilization_ratio} label="Use" />
            </td>
            <td class="number">
              <Value text={watts(row.power_watts)} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
