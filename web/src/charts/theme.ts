// Colours of the page for canvases, which cannot use CSS variables.
import { signal } from "@preact/signals";

export const themeChanges = signal(0); // increases with each change of the theme

if (typeof document !== "undefined") {
  new MutationObserver(() => {
    themeChanges.value += 1;
  }).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
}

export function token(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// A token as #rrggbb. The build may shorten #ffffff to #fff or to a name.
export function colour(name: string): string {
  const context = document.createElement("canvas").getContext("2d");
  if (!context) return token(name);
  context.fillStyle = token(name);
  return context.fillStyle;
}

export function tokens<Name extends string>(names: readonly Name[]): Record<Name, string> {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(
    names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]),
  ) as Record<Name, string>;
}
