// The page's location: the path selects the view, the query holds its filters, so that every view can be shared as a link.
import { computed, signal } from "@preact/signals";

const here = signal(read());

function read(): URL {
  return new URL(typeof location === "undefined" ? "http://localhost/" : location.href);
}

export const pathname = computed(() => here.value.pathname);
export const search = computed(() => here.value.searchParams);

if (typeof window !== "undefined") {
  window.addEventListener("popstate", () => {
    here.value = read();
  });
}

export function go(to: string, { replace = false } = {}): void {
  const url = new URL(to, here.value);
  if (url.href === here.value.href) return;
  if (replace) history.replaceState(null, "", url);
  else history.pushState(null, "", url);
  const moved = url.pathname !== here.value.pathname;
  here.value = url;
  if (moved) window.scrollTo(0, 0);
}

// The current address with new values of one parameter; without values it is removed.
export function withParameter(name: string, values: readonly string[]): string {
  const parameters = new URLSearchParams(here.value.search);
  parameters.delete(name);
  for (const value of values) if (value !== "") parameters.append(name, value);
  const text = parameters.toString();
  return here.value.pathname + (text ? `?${text}` : "");
}

// Handles plain clicks on links within the page. Clicks with modifier keys and external links are left to the browser.
export function followLink(event: MouseEvent): void {
  const anchor = (event.target as Element | null)?.closest?.("a");
  if (!anchor || event.defaultPrevented || event.button !== 0) return;
  if (
    event.metaKey ||
    event.ctrlKey ||
    event.shiftKey ||
    event.altKey ||
    anchor.target ||
    anchor.hasAttribute("download")
  )
    return;
  const url = new URL(anchor.href);
  if (
    url.origin !== location.origin ||
    /^\/(api|docs|openapi\.json|metrics|healthz|readyz)\b/.test(url.pathname)
  )
    return;
  event.preventDefault();
  go(url.href);
}
