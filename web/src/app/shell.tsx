// The frame of every view: header, navigation and connection state.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { hasFailedRequests, isDelayed, pendingSince } from "../live/pending";
import { connection, paused, summary } from "../live/stream";
import { Badge } from "../parts/badge";
import { now } from "../parts/now";
import { SearchBox } from "../search/search-box";
import { Icon } from "./icons";
import { helpOpen, togglePause } from "./keyboard";
import { pathname } from "./location";
import { Navigation } from "./navigation";
import { StreamBanner } from "./stream-banner";
import { theme, toggleTheme } from "./theme";
import { count, plural } from "./units";
import "./shell.css";

export const MAIN = "main";

interface Props {
  needsToken: (() => void) | null; // opens the token dialog
  children: ComponentChildren;
}

export function Shell({ needsToken, children }: Props) {
  const [menu, setMenu] = useState(false);
  const here = pathname.value;
  useEffect(() => setMenu(false), [here]);
  return (
    <div class="shell">
      <a class="shell-skip" href={`#${MAIN}`} onClick={skip}>
        Skip to content
      </a>
      <header class="shell-header">
        <button
          type="button"
          class="plain shell-menu"
          aria-expanded={menu}
          aria-controls="navigation"
          onClick={() => setMenu(!menu)}
          aria-label="Menu"
        >
          <Icon name="menu" />
        </button>
        <a class="shell-brand" href="/" aria-label="AccelScope">
          <img src="/favicon.svg" alt="" width="20" height="20" />
          <span>AccelScope</span>
        </a>
        <SearchBox />
        <div class="shell-state">
          <SimulatedFleet />
          {needsToken ? (
            <button type="button" onClick={needsToken}>
              Enter token
            </button>
          ) : (
            <Live />
          )}
          <button
            type="button"
            class="plain shell-icon"
            aria-pressed={paused.value}
            aria-label="Pause updates"
            onClick={togglePause}
            title="Pause updates (p)"
          >
            <Icon name={paused.value ? "play" : "pause"} />
          </button>
          <button
            type="button"
            class="plain shell-icon"
            aria-label={theme.value === "dark" ? "Light theme" : "Dark theme"}
            title={`${theme.value === "dark" ? "Light theme" : "Dark theme"} (t)`}
            onClick={toggleTheme}
          >
            <Icon name={theme.value === "dark" ? "light" : "dark"} />
          </button>
          <button
            type="button"
            class="plain shell-icon"
            aria-label="Help and settings"
            title="Help and settings (?)"
            onClick={() => (helpOpen.value = true)}
          >
            <Icon name="help" />
          </button>
        </div>
      </header>
      <Navigation open={menu} />
      <div class="shell-content">
        <StreamBanner />
        <main id={MAIN} class="shell-main" tabIndex={-1}>
          {children}
        </main>
      </div>
    </div>
  );
}

function skip(event: MouseEvent): void {
  event.preventDefault();
  document.getElementById(MAIN)?.focus();
}

const SAID = {
  live: "Live",
  behind: "Delayed",
  connecting: "Connecting",
  lost: "Disconnected",
  paused: "Paused",
} as const;
type State = keyof typeof SAID;

function liveState(): State {
  if (paused.value) return "paused";
  if (connection.value !== "live") return connection.value;
  return hasFailedRequests.value || isDelayed(pendingSince.value, now.value) ? "behind" : "live";
}

function Live() {
  const state = liveState();
  return (
    <span class={`shell-live shell-live-${state}`} title="Whether the page receives live updates">
      {SAID[state]}
    </span>
  );
}

function SimulatedFleet() {
  const sums = summary.value;
  if (!sums || sums.devices_simulated === 0) return null;
  const all = sums.devices_simulated === sums.devices;
  return (
    <Badge title={`${count(sums.devices_simulated)} of ${plural(sums.devices, "device")} are simulated`}>
      {all ? "simulated" : "partly simulated"}
    </Badge>
  );
}
