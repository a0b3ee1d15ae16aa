// Table of totals by cluster, vendor or model.
import type { SummaryRow } from "../../api/types";
import { celsius, count, watts } from "../../app/units";
import { Value } from "../../parts/absent";
import { Bar, PartsBar } from "../../parts/bar";
import { healthParts } from "./sums";

interface Props {
  caption: string;
  heading: string; // of the first column
  rows: readonly { key: string; name: string; detail?: string | undefined; href: string; sums: SummaryRow }[];
}

export function GroupTable({ caption, heading, rows }: Props) {
  return (
    <table class="plain group-table">
      <caption class="visually-hidden">{caption}</caption>
      <thead>
        <tr>
          <th scope="col">{heading}</th>
          <th scope="col" class="number">
            Devices
          </th>
          <th scope="col" class="group-health">
            Health
          </th>
          <th scope="col">Use</th>
          <th scope="col" class="group-memory">
            Memory
          </th>
          <th scope="col" class="number group-power">
            Power
          </th>
          <th scope="col" class="number group-hottest">
            Hottest
          </th>
        </tr>
      </thead>
      <tbody>
        {rows.map(({ key, name, detail, href, sums }) => (
          <tr key={key}>
            <th scope="row">
              <a href={href}>{name}</a> {detail ? <span class="soft small">{detail}</span> : null}
            </th>
            <td class="number">{count(sums.devices)}</td>
            <td class="group-health">
              <PartsBar label="Health" parts={healthParts(sums)} />
            </td>
            <td>
              <Bar ratio={sums.utilization_ratio} label="Use" />
            </td>
            <td class="group-memory">
              <Bar ratio={sums.memory_used_ratio} label="Memory" />
            </td>
            <td class="number group-power">
              <Value text={watts(sums.power_watts)} />
            </td>
            <td class="number group-hottest">
              <Value text={celsius(sums.temperature_max_celsius)} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
