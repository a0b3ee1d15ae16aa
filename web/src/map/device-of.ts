// One device of the map, asked for: the map's columns have no ids, 80,000 of them would be most of the answer.
import { get, type Parameters } from "../api/client";
import type { DeviceRow, DeviceRowPage } from "../api/types";
import { linkTo } from "../app/routes";
import type { Arrangement } from "./arrangement";
import { type Fleet, numberOf, textOf } from "./fleet";

export interface Named {
  cluster: string;
  node: string;
  vendor: string | null;
  index: number | null;
}

export function named(fleet: Fleet, row: number): Named {
  return {
    cluster: textOf(fleet, "cluster", row) ?? "",
    node: textOf(fleet, "node", row) ?? "",
    vendor: textOf(fleet, "vendor", row),
    index: numberOf(fleet, "index", row),
  };
}

// Where a device is now; `last`: where it was. null: it is not shown any more.
export function placeOf({ rows }: Arrangement, fleet: Fleet, of: Named, last: number): number | null {
  const is = (place: number) => {
    const row = rows[place];
    if (row === undefined) return false;
    const { cluster, node, vendor, index } = named(fleet, row);
    return index === of.index && node === of.node && cluster === of.cluster && vendor === of.vendor;
  };
  if (is(last)) return last;
  for (let place = 0; place < rows.length; place += 1) if (is(place)) return place;
  return null;
}

// null: nothing tells it apart from the others of its node.
export function question(of: Named): Parameters | null {
  if (of.index === null) return null;
  return { cluster: of.cluster, node: of.node, vendor: of.vendor, index: of.index, limit: 2 };
}

export function linkOf(device: DeviceRow): string {
  return linkTo("device", { cluster: device.cluster, node: device.node, device: device.id });
}

export function nodeLink(of: Named): string {
  return linkTo("node", { cluster: of.cluster, node: of.node });
}

// Where a click leads: to the device, or to its node where the device cannot be told apart.
export async function whereabouts(of: Named): Promise<string> {
  const asked = question(of);
  if (asked === null) return nodeLink(of);
  const { items } = await get<DeviceRowPage>("/api/v1/devices", asked);
  const [device] = items;
  return device && items.length === 1 ? linkOf(device) : nodeLink(of);
}
