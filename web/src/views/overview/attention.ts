// Problems collected from several API responses, most severe first, each device once.

import { query } from "../../api/client";
import type { ClusterView, DeviceRow, HealthReport, IdlePods, NodeRow, UnusualReport } from "../../api/types";
import { FAULT_THROTTLES } from "../../api/vendors";
import { linkTo } from "../../app/routes";
import { celsius, duration, fraction, plural } from "../../app/units";
import { type Tone, toneOf, words } from "../../parts/health";
import { HOT, HOT_WITHOUT_LIMIT } from "../../parts/table/heat";
import { clusterStatus } from "../clusters/status";

// A page of devices with the total.
interface Found {
  items: readonly DeviceRow[];
  total: number;
}

export interface OverviewData {
  health: HealthReport | null;
  throttled: Found | null;
  hot: Found | null; // near or above their slowdown temperature
  hotWithoutLimit: Found | null; // no slowdown temperature reported
  unusual: UnusualReport | null;
  idle: IdlePods | null;
}

export interface Item {
  key: string;
  tone: Tone;
  word: string;
  title: string;
  href: string;
  where: string;
  text: string;
}

export interface Tally {
  word: string;
  tone: Tone;
  count: number;
  href: string;
}

const PER_KIND = 5;

export function tallies({ health, throttled, hot, hotWithoutLimit, unusual, idle }: OverviewData): Tally[] {
  const found: Tally[] = [];
  const add = (word: string, tone: Tone, count: number | undefined, href: string, of = "") => {
    if (count) found.push({ word: of ? `${word} ${of}${count === 1 ? "" : "s"}` : word, tone, count, href });
  };
  const devices = health?.devices_by_health ?? {};
  const nodes = health?.nodes_by_state ?? {};
  add("lost", "lost", devices.lost, linkTo("devices", {}, { health: "lost" }));
  add("critical", "critical", devices.critical, linkTo("devices", {}, { health: "critical" }));
  for (const [word, clusters] of byWord(health?.clusters ?? [])) {
    const text = `${clusters.length === 1 ? "cluster" : "clusters"} ${word}`;
    add(text, "critical", clusters.length, linkTo("clusters"));
  }
  add("incompatible", "critical", nodes.incompatible, linkTo("nodes", {}, { state: "incompatible" }), "node");
  add("hot", "warning", hot?.total, linkTo("devices", {}, HOT));
  add("hot, limit not known", "warning", hotWithoutLimit?.total, linkTo("devices", {}, HOT_WITHOUT_LIMIT));
  add("throttled", "warning", throttled?.total, linkTo("devices") + query({ throttled: FAULT_THROTTLES }));
  add("warning", "warning", devices.warning, linkTo("devices", {}, { health: "warning" }));
  add("stale", "warning", nodes.stale, linkTo("nodes", {}, { state: "stale" }), "node");
  add("unread", "unknown", nodes.unread, linkTo("nodes", {}, { state: "unread" }), "node");
  add(
    "anomalous",
    "warning",
    unusual?.devices_total,
    linkTo("devices", {}, { present: "unusual" }),
    "device",
  );
  add("anomalous", "warning", unusual?.pods_total, linkTo("pods", {}, { present: "unusual" }), "pod");
  add("idle", "unknown", idle?.total, linkTo("idle"), "pod");
  return found;
}

