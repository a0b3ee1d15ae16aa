// Headings of the map's groups, with totals and links.
import { useMemo } from "preact/hooks";
import { linkTo } from "../app/routes";
import { plural } from "../app/units";
import { vendorName } from "../parts/vendor";
import type { Arrangement } from "./arrangement";
import type { Fleet } from "./fleet";
import { MODE_INFO, type Mode } from "./modes";

interface Props {
  arrangement: Arrangement;
  fleet: Fleet;
  mode: Mode;
  grouping: string;
}

export function Headings({ arrangement, fleet, mode, grouping }: Props) {
  const means = useMemo(() => meansOf(arrangement, fleet, mode), [arrangement, fleet, mode]);
  return (
    <>
      {arrangement.groups.map((group, place) => (
        <div key={group.text ?? ""} class="map-heading">
          <h2>
            {group.text !== null && grouping === "cluster" ? (
              <a href={linkTo("cluster", { cluster: group.text })}>{group.text}</a>
            ) : (
              titleOf(group.text, grouping)
            )}
          </h2>
          <span class="soft small">
            {plural(group.blocks, "node")} · {plural(group.devices, "device")}
            {means[place] === null
              ? ""
              : ` · mean ${MODE_INFO[mode].format(means[place] ?? null)}${MODE_INFO[mode].of ?? ""}`}
          </span>
        </div>
      ))}
    </>
  );
}

function titleOf(text: string | null, grouping: string): string {
  if (grouping === "none") return "All devices";
  if (text === null) return `${grouping === "model" ? "Model" : "Vendor"} not known`;
  return grouping === "vendor" ? vendorName(text) : text;
}

function meansOf({ groups, starts, rows }: Arrangement, fleet: Fleet, mode: Mode): (number | null)[] {
  const { scale, value } = MODE_INFO[mode];
  return groups.map((group) => {
    if (scale === null) return null;
    let sum = 0;
    let known = 0;
    const end = starts[group.firstBlock + group.blocks] as number;
    for (let place = starts[group.firstBlock] as number; place < end; place += 1) {
      const one = value(fleet, rows[place] as number);
      if (one === null) continue;
      sum += one;
      known += 1;
    }
    return known === 0 ? null : sum / known;
  });
}
