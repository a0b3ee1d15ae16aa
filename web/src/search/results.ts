// Results of the search box: views, then nodes, devices, pods and namespaces.
import type { DeviceRow, NamespaceRow, NodeRow, PodRow } from "../api/types";
import { DESTINATIONS } from "../app/destinations";
import { linkTo, type View } from "../app/routes";
import { plural } from "../app/units";

export interface Found {
  nodes: { items: NodeRow[]; total: number };
  devices: { items: DeviceRow[]; total: number };
  pods: { items: PodRow[]; total: number };
  namespaces: { items: NamespaceRow[]; total: number };
}

export interface Result {
  key: string;
  title: string;
  detail: string;
  href: string;
  health: string | null; // health of a device or state of a node, if not ok
}

export interface ResultGroup {
  title: string;
  results: readonly Result[];
}

const PER_GROUP = 5;

export function viewResults(text: string): ResultGroup | null {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return null;
  const results = DESTINATIONS.filter(({ title }) => title.toLowerCase().startsWith(wanted)).map(
    ({ view, title }) => ({
      key: `view:${view}`,
      title,
      detail: "",
      href: linkTo(view),
      health: null,
    }),
  );
  return results.length > 0 ? { title: "Views", results } : null;
}

export function resultGroups(text: string, found: Found): ResultGroup[] {
  const groups = [
    group("Nodes", "nodes", text, found.nodes.items.map(ofNode), found.nodes.total),
    group("Devices", "devices", text, found.devices.items.map(ofDevice), found.devices.total),
    group(
      "Pods",
      "pods",
      text,
      once(found.pods.items.map(ofPod)),
      null,
      found.pods.total > found.pods.items.length,
    ),
    group("Namespaces", "namespaces", text, found.namespaces.items.map(ofNamespace), found.namespaces.total),
  ];
  return groups.filter((one) => one.results.length > 0);
}

// total null: unknown. The API counts rows of containers and devices, not pods.
function group(
  title: string,
  view: View,
  text: string,
  results: Result[],
  total: number | null,
  more = false,
): ResultGroup {
  const shown = results.slice(0, PER_GROUP);
  if (more || shown.length < (total ?? results.length)) {
    shown.push({
      key: `all:${view}`,
      title:
        total === null
          ? `All matching ${title.toLowerCase()}`
          : `All ${total} matching ${title.toLowerCase()}`,
      detail: "",
      href: linkTo(view, {}, { q: text.trim() }),
      health: null,
    });
  }
  return { title, results: shown };
}

function once(results: Result[]): Result[] {
  const seen = new Set<string>();
  return results.filter(({ key }) => !seen.has(key) && seen.add(key));
}

function ofNode(row: NodeRow): Result {
  return {
    key: `node:${row.cluster}/${row.node}`,
    title: row.node,
    detail: [row.cluster, row.models].filter(Boolean).join(" · "),
    href: linkTo("node", { cluster: row.cluster, node: row.node }),
    health: row.state === "fresh" ? null : row.state,
  };
}

function ofDevice(row: DeviceRow): Result {
  return {
    key: `device:${row.cluster}/${row.node}/${row.id}`,
    title: row.uuid ?? row.serial ?? row.id,
    detail: [row.model, `${row.node}${row.index === null ? "" : ` #${row.index}`}`, row.cluster]
      .filter(Boolean)
      .join(" · "),
    href: linkTo("device", { cluster: row.cluster, node: row.node, device: row.id }),
    health: row.health === "ok" ? null : row.health,
  };
}

function ofPod(row: PodRow): Result {
  return {
    key: `pod:${row.cluster}/${row.namespace}/${row.pod}`,
    title: row.pod,
    detail: `${row.namespace} · ${row.node} · ${row.cluster}`,
    href: linkTo("pod", { cluster: row.cluster, namespace: row.namespace, pod: row.pod }),
    health: null,
  };
}

function ofNamespace(row: NamespaceRow): Result {
  return {
    key: `namespace:${row.cluster}/${row.namespace}`,
    title: row.namespace,
    detail: `${row.cluster} · ${plural(row.devices, "device")} · ${plural(row.pods, "pod")}`,
    href: linkTo("pods", {}, { cluster: row.cluster, namespace: row.namespace }),
    health: null,
  };
}

// The arrow keys wrap around: after the last result comes the field itself (-1), then the first.
export function moveSelection(chosen: number, by: 1 | -1, results: number): number {
  if (results === 0) return -1;
  const next = chosen + by;
  if (next < -1) return results - 1;
  return next >= results ? -1 : next;
}
