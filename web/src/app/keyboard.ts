// Handles the keyboard shortcuts of keys.ts.
import { signal } from "@preact/signals";
import { paused, resume } from "../live/stream";
import { actionOf, isTyping } from "./keys";
import { go } from "./location";
import { linkTo } from "./routes";
import { readStorage, writeStorage } from "./storage";
import { toggleTheme } from "./theme";

const STORAGE_KEY = "accelscope.keys";
const SEQUENCE_MS = 1500;

export const helpOpen = signal(false);
// Single-key shortcuts can interfere with speech input and other assistive technology, so they can be disabled.
export const keysEnabled = signal(readStorage("localStorage", STORAGE_KEY) !== "off");
export const SEARCH_FIELD = "search-field";

export function setKeysEnabled(on: boolean): void {
  keysEnabled.value = on;
  writeStorage("localStorage", STORAGE_KEY, on ? null : "off");
}

export function togglePause(): void {
  if (paused.value) resume();
  else paused.value = true;
}

export function startKeyboard(): () => void {
  let gAt = Number.NEGATIVE_INFINITY;
  const pressed = (event: KeyboardEvent) => {
    if (event.defaultPrevented || event.repeat || !keysEnabled.value) return;
    const action = actionOf(
      {
        key: event.key,
        modified: event.ctrlKey || event.altKey || event.metaKey,
        typing: isTyping(event.target),
        open: document.querySelector("dialog[open]") !== null,
      },
      event.timeStamp - gAt < SEQUENCE_MS,
    );
    gAt = Number.NEGATIVE_INFINITY;
    if (action === null) return;
    event.preventDefault();
    if (action.does === "wait") gAt = event.timeStamp;
    else if (action.does === "go") go(linkTo(action.view));
    else if (action.does === "search") document.getElementById(SEARCH_FIELD)?.focus();
    else if (action.does === "help") helpOpen.value = true;
    else if (action.does === "theme") toggleTheme();
    else togglePause();
  };
  document.addEventListener("keydown", pressed);
  return () => document.removeEventListener("keydown", pressed);
}
