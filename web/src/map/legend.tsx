// Legend of the map with the number of devices.
import { useEffect, useRef } from "preact/hooks";
import { count } from "../app/units";
import { HEALTHS, type HealthName } from "./fleet";
import { MODE_INFO, type Mode } from "./modes";
import { FIRST_HEALTH, LEVELS, NOT_KNOWN } from "./paint-codes";
import type { Palette } from "./palette";
import { drawHealthShape, fillRect, frame } from "./raster";

interface Props {
  mode: Mode;
  palette: Palette;
  counts: Uint32Array; // by paint code
  healths: Uint32Array; // by health
  stale: number;
  chosen: readonly string[]; // selected health filters
  onHealth: (health: HealthName) => void;
}

export function Legend({ mode, palette, counts, healths, stale, chosen, onHealth }: Props) {
  const meaning = MODE_INFO[mode];
  // Healthy devices have no frame.
  const shown = HEALTHS.map((health, place) => ({ health, place })).filter(
    ({ place }) => meaning.scale === null || (place >= 1 && place <= 3),
  );
  return (
    <section class="map-legend" aria-label="Legend">
      {meaning.scale === null ? null : (
        <div class="map-scale">
          <Spread counts={counts} />
          <div class={`map-scale-bar map-scale-${meaning.scale}`} />
          <div class="map-scale-marks">
            {meaning.marks.map((mark, place) => (
              <span key={mark}>
                {meaning.format(mark)}
                {place === meaning.marks.length - 1 && (mode === "temperature" || mode === "age") ? " +" : ""}
              </span>
            ))}
          </div>
        </div>
      )}
      <ul class="map-keys">
        {shown.map(({ health, place }) => (
          <li key={health}>
            <button
              type="button"
              class="plain map-key"
              aria-pressed={chosen.includes(health)}
              title={`Show only ${health} devices`}
              onClick={() => onHealth(health)}
            >
              <Swatch mode={mode} health={place} palette={palette} />
              {health} <span class="soft">{count(healths[place] ?? 0)}</span>
            </button>
          </li>
        ))}
        {meaning.scale !== null && (counts[NOT_KNOWN] ?? 0) > 0 ? (
          <li class="map-key">
            <Swatch mode={mode} health={-1} palette={palette} />
            not known <span class="soft">{count(counts[NOT_KNOWN] ?? 0)}</span>
          </li>
        ) : null}
        {stale > 0 ? (
          <li class="map-key">
            faded: stale <span class="soft">{count(stale)}</span>
          </li>
        ) : null}
        <li class="map-key soft">hover over a fillRect for details</li>
      </ul>
    </section>
  );
}

// Histogram of the devices over the scale.
function Spread({ counts }: { counts: Uint32Array }) {
  const levels = counts.subarray(0, LEVELS);
  const most = Math.max(1, ...levels);
  let path = "";
  for (const [level, devices] of levels.entries()) {
    if (devices > 0) path += `M${level} 20h1v${-Math.max(1, Math.sqrt(devices / most) * 20).toFixed(1)}h-1z`;
  }
  return (
    <svg class="map-spread" viewBox={`0 0 ${LEVELS} 20`} preserveAspectRatio="none" aria-hidden="true">
      <path d={path} />
    </svg>
  );
}

const SIZE = 12;

// Drawn with the map's functions, so that it looks the same. health -1: unknown value.
function Swatch({ mode, health, palette }: { mode: Mode; health: number; palette: Palette }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context) return;
    const image = context.createImageData(SIZE * 2, SIZE * 2);
    const pixels = { data: new Uint32Array(image.data.buffer), width: SIZE * 2, height: SIZE * 2 };
    const size = SIZE * 2;
    if (health < 0) frame(pixels, 0, 0, size, 3, palette.plain[NOT_KNOWN] as number);
    else if (MODE_INFO[mode].scale === null) {
      drawHealthShape(
        pixels,
        0,
        0,
        size,
        palette.plain[FIRST_HEALTH + health] as number,
        health,
        palette.ground,
      );
    } else {
      fillRect(pixels, 0, 0, size, size, palette.plain[LEVELS >> 1] as number);
      if (health >= 1 && health <= 3) {
        const thick = health === 1 ? 3 : 5;
        frame(pixels, 0, 0, size, thick, palette.frames[health] as number);
        frame(pixels, thick, thick, size - 2 * thick, 1, palette.ground);
      }
    }
    context.putImageData(image, 0, 0);
  }, [mode, health, palette]);
  return <canvas ref={canvas} class="map-swatch" width={SIZE * 2} height={SIZE * 2} />;
}