export function attention({ health, throttled, hot, hotWithoutLimit, unusual, idle }: OverviewData): Item[] {
  const items = new Map<string, Item>();
  const add = (some: readonly Item[]) => {
    for (const item of some.slice(0, PER_KIND)) {
      const have = items.get(item.key);
      if (!have) items.set(item.key, item);
      else if (item.text && !have.text.includes(item.text))
        have.text = [have.text, item.text].filter(Boolean).join("; ");
    }
  };
  const devices = health?.devices ?? [];
  const nodes = health?.nodes ?? [];
  const inState = (state: string) =>
    devices.filter(({ health }) => health === state).map((row) => ofDevice(row));
  add(inState("lost"));
  add(inState("critical"));
  add((health?.clusters ?? []).map(ofCluster));
  add(nodes.filter((row) => row.state === "incompatible").map(ofNode));
  add((throttled?.items ?? []).map((row) => ofDevice(row, "throttled", words(row.throttled ?? ""))));
  const allHot = [...(hot?.items ?? []), ...(hotWithoutLimit?.items ?? [])];
  add(allHot.map((row) => ofDevice(row, "hot", hotText(row))));
  add(inState("warning"));
  const away = (health?.clusters ?? []).filter(({ reachable }) => reachable === false);
  const gone = (row: NodeRow) => row.state === "stale" && away.some(({ id }) => id === row.cluster);
  add(away.flatMap((cluster) => ofNodesOf(cluster, nodes.filter(gone))));
  add(nodes.filter((row) => row.state !== "incompatible" && !gone(row)).map(ofNode));
  add((unusual?.devices ?? []).map((row) => ofDevice(row, "anomaly", row.unusual ?? "")));
  add((unusual?.pods ?? []).map((row) => ofPod(row, "anomaly", "warning", row.unusual ?? "")));
  add(
    (idle?.items ?? []).map((row) =>
      ofPod(row, "idle", "unknown", idleText(row.devices_idle, row.idle_seconds)),
    ),
  );
  return [...items.values()];
}

function hotText({ temperature_celsius: at, temperature_slowdown_celsius: slowdown }: DeviceRow): string {
  return slowdown ? `${celsius(at)}, slows down at ${celsius(slowdown)}` : celsius(at);
}

function idleText(devices: number, seconds: number): string {
  return `${devices === 1 ? "1 device" : `${fraction(devices)} devices`} allocated, idle for ${duration(seconds)}`;
}

// Default word and text: the device's health.
function ofDevice(row: DeviceRow, word?: string, text = words(row.health_reason ?? "")): Item {
  return {
    key: `device ${row.cluster} ${row.node} ${row.id}`,
    tone: word === undefined ? toneOf(row.health) : "warning",
    word: word ?? row.health,
    title: `${row.node}${row.index === null ? "" : ` #${row.index}`}`,
    href: linkTo("device", { cluster: row.cluster, node: row.node, device: row.id }),
    where: [row.model, row.cluster].filter(Boolean).join(" · "),
    text,
  };
}

function ofNode(row: NodeRow): Item {
  const age = row.age_seconds === null ? "" : `last read ${duration(row.age_seconds)} ago`;
  return {
    key: `node ${row.cluster} ${row.node}`,
    tone: toneOf(row.state),
    word: row.state,
    title: row.node,
    href: linkTo("node", { cluster: row.cluster, node: row.node }),
    where: row.cluster,
    text: [row.reason ? words(row.reason) : "", age].filter(Boolean).join("; "),
  };
}

// One item for all stale nodes of an unreachable cluster.
function ofNodesOf({ id, name, nodes }: ClusterView, stale: readonly NodeRow[]): Item[] {
  const shown = stale.filter(({ cluster }) => cluster === id).length;
  if (shown === 0) return [];
  const all = nodes ?? shown;
  return [
    {
      key: `nodes ${id}`,
      tone: "warning",
      word: "stale",
      title: `${plural(all, "node")} of ${name ?? id}`,
      href: linkTo("nodes", {}, { cluster: id, state: "stale" }),
      where: `${all === 1 ? "is" : "are"} stale: the cluster is unreachable`,
      text: "",
    },
  ];
}

function byWord(clusters: readonly ClusterView[]): Map<string, ClusterView[]> {
  const found = new Map<string, ClusterView[]>();
  for (const cluster of clusters) {
    const { word } = clusterStatus(cluster);
    found.set(word, [...(found.get(word) ?? []), cluster]);
  }
  return found;
}

function ofCluster(row: ClusterView): Item {
  return {
    key: `cluster ${row.id}`,
    tone: "critical",
    word: clusterStatus(row).word,
    title: row.name ?? row.id,
    href: linkTo("cluster", { cluster: row.id }),
    where: "cluster",
    text: clusterStatus(row).why ?? "",
  };
}

function ofPod(
  row: { cluster: string; namespace: string; pod: string; node: string },
  word: string,
  tone: Tone,
  text: string,
): Item {
  return {
    key: `pod ${row.cluster} ${row.namespace} ${row.pod}`,
    tone,
    word,
    title: `${row.namespace}/${row.pod}`,
    href: linkTo("pod", { cluster: row.cluster, namespace: row.namespace, pod: row.pod }),
    where: `${row.node} · ${row.cluster}`,
    text,
  };
}
