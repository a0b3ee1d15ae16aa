// Light or dark theme: the system's, unless the user chose one. The choice is stored in the browser.
import { computed, effect, signal } from "@preact/signals";
import { readStorage, writeStorage } from "./storage";

export type Theme = "light" | "dark";
export type Choice = Theme | "system";

const STORAGE_KEY = "accelscope.theme";

export const choice = signal<Choice>("system");
const system = signal<Theme>("light");
export const theme = computed<Theme>(() => (choice.value === "system" ? system.value : choice.value));

// The other theme; "system" if that is the system's theme.
export function oppositeTheme(shown: Theme, systemHas: Theme): Choice {
  const other = shown === "light" ? "dark" : "light";
  return other === systemHas ? "system" : other;
}

export function choose(chosen: Choice): void {
  choice.value = chosen;
  writeStorage("localStorage", STORAGE_KEY, chosen === "system" ? null : chosen);
}

export function toggleTheme(): void {
  choose(oppositeTheme(theme.value, system.value));
}

export function startTheme(): void {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => {
    system.value = dark.matches ? "dark" : "light";
  };
  follow();
  dark.addEventListener("change", follow);
  const chosen = readStorage("localStorage", STORAGE_KEY);
  if (chosen === "light" || chosen === "dark") choice.value = chosen;
  effect(() => {
    document.documentElement.dataset.theme = theme.value;
  });
}
