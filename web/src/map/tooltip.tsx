// Tooltip of the hovered device: first the map's values, then all values from the API.
import { useEffect, useState } from "preact/hooks";
import type { DeviceRow, DeviceRowPage } from "../api/types";
import { ABSENT, bytes, celsius, duration, percent, watts } from "../app/units";
import { affectsNode, useResource } from "../live/resource";
import { Value } from "../parts/absent";
import { Health } from "../parts/health";
import { vendorName } from "../parts/vendor";
import { type DeviceKey, deviceParameters, linkOf, nodeLink } from "./device-key";

const REST_MS = 160; // no request while the pointer moves on

export interface TipContent {
  deviceKey: DeviceKey;
  model: string | null;
  health: string;
  stale: boolean;
  value: string; // of the current mode: "Use 42 %"
}

interface Props {
  content: TipContent;
  x: number; // position of the device in the frame
  y: number;
  size: number;
  frame: { width: number; height: number };
  links: boolean; // touch: show links, since there is no pointer
}

const WIDTH = 264;
const HEIGHT = 206;

export function Tooltip({ content, x, y, size, frame, links }: Props) {
  const { deviceKey } = content;
  const key = `${deviceKey.cluster}\n${deviceKey.node}\n${deviceKey.vendor}\n${deviceKey.index}`;
  const rested = usePointerRest(key);
  const asked = rested ? deviceParameters(deviceKey) : null;
  const { data } = useResource<DeviceRowPage>(asked === null ? null : "/api/v1/devices", asked ?? {}, {
    affects: affectsNode(deviceKey.cluster, deviceKey.node),
    minIntervalSeconds: 5,
  });
  const device = data?.items.length === 1 ? (data.items[0] ?? null) : null;
  return (
    <div
      class={links ? "map-tip map-tip-links" : "map-tip"}
      aria-hidden={links ? undefined : "true"}
      style={placed(x, y, size, frame)}
    >
      <div class="map-tip-name">
        {deviceKey.node}
        <span class="soft"> / {deviceKey.index ?? ABSENT}</span>
      </div>
      <div class="soft small map-tip-line">
        {deviceKey.cluster} ·{" "}
        {content.model ?? (deviceKey.vendor ? vendorName(deviceKey.vendor) : "model not known")}
      </div>
      <div class="map-tip-value">
        <Health state={content.health} reason={device?.health_reason} showReason />
        {content.stale ? <span class="soft"> stale</span> : null}
        {content.value ? <span>{content.value}</span> : null}
      </div>
      <Numbers device={device} />
      {links ? (
        <div class="map-tip-ways">
          {device ? <a href={linkOf(device)}>Open device</a> : null}
          <a href={nodeLink(deviceKey)}>Open node</a>
        </div>
      ) : (
        <div class="soft small">Click: open device · Shift+click: open node</div>
      )}
    </div>
  );
}

function Numbers({ device }: { device: DeviceRow | null }) {
  const rows: [string, string][] = [
    ["Use", percent(device?.utilization_ratio)],
    ["Memory", part(device?.memory_used_bytes, device?.memory_total_bytes, bytes)],
    ["Power", part(device?.power_watts, device?.power_limit_watts, watts)],
    ["Temperature", celsius(device?.temperature_celsius)],
    ["Allocated to", device ? (device.namespaces?.replaceAll(",", ", ") ?? "none") : ABSENT],
    ["Last read", ago(device?.age_seconds)],
  ];
  return (
    <dl class="map-tip-numbers">
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            <Value text={value} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

type Maybe = number | null | undefined;

function ago(seconds: Maybe): string {
  return seconds === null || seconds === undefined ? ABSENT : `${duration(seconds)} ago`;
}

function part(of: Maybe, whole: Maybe, written: (value: Maybe) => string): string {
  return whole === null || whole === undefined ? written(of) : `${written(of)} of ${written(whole)}`;
}

// Right of and below the device, or on the other side if there is no room.
function placed(x: number, y: number, size: number, frame: { width: number; height: number }) {
  const right = x + size + 10;
  const left = right + WIDTH <= frame.width ? right : Math.max(0, x - WIDTH - 10);
  const below = y + size + 6;
  const top = below + HEIGHT <= frame.height ? below : Math.max(0, y - HEIGHT - 6);
  return { left: `${left}px`, top: `${top}px`, width: `${Math.min(WIDTH, frame.width)}px` };
}

function usePointerRest(key: string): boolean {
  const [rested, setRested] = useState<string | null>(null);
  useEffect(() => {
    const timer = setTimeout(() => setRested(key), REST_MS);
    return () => clearTimeout(timer);
  }, [key]);
  return rested === key;
}
