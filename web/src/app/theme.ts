// Light or dark: as the system has it, unless the reader chose. The choice is kept on this machine.
import { computed, effect, signal } from "@preact/signals";
import { keep, kept } from "./kept";

export type Theme = "light" | "dark";
export type Choice = Theme | "system";

const KEPT_AS = "accelscope.theme";

export const choice = signal<Choice>("system");
const system = signal<Theme>("light");
export const theme = computed<Theme>(() => (choice.value === "system" ? system.value : choice.value));

// Always changes what is seen; where that is what the system has, the system is followed again.
export function flipped(shown: Theme, systemHas: Theme): Choice {
  const other = shown === "light" ? "dark" : "light";
  return other === systemHas ? "system" : other;
}

export function choose(chosen: Choice): void {
  choice.value = chosen;
  keep("localStorage", KEPT_AS, chosen === "system" ? null : chosen);
}

export function flip(): void {
  choose(flipped(theme.value, system.value));
}

export function startTheme(): void {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => {
    system.value = dark.matches ? "dark" : "light";
  };
  follow();
  dark.addEventListener("change", follow);
  const chosen = kept("localStorage", KEPT_AS);
  if (chosen === "light" || chosen === "dark") choice.value = chosen;
  effect(() => {
    document.documentElement.dataset.theme = theme.value;
  });
}
