import type { HealthReport, SummaryRow } from "../../api/types";
import { linkTo } from "../../app/routes";
import { bytes, celsius, count, fraction, percent, plural, watts } from "../../app/units";
import { Bar, PartsBar } from "../../parts/bar";
import { Tile, Tiles } from "../../parts/tile";
import { allocatedRatio, healthParts, partsByHealth } from "./sums";

interface Props {
  sums: SummaryRow;
  health: HealthReport | null;
  within?: Record<string, string> | undefined; // filters of the linked tables
}

export function SumTiles({ sums, health, within = {} }: Props) {
  const unhealthy = sums.devices_unhealthy;
  return (
    <Tiles label="Totals">
      <Tile
        title="Devices"
        value={count(sums.devices)}
        of={`on ${plural(sums.nodes, "node")}`}
        href={linkTo("devices", {}, within)}
        detail={
          unhealthy > 0 || sums.devices_stale > 0
            ? [
                unhealthy > 0 ? `${count(unhealthy)} unhealthy` : "",
                sums.devices_stale > 0 ? `${count(sums.devices_stale)} stale` : "",
              ]
                .filter(Boolean)
                .join(", ")
            : "none unhealthy"
        }
      >
        <PartsBar
          label="Health"
          parts={health ? partsByHealth(health.devices_by_health) : healthParts(sums)}
        />
      </Tile>
      <Tile
        title="Use"
        value={percent(sums.utilization_ratio)}
        href={linkTo("devices", {}, { ...within, sort: "utilization_ratio" })}
        detail={plural(sums.processes, "process", "processes")}
      >
        <Level ratio={sums.utilization_ratio} label="Use" />
      </Tile>
      <Tile
        title="Memory"
        value={percent(sums.memory_used_ratio)}
        href={linkTo("devices", {}, { ...within, sort: "-memory_used_bytes" })}
        detail={
          sums.memory_total_bytes === null
            ? "not known"
            : `${bytes(sums.memory_used_bytes)} used, ${bytes(sums.memory_total_bytes)} total`
        }
      >
        <Level ratio={sums.memory_used_ratio} label="Memory" />
      </Tile>
      <Tile
        title="Allocated"
        value={percent(allocatedRatio(sums))}
        of={plural(sums.devices_allocated, "device")}
        href={linkTo("pods", {}, within)}
        detail={`${plural(sums.pods, "pod")}${sums.devices_idle > 0 ? `, ${fraction(sums.devices_idle)} devices idle` : ""}`}
      >
        <Level ratio={allocatedRatio(sums)} label="Allocated" />
      </Tile>
      <Tile
        title="Power"
        value={watts(sums.power_watts)}
        href={linkTo("devices", {}, { ...within, sort: "-power_watts" })}
        detail={
          sums.power_limit_ratio === null
            ? "limits not known"
            : `${percent(sums.power_limit_ratio)} of known limits, ${watts(sums.power_limit_watts)}`
        }
      />
      <Tile
        title="Hottest"
        value={celsius(sums.temperature_max_celsius)}
        href={linkTo("devices", {}, { ...within, sort: "-temperature_celsius" })}
        detail={`mean ${celsius(sums.temperature_celsius)}`}
      />
    </Tiles>
  );
}

// Only the bar: the tile already has the number.
function Level({ ratio, label }: { ratio: number | null; label: string }) {
  return (
    <span class="tile-level" aria-hidden="true">
      <Bar ratio={ratio} label={label} text="" wide />
    </span>
  );
}
