// The map: each device is a small square, arranged by node and group.
import type { TargetedKeyboardEvent, TargetedMouseEvent, TargetedPointerEvent } from "preact";
import { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { go } from "../app/location";
import { ABSENT, plural } from "../app/units";
import { useSize } from "../charts/size";
import type { Arrangement } from "./arrangement";
import { moveCursor, type Step } from "./cursor";
import { type DeviceKey, deviceKey, nodeLink, placeOf, resolveLink } from "./device-key";
import { type Fleet, textOf } from "./fleet";
import { Headings } from "./headings";
import { fitLayout, hitTest, layOut, nextPitch, positionOf } from "./layout";
import { formatDeviceValue, MODE_INFO, type Mode } from "./modes";
import { Painter } from "./painter";
import type { Painting } from "./raster";
import { Tooltip } from "./tooltip";
import "./map.css";

interface Props {
  fleet: Fleet;
  mode: Mode;
  arrangement: Arrangement;
  painting: Omit<Painting, "layout">;
  grouping: string;
  pitch: number | null; // distance of devices in CSS pixels; null: fit
  shownPitch: { current: number }; // set to the current pitch
  since: () => number | null; // time of the input that caused the next drawing
  onPitch: (pitch: number | null) => void;
}

interface Pointed {
  device: DeviceKey;
  place: number; // index when it was hovered
  by: "pointer" | "keys" | "touch";
}

const STEPS: Record<string, Step> = {
  ArrowLeft: "left",
  ArrowRight: "right",
  ArrowUp: "up",
  ArrowDown: "down",
  Home: "first",
  End: "last",
  PageUp: "group-before",
  PageDown: "group-after",
};

export function FleetMap({
  fleet,
  mode,
  arrangement,
  painting,
  grouping,
  pitch,
  shownPitch,
  since,
  onPitch,
}: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const cursor = useRef<HTMLDivElement>(null);
  const overlay = useRef<HTMLDivElement>(null);
  const painter = useRef<Painter | null>(null);
  const size = useSize(scroller);
  const hint = useId();
  const [pointed, setPointed] = useState<Pointed | null>(null);
  const [trouble, setTrouble] = useState("");

  const layout = useMemo(
    () =>
      pitch === null
        ? fitLayout(arrangement, size.width, size.height)
        : layOut(arrangement, size.width, pitch),
    [arrangement, size, pitch],
  );

  shownPitch.current = layout.pitch;

  useEffect(() => {
    if (!canvas.current || !cursor.current || !overlay.current) return;
    const box = overlay.current;
    const made = new Painter({
      canvas: canvas.current,
      cursor: cursor.current,
      headings: () => box.querySelectorAll<HTMLElement>(".map-heading"),
    });
    painter.current = made;
    return () => made.stop();
  }, []);

  // The hovered device may have moved or disappeared in a new response.
  const place = useMemo(
    () => (pointed ? placeOf(arrangement, fleet, pointed.device, pointed.place) : null),
    [arrangement, fleet, pointed],
  );

  useLayoutEffect(() => {
    const at = since();
    if (at !== null) painter.current?.answer(at);
    painter.current?.show({ ...painting, layout, fleet }, size);
  }, [painting, layout, fleet, size, since]);
  useLayoutEffect(() => painter.current?.point(place), [place]);

  const at = (event: { clientX: number; clientY: number }) => {
    const box = scroller.current?.getBoundingClientRect();
    if (!box || !scroller.current) return null;
    return hitTest(layout, event.clientX - box.left, event.clientY - box.top + scroller.current.scrollTop);
  };
  const pointAt = (next: number | null, by: Pointed["by"]) => {
    const row = next === null ? undefined : arrangement.rows[next];
    setPointed(
      row === undefined || next === null ? null : { device: deviceKey(fleet, row), place: next, by },
    );
  };
  const open = async (row: number, wantsNode: boolean) => {
    const of = deviceKey(fleet, row);
    if (wantsNode) return go(nodeLink(of));
    try {
      go(await resolveLink(of));
    } catch (error) {
      setTrouble(error instanceof Error ? error.message : String(error));
    }
  };

  const onPointerMove = (event: TargetedPointerEvent<HTMLDivElement>) => {
    if (event.pointerType === "touch") return;
    const next = at(event)?.place ?? null;
    if (next === place || (next === null && pointed?.by === "keys")) return;
    painter.current?.answer(event.timeStamp);
    painter.current?.point(next);
    pointAt(next, "pointer");
  };
  const onClick = (event: TargetedMouseEvent<HTMLDivElement>) => {
    const target = at(event);
    if (!target) return setPointed(null);
    const first = arrangement.rows[target.place ?? (arrangement.starts[target.block] as number)] as number;
    if (target.place !== null && (event as unknown as PointerEvent).pointerType === "touch")
      pointAt(target.place, "touch");
    else void open(first, event.shiftKey || target.place === null);
  };
  const onKeyDown = (event: TargetedKeyboardEvent<HTMLDivElement>) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== event.currentTarget) return;
    const step = STEPS[event.key];
    const row = pointed && place !== null ? (arrangement.rows[place] as number) : null;
    if (step) {
      const next = place === null ? 0 : moveCursor(layout, place, step);
      painter.current?.answer(event.timeStamp);
      painter.current?.point(next);
      pointAt(next, "keys");
      reveal(scroller.current, positionOf(layout, next), layout.pitch);
    } else if (event.key === "Enter" && row !== null) void open(row, event.shiftKey);
    else if (event.key === "Escape" && pointed) setPointed(null);
    else if (event.key === "+" || event.key === "=") onPitch(nextPitch(layout.pitch, 1));
    else if (event.key === "-") onPitch(nextPitch(layout.pitch, -1));
    else if (event.key === "0") onPitch(null);
    else return;
    event.preventDefault();
  };

  const spot = place === null || !pointed ? null : positionOf(layout, place);
  const row = place === null || !pointed ? null : (arrangement.rows[place] as number);
  const tip = row === null ? null : tipContent(fleet, mode, row);
  return (
    <div class="map-frame">
      <div
        ref={scroller}
        class="map-scroll"
        role="application"
        aria-roledescription="map of devices"
        aria-label={`${plural(arrangement.rows.length, "device")} by ${MODE_INFO[mode].title.toLowerCase()}`}
        aria-describedby={hint}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it handles the keyboard itself
        tabIndex={0}
        onPointerMove={onPointerMove}
        onPointerLeave={() => pointed?.by === "pointer" && setPointed(null)}
        onClick={onClick}
        onKeyDown={onKeyDown}
        onScroll={(event) => {
          painter.current?.answer(event.timeStamp);
          painter.current?.scroll(event.currentTarget.scrollTop);
          if (pointed?.by === "pointer") setPointed(null);
        }}
      >
        <div class="map-space" style={{ height: `${Math.max(layout.height, 1)}px` }}>
          <div class="map-sight" ref={overlay} style={{ height: `${size.height}px` }}>
            <canvas ref={canvas} class="map-canvas" />
            <div ref={cursor} class="map-cursor" hidden />
            <Headings arrangement={arrangement} fleet={fleet} mode={mode} grouping={grouping} />
          </div>
        </div>
      </div>
      {tip && spot ? (
        <Tooltip
          content={tip}
          x={spot.x}
          y={spot.y - (scroller.current?.scrollTop ?? 0)}
          size={layout.size}
          frame={size}
          links={pointed?.by === "touch"}
        />
      ) : null}
      <p id={hint} class="visually-hidden">
        Arrow keys move between devices, Page Up and Page Down between groups. Enter opens the device,
        Shift+Enter its node. Plus, minus and 0 change the size.
      </p>
      <p class="visually-hidden" role="status">
        {trouble || (tip && pointed?.by === "keys" ? announcement(tip, mode) : "")}
      </p>
    </div>
  );
}

