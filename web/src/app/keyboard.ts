// Listens for the keys of keys.ts and does what they say.
import { signal } from "@preact/signals";
import { paused, resume } from "../live/stream";
import { keep, kept } from "./kept";
import { actionOf, isTyping } from "./keys";
import { go } from "./location";
import { linkTo } from "./routes";
import { flip } from "./theme";

const KEPT_AS = "accelscope.keys";
const LETTER_WITHIN_MS = 1500;

export const helpOpen = signal(false);
// Single keys get in the way of some who speak to their computer, or whose hands slip: they can be turned off.
export const keysOn = signal(kept("localStorage", KEPT_AS) !== "off");
export const SEARCH_FIELD = "search-field";

export function turnKeys(on: boolean): void {
  keysOn.value = on;
  keep("localStorage", KEPT_AS, on ? null : "off");
}

export function togglePause(): void {
  if (paused.value) resume();
  else paused.value = true;
}

export function startKeyboard(): () => void {
  let gAt = Number.NEGATIVE_INFINITY;
  const pressed = (event: KeyboardEvent) => {
    if (event.defaultPrevented || event.repeat || !keysOn.value) return;
    const action = actionOf(
      {
        key: event.key,
        modified: event.ctrlKey || event.altKey || event.metaKey,
        typing: isTyping(event.target),
        open: document.querySelector("dialog[open]") !== null,
      },
      event.timeStamp - gAt < LETTER_WITHIN_MS,
    );
    gAt = Number.NEGATIVE_INFINITY;
    if (action === null) return;
    event.preventDefault();
    if (action.does === "wait") gAt = event.timeStamp;
    else if (action.does === "go") go(linkTo(action.view));
    else if (action.does === "search") document.getElementById(SEARCH_FIELD)?.focus();
    else if (action.does === "help") helpOpen.value = true;
    else if (action.does === "theme") flip();
    else togglePause();
  };
  document.addEventListener("keydown", pressed);
  return () => document.removeEventListener("keydown", pressed);
}
