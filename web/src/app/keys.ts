// Global keyboard shortcuts. `g` waits for a letter.
import { DESTINATIONS } from "./destinations";
import type { View } from "./routes";

export type Action =
  | { does: "go"; view: View }
  | { does: "search" }
  | { does: "help" }
  | { does: "theme" }
  | { does: "pause" }
  | { does: "wait" } // for the letter after `g`
  | null;

export interface Pressed {
  key: string;
  modified: boolean; // with Ctrl, Alt or Meta: left to the browser
  typing: boolean; // the focus is in a text field
  open: boolean; // a dialog is open
}

export function actionOf({ key, modified, typing, open }: Pressed, afterG: boolean): Action {
  if (modified || typing || open) return null;
  if (afterG) {
    const place = DESTINATIONS.find((destination) => destination.key === key.toLowerCase());
    if (place) return { does: "go", view: place.view };
  }
  switch (key) {
    case "g":
      return { does: "wait" };
    case "/":
      return { does: "search" };
    case "?":
      return { does: "help" };
    case "t":
      return { does: "theme" };
    case "p":
      return { does: "pause" };
    default:
      return null;
  }
}

const FIELDS = new Set(["INPUT", "TEXTAREA", "SELECT"]);

export function isTyping(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  if (!element || typeof element.tagName !== "string") return false;
  if (element.isContentEditable) return true;
  if (!FIELDS.has(element.tagName)) return false;
  const type = (element as HTMLInputElement).type;
  return type !== "checkbox" && type !== "radio" && type !== "button";
}
