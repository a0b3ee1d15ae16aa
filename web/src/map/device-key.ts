// Identifies a device of the map. The map's columns contain no ids: 80,000 ids would be most of the response.
import { get, type Parameters } from "../api/client";
import type { DeviceRow, DeviceRowPage } from "../api/types";
import { linkTo } from "../app/routes";
import type { Arrangement } from "./arrangement";
import { type Fleet, numberOf, textOf } from "./fleet";

export interface DeviceKey {
  cluster: string;
  node: string;
  vendor: string | null;
  index: number | null;
}

export function deviceKey(fleet: Fleet, row: number): DeviceKey {
  return {
    cluster: textOf(fleet, "cluster", row) ?? "",
    node: textOf(fleet, "node", row) ?? "",
    vendor: textOf(fleet, "vendor", row),
    index: numberOf(fleet, "index", row),
  };
}

// The current index of a device; `last`: its previous index. null: no longer shown.
export function placeOf({ rows }: Arrangement, fleet: Fleet, of: DeviceKey, last: number): number | null {
  const is = (place: number) => {
    const row = rows[place];
    if (row === undefined) return false;
    const { cluster, node, vendor, index } = deviceKey(fleet, row);
    return index === of.index && node === of.node && cluster === of.cluster && vendor === of.vendor;
  };
  if (is(last)) return last;
  for (let place = 0; place < rows.length; place += 1) if (is(place)) return place;
  return null;
}

// null: the device has no index, so it cannot be identified.
export function deviceParameters(of: DeviceKey): Parameters | null {
  if (of.index === null) return null;
  return { cluster: of.cluster, node: of.node, vendor: of.vendor, index: of.index, limit: 2 };
}

export function linkOf(device: DeviceRow): string {
  return linkTo("device", { cluster: device.cluster, node: device.node, device: device.id });
}

export function nodeLink(of: DeviceKey): string {
  return linkTo("node", { cluster: of.cluster, node: of.node });
}

// The link of a device, or of its node if the device cannot be identified.
export async function resolveLink(of: DeviceKey): Promise<string> {
  const asked = deviceParameters(of);
  if (asked === null) return nodeLink(of);
  const { items } = await get<DeviceRowPage>("/api/v1/devices", asked);
  const [device] = items;
  return device && items.length === 1 ? linkOf(device) : nodeLink(of);
}
