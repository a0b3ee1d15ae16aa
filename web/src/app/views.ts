// Views are loaded on demand; the others are loaded when the page is idle.
import type { ComponentType } from "preact";
import type { View } from "./routes";

// Its properties are the parts of the path: `/nodes/:cluster/:node` gives cluster and node.
export type ViewComponent = ComponentType<Record<string, string>>;

const VIEWS: Record<View, () => Promise<ComponentType<never>>> = {
  overview: async () => (await import("../views/overview")).OverviewView,
  map: async () => (await import("../views/map")).MapView,
  clusters: async () => (await import("../views/clusters")).ClustersView,
  cluster: async () => (await import("../views/cluster")).ClusterView,
  nodes: async () => (await import("../views/nodes")).NodesView,
  node: async () => (await import("../views/node")).NodeView,
  devices: async () => (await import("../views/devices")).DevicesView,
  device: async () => (await import("../views/device")).DeviceView,
  pods: async () => (await import("../views/pods")).PodsView,
  pod: async () => (await import("../views/pod")).PodView,
  namespaces: async () => (await import("../views/namespaces")).NamespacesView,
  processes: async () => (await import("../views/processes")).ProcessesView,
  idle: async () => (await import("../views/idle")).IdleView,
  events: async () => (await import("../views/events")).EventsView,
};

const loaded = new Map<View, ViewComponent>();

export function ready(view: View): ViewComponent | null {
  return loaded.get(view) ?? null;
}

export async function load(view: View): Promise<ViewComponent> {
  const component = (await VIEWS[view]()) as ViewComponent;
  loaded.set(view, component);
  return component;
}

export function loadAllSoon(): void {
  const soon = window.requestIdleCallback ?? ((run: () => void) => setTimeout(run, 1000));
  soon(() => {
    for (const view of Object.keys(VIEWS) as View[]) load(view).catch(() => {}); // the view shows the error when it is opened
  });
}