function tipContent(fleet: Fleet, mode: Mode, row: number) {
  const value = formatDeviceValue(mode, fleet, row);
  return {
    deviceKey: deviceKey(fleet, row),
    model: textOf(fleet, "model", row),
    health: textOf(fleet, "health", row) ?? "unknown",
    stale: textOf(fleet, "state", row) === "stale",
    value: value === "" ? "" : `${MODE_INFO[mode].title} ${value}`,
  };
}

function announcement(tip: ReturnType<typeof tipContent>, mode: Mode): string {
  const value = mode === "health" ? "" : `, ${tip.value.replace(ABSENT, "not known")}`;
  const index = tip.deviceKey.index === null ? "" : ` device ${tip.deviceKey.index}`;
  return `${tip.deviceKey.node}${index}, ${tip.deviceKey.cluster}${value}, ${tip.health}${tip.stale ? ", stale" : ""}`;
}

function reveal(scroller: HTMLElement | null, { y }: { y: number }, pitch: number): void {
  if (!scroller) return;
  const room = 48; // below the sticky heading
  if (y - room < scroller.scrollTop) scroller.scrollTop = Math.max(0, y - room);
  else if (y + pitch + 8 > scroller.scrollTop + scroller.clientHeight)
    scroller.scrollTop = y + pitch + 8 - scroller.clientHeight;
}
