// One device with all its values.
import { path } from "../api/client";
import type { DeviceDetail, DeviceRow } from "../api/types";
import { linkTo } from "../app/routes";
import { duration } from "../app/units";
import { toFleetTime } from "../live/fleet-clock";
import { affectsNode, useResource } from "../live/resource";
import { secondsSince } from "../parts/age";
import { Badge, Simulated, Stale } from "../parts/badge";
import { shortId } from "../parts/events";
import { Facts } from "../parts/facts";
import { Health, HealthIcon, toneOf, words } from "../parts/health";
import { now } from "../parts/now";
import { Panel } from "../parts/panel";
import { Empty, Loading, ResourceView, StaleNote } from "../parts/states";
import { vendorName } from "../parts/vendor";
import { View } from "../parts/view";
import { Balance } from "./device/balance";
import { Errors, Links, UnavailableValues } from "./device/diagnostics";
import { identityOf } from "./device/facts";
import { LiveCharts } from "./device/live-charts";
import { Partitions } from "./device/partitions";
import { Activity, Clocks, Cores, Rails, State } from "./device/readings";
import { RelatedEvents } from "./device/related-events";
import { UnattributedUse } from "./node/unattributed-use";
import { Pods, Processes } from "./node/workloads";
import "./device/device.css";

export function DeviceView({ cluster, node, device }: { cluster: string; node: string; device: string }) {
  const resource = useResource<DeviceDetail>(
    `/api/v1/devices/${path(cluster, node, device)}`,
    {},
    {
      affects: affectsNode(cluster, node),
    },
  );
  const row = resource.data?.device;
  return (
    <View
      kind="Device"
      title={row ? titleOf(row) : shortId(device)}
      crumbs={[
        { text: "Devices", href: linkTo("devices") },
        { text: cluster, href: linkTo("cluster", { cluster }) },
        { text: node, href: linkTo("node", { cluster, node }) },
      ]}
      badges={row ? <Badges row={row} /> : null}
    >
      {resource.problem?.status === 404 && !resource.data ? (
        <Empty title="Device not found">
          It was never read, or it was removed after being absent for too long.{" "}
          <a href={linkTo("node", { cluster, node })}>Show its node</a>
        </Empty>
      ) : (
        <ResourceView of={resource} loading={<Loading rows={16} />}>
          {(detail) => <Whole detail={detail} />}
        </ResourceView>
      )}
    </View>
  );
}

function titleOf({ index, id, model, vendor }: DeviceRow): string {
  return `${index ?? shortId(id)} · ${model ?? vendorName(vendor)}`;
}

function Badges({ row }: { row: DeviceRow }) {
  return (
    <>
      <Health state={row.health} reason={row.health_reason} />
      {row.state === "stale" ? <Stale ageSeconds={row.age_seconds} /> : null}
      {row.throttled ? (
        <Badge tone="warning" title={`Clocks are reduced: ${words(row.throttled)}`}>
          throttled
        </Badge>
      ) : null}
      {row.unusual ? (
        <Badge tone="warning" title={`Anomaly: ${words(row.unusual)}`}>
          anomaly
        </Badge>
      ) : null}
      {row.simulated ? <Simulated /> : null}
    </>
  );
}

const ENDS: Record<string, string> = {
  reset: "a reset of the device",
  driver_reload: "the driver is loaded again",
  reboot: "the node is rebooted",
  replacement: "the device is replaced",
};

// Why the device is not healthy, since when, what to do, and what ends it.
function HealthNote({ detail: { device, reading } }: { detail: DeviceDetail }) {
  if (device.health === "ok" || device.health_reason === null) return null;
  // The reading may be older than the state.
  const health = reading?.health.reason === device.health_reason ? reading.health : null;
  const since = secondsSince(health?.since, toFleetTime(now.value));
  const end = ENDS[health?.until ?? ""];
  return (
    <div class="note note-warning" role="status">
      <HealthIcon tone={toneOf(device.health)} />
      <div class="note-text">
        <strong>{words(device.health_reason)}</strong>
        {since === null ? "" : `, for ${duration(since)}`}
        {end === undefined ? ". " : `, until ${end}. `}
        {device.health_action === null ? "" : `${device.health_action}.`}
      </div>
    </div>
  );
}

function Whole({ detail }: { detail: DeviceDetail }) {
  const { device, reading } = detail;
  return (
    <>
      {device.state === "stale" ? (
        <StaleNote>
          {device.age_seconds === null
            ? "No reading of this device is available."
            : `No new data from this device for ${duration(device.age_seconds)}. Showing the last known values.`}
        </StaleNote>
      ) : null}
      <HealthNote detail={detail} />
      <LiveCharts detail={detail} />
      <div class="columns">
        <Panel title="Device details">
          <Facts facts={identityOf(detail)} />
        </Panel>
        {reading ? (
          <div class="device-stack">
            <State reading={reading} />
            <Clocks reading={reading} />
            <Activity reading={reading} />
            <Cores reading={reading} />
          </div>
        ) : (
          <Panel title="State">
            <Empty title="Summary only">{`The source ${device.source} provides no further details.`}</Empty>
          </Panel>
        )}
      </div>
      {reading ? <Partitions reading={reading} pods={detail.pods} /> : null}
      <Pods rows={detail.pods} names={null} />
      <Processes rows={detail.processes} names={null} />
      <UnattributedUse rows={detail.unattributed} names={null} />
      {reading ? (
        <>
          <Errors errors={detail.errors} reading={reading} />
          <Balance balance={detail.balance} />
          <Rails reading={reading} />
          <Links reading={reading} />
        </>
      ) : null}
      <RelatedEvents cluster={device.cluster} node={device.node} device={device.id} />
      {reading ? <UnavailableValues reading={reading} /> : null}
    </>
  );
}
