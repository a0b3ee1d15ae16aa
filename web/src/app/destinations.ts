// Destinations of the navigation, of the shortcut `g` and a letter, and of the search box.
import type { View } from "./routes";

export interface Destination {
  view: View;
  title: string;
  key: string; // after `g`
}

export interface Group {
  title: string;
  places: readonly Destination[];
}

export const GROUPS: readonly Group[] = [
  {
    title: "Fleet",
    places: [
      { view: "overview", title: "Overview", key: "o" },
      { view: "map", title: "Map", key: "m" },
      { view: "clusters", title: "Clusters", key: "c" },
      { view: "nodes", title: "Nodes", key: "n" },
      { view: "devices", title: "Devices", key: "d" },
    ],
  },
  {
    title: "Workloads",
    places: [
      { view: "namespaces", title: "Namespaces", key: "s" },
      { view: "pods", title: "Pods", key: "p" },
      { view: "processes", title: "Processes", key: "r" },
      { view: "idle", title: "Idle", key: "i" },
    ],
  },
  { title: "Log", places: [{ view: "events", title: "Events", key: "e" }] },
];

export const DESTINATIONS: readonly Destination[] = GROUPS.flatMap((group) => group.places);

// List view that a detail view belongs to.
const WITHIN: Partial<Record<View, View>> = {
  cluster: "clusters",
  node: "nodes",
  device: "devices",
  pod: "pods",
};

export function destinationOf(view: View): View {
  return WITHIN[view] ?? view;
}
