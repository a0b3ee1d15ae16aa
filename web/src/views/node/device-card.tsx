// Summary card of a device with a sparkline of the last hour.
import type { DeviceRow } from "../../api/types";
import { linkTo } from "../../app/routes";
import { ABSENT, bytes, celsius, percent, watts } from "../../app/units";
import { HOUR, useHistory } from "../../charts/history";
import { Absent, Value } from "../../parts/absent";
import { Bar } from "../../parts/bar";
import { Health } from "../../parts/health";
import { Sparkline } from "../../parts/sparkline";
import { DeviceNotes, NEARLY_FULL, ratioOf, TemperatureCell } from "../../parts/table/cells";
import { heatTone } from "../../parts/table/heat";
import { vendorName } from "../../parts/vendor";

export function DeviceCard({ device, withPast }: { device: DeviceRow; withPast: boolean }) {
  const { cluster, node, id } = device;
  const past = useHistory(withPast ? { scope: "device", cluster, node, key: id } : null, HOUR);
  const use = past.data?.fields.utilization_ratio ?? [];
  const memory = ratioOf(device.memory_used_bytes, device.memory_total_bytes);
  const power = ratioOf(device.power_watts, device.power_limit_watts);
  return (
    <li class={device.state === "stale" ? "device-card device-card-stale" : "device-card"}>
      <div class="device-card-head">
        <h3>
          <a href={linkTo("device", { cluster, node, device: id })}>
            <span class="device-card-index">{device.index ?? ABSENT}</span> {shortModel(device)}
          </a>
        </h3>
        <Health state={device.health} reason={device.health_reason} />
      </div>
      <dl class="device-card-numbers">
        <dt>Use</dt>
        <dd>
          <Bar ratio={device.utilization_ratio} label="use" wide />
        </dd>
        <dt>Memory</dt>
        <dd>
          <Bar
            ratio={memory}
            label="memory"
            text={
              memory === null
                ? undefined
                : `${bytes(device.memory_used_bytes)} of ${bytes(device.memory_total_bytes)}`
            }
            tone={memory !== null && memory >= NEARLY_FULL ? "warning" : "plain"}
            wide
          />
        </dd>
        <dt>Power</dt>
        <dd>
          {power === null ? (
            <Value text={watts(device.power_watts)} />
          ) : (
            <Bar
              ratio={power}
              label="power"
              text={`${watts(device.power_watts)} of ${watts(device.power_limit_watts)}`}
              wide
            />
          )}
        </dd>
        <dt>Temperature</dt>
        <dd>
          <Temperature device={device} />
        </dd>
      </dl>
      <div class="device-card-past">
        {use.filter((value) => value !== null).length > 1 ? (
          <Sparkline
            values={known(use)}
            label={`Use over the last hour, now ${percent(device.utilization_ratio)}`}
            max={1}
            height={24}
            wide
          />
        ) : null}
      </div>
      <div class="device-card-foot small">
        <span class="soft device-card-namespaces">
          {device.allocated === 0
            ? "not allocated"
            : (device.namespaces?.replaceAll(",", ", ") ?? "allocated")}
        </span>
        <DeviceNotes row={device} />
      </div>
    </li>
  );
}

function Temperature({ device }: { device: DeviceRow }) {
  const { temperature_celsius: at, temperature_slowdown_celsius: slowdown } = device;
  if (at === null) return <Absent />;
  if (slowdown === null) return <TemperatureCell at={at} slowdown={slowdown} />;
  return (
    <Bar
      ratio={ratioOf(at, slowdown)}
      label="temperature"
      text={`${celsius(at)} of ${celsius(slowdown)}`}
      tone={heatTone(at, slowdown)}
      wide
    />
  );
}

// The model without the vendor's name.
function shortModel({ model, vendor }: DeviceRow): string {
  const name = vendorName(vendor);
  return model?.startsWith(`${name} `) ? model.slice(name.length + 1) : (model ?? name);
}

// Without unknown values at the start, as after a start of the fleet.
function known(values: readonly (number | null)[]): readonly (number | null)[] {
  return values.slice(values.findIndex((value) => value !== null));
}
