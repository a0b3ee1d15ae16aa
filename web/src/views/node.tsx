// One node with its devices, workloads and agent.
import { path } from "../api/client";
import type { NodeDetail } from "../api/types";
import { linkTo } from "../app/routes";
import { bytes, celsius, count, duration, percent, plural, watts } from "../app/units";
import { affectsNode, useResource } from "../live/resource";
import { Simulated, Stale } from "../parts/badge";
import { Bar } from "../parts/bar";
import { type Fact, Facts } from "../parts/facts";
import { Health, words } from "../parts/health";
import { Panel } from "../parts/panel";
import { Empty, Loading, ResourceView } from "../parts/states";
import { Tile, Tiles } from "../parts/tile";
import { Vendor } from "../parts/vendor";
import { View } from "../parts/view";
import { RelatedEvents } from "./device/related-events";
import { Agent, Attribution, Readers, Sinks } from "./node/agent";
import { DeviceCard } from "./node/device-card";
import { StateNote } from "./node/state-note";
import { UnattributedUse } from "./node/unattributed-use";
import { Pods, Processes } from "./node/workloads";
import "./node/node.css";

const MANY_DEVICES = 16; // more devices have no sparkline, since each needs a request

export function NodeView({ cluster, node }: { cluster: string; node: string }) {
  const resource = useResource<NodeDetail>(
    `/api/v1/nodes/${path(cluster, node)}`,
    {},
    {
      affects: affectsNode(cluster, node),
    },
  );
  const row = resource.data?.node;
  return (
    <View
      kind="Node"
      title={node}
      crumbs={[
        { text: "Nodes", href: linkTo("nodes") },
        { text: cluster, href: linkTo("cluster", { cluster }) },
      ]}
      badges={
        row ? (
          <>
            {row.state === "stale" ? (
              <Stale ageSeconds={row.age_seconds} reason={row.reason} />
            ) : row.state === "fresh" ? null : (
              <Health state={row.state} reason={row.reason} />
            )}
            {row.simulated ? <Simulated /> : null}
          </>
        ) : null
      }
      actions={<a href={linkTo("map", {}, { cluster, q: node })}>Show on map</a>}
    >
      {resource.problem?.status === 404 && !resource.data ? (
        <Empty title="Node not found">
          It was never read, or it was removed after not responding for too long.{" "}
          <a href={linkTo("nodes", {}, { q: node })}>Search for it</a>
        </Empty>
      ) : (
        <ResourceView of={resource} loading={<Loading rows={14} />}>
          {(detail) => <Whole detail={detail} />}
        </ResourceView>
      )}
    </View>
  );
}

function Whole({ detail }: { detail: NodeDetail }) {
  const { node, devices } = detail;
  const inOrder = [...devices].sort(
    (a, b) => a.vendor.localeCompare(b.vendor) || (a.index ?? 0) - (b.index ?? 0),
  );
  const vendors = new Set(devices.map((device) => device.vendor)).size;
  const names = new Map(
    devices.map((device) => [
      device.id,
      `${vendors > 1 ? `${device.vendor} ` : ""}${device.index ?? device.id}`,
    ]),
  );
  return (
    <>
      <StateNote node={node} />
      <Numbers detail={detail} />
      <Panel title="Devices" aside={deviceCounts(detail)}>
        {inOrder.length > 0 ? (
          <ul class="device-cards">
            {inOrder.map((device) => (
              <DeviceCard key={device.id} device={device} withPast={inOrder.length <= MANY_DEVICES} />
            ))}
          </ul>
        ) : (
          <Empty title="No devices">{node.reason ? words(node.reason) : "See the readers below."}</Empty>
        )}
      </Panel>
      <Pods rows={byDevice(detail.pods, inOrder)} names={names} />
      <Processes rows={byDevice(detail.processes, inOrder)} names={names} />
      <UnattributedUse rows={detail.unattributed} names={names} />
      <Panel title="Node details">
        <Facts facts={factsOf(detail)} />
      </Panel>
      <Agent detail={detail} />
      <Readers readers={detail.readers} />
      <Attribution sources={detail.attribution} />
      <Sinks sinks={detail.sinks} />
      <RelatedEvents cluster={node.cluster} node={node.node} />
      <Labels labels={detail.labels} />
    </>
  );
}

