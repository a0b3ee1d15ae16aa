// Paths of the views. Parts of a path are URL-encoded.

export interface Place {
  view: string;
  parts: Record<string, string>;
}

const ROUTES = {
  overview: "/",
  map: "/map",
  clusters: "/clusters",
  cluster: "/clusters/:cluster",
  nodes: "/nodes",
  node: "/nodes/:cluster/:node",
  devices: "/devices",
  device: "/devices/:cluster/:node/:device",
  pods: "/pods",
  pod: "/pods/:cluster/:namespace/:pod",
  namespaces: "/namespaces",
  processes: "/processes",
  idle: "/idle",
  events: "/events",
} as const;

export type View = keyof typeof ROUTES;

export function placeOf(pathname: string): (Place & { view: View }) | null {
  const given = pathname.replace(/\/+$/, "").split("/");
  for (const [view, pattern] of Object.entries(ROUTES)) {
    const parts = matchPattern(pattern.replace(/\/+$/, "").split("/"), given);
    if (parts) return { view: view as View, parts };
  }
  return null;
}

function matchPattern(pattern: string[], given: string[]): Record<string, string> | null {
  if (pattern.length !== given.length) return null;
  const parts: Record<string, string> = {};
  for (const [place, piece] of pattern.entries()) {
    const shown = given[place] ?? "";
    if (!piece.startsWith(":")) {
      if (piece !== shown) return null;
      continue;
    }
    try {
      parts[piece.slice(1)] = decodeURIComponent(shown);
    } catch {
      return null;
    }
    if (shown === "") return null;
  }
  return parts;
}

export function linkTo(
  view: View,
  parts: Record<string, string> = {},
  parameters: Record<string, string> = {},
): string {
  const path = ROUTES[view].replace(/:([a-z]+)/g, (_, name: string) => encodeURIComponent(parts[name] ?? ""));
  const text = new URLSearchParams(parameters).toString();
  return text ? `${path}?${text}` : path;
}