// Sorts rows by device; rows of one device keep the API's order.
function byDevice<R extends { device: string }>(rows: readonly R[], devices: readonly { id: string }[]): R[] {
  const places = new Map(devices.map(({ id }, place) => [id, place]));
  const placeOf = ({ device }: R) => places.get(device) ?? devices.length;
  return rows.toSorted((a, b) => placeOf(a) - placeOf(b));
}

function deviceCounts({ node }: NodeDetail): string {
  const unhealthy = node.devices_unhealthy > 0 ? `, ${node.devices_unhealthy} unhealthy` : "";
  return `${count(node.devices)}${unhealthy}`;
}

function Numbers({ detail: { node, devices } }: { detail: NodeDetail }) {
  const reporting = devices.filter(({ utilization_ratio }) => utilization_ratio !== null).length;
  // Only devices that report both power and limit.
  const limited = devices.filter(
    (device) => device.power_watts !== null && device.power_limit_watts !== null,
  );
  const limit = limited.reduce((sum, device) => sum + (device.power_limit_watts ?? 0), 0);
  const drawn = limited.reduce((sum, device) => sum + (device.power_watts ?? 0), 0);
  const power = limit > 0 ? drawn / limit : null;
  return (
    <Tiles label="Node totals">
      <Tile title="Use" value={percent(node.utilization_ratio)} detail={meanOf(reporting, devices.length)}>
        <Bar ratio={node.utilization_ratio} label="use" text="" wide />
      </Tile>
      <Tile
        title="Memory"
        value={bytes(node.memory_used_bytes)}
        detail={`${percent(node.memory_used_ratio)} used, ${bytes(node.memory_total_bytes)} total`}
      >
        <Bar ratio={node.memory_used_ratio} label="memory" text="" wide />
      </Tile>
      <Tile
        title="Power"
        value={watts(node.power_watts)}
        detail={power === null ? "of its devices" : `${percent(power)} of known limits, ${watts(limit)}`}
      >
        {power === null ? null : <Bar ratio={power} label="power" text="" wide />}
      </Tile>
      <Tile title="Hottest" value={celsius(node.temperature_max_celsius)} detail="of its devices" />
      <Tile
        title="Unhealthy"
        value={count(node.devices_unhealthy)}
        of={`of ${count(node.devices)}`}
        tone={node.devices_lost > 0 ? "lost" : node.devices_unhealthy > 0 ? "warning" : "plain"}
        detail={node.devices_lost > 0 ? `${count(node.devices_lost)} lost` : "none lost"}
      />
      <Tile title="Pods" value={count(node.pods)} detail={plural(node.processes, "process", "processes")} />
    </Tiles>
  );
}

function meanOf(reporting: number, devices: number): string {
  if (reporting === devices || reporting === 0) return "mean of its devices";
  return `of ${count(reporting)} of ${count(devices)} devices`;
}

function factsOf({ node, interval_seconds }: NodeDetail): Fact[] {
  return [
    [
      "Cluster",
      <a key="cluster" href={linkTo("cluster", { cluster: node.cluster })}>
        {node.cluster}
      </a>,
    ],
    ["Vendors", node.vendors ? <Vendor key="vendor" vendor={node.vendors} /> : null],
    ["Models", node.models?.replaceAll(",", ", ") ?? null],
    ["State", <Health key="state" state={node.state} reason={node.reason} showReason />],
    ["Source", node.source?.replaceAll(",", ", ") ?? null],
    ["Age", duration(node.age_seconds)],
    ["Collection interval", duration(interval_seconds)],
    ["Agent", node.agent_version],
  ];
}

function Labels({ labels }: { labels: NodeDetail["labels"] }) {
  const facts = Object.entries(labels).sort(([a], [b]) => a.localeCompare(b));
  if (facts.length === 0) return null;
  return (
    <Panel title="Labels" aside="of the Node object">
      <dl class="node-labels">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value === "" ? <span class="soft">empty</span> : value}</dd>
          </div>
        ))}
      </dl>
    </Panel>
  );
}
