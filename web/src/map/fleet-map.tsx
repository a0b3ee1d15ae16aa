// The map: every device a small square, nodes together, groups below each other.
import type { TargetedKeyboardEvent, TargetedMouseEvent, TargetedPointerEvent } from "preact";
import { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { go } from "../app/location";
import { ABSENT, howMany } from "../app/units";
import { useSize } from "../charts/size";
import type { Arrangement } from "./arrangement";
import { moved, type Step } from "./cursor";
import { type Named, named, nodeLink, placeOf, whereabouts } from "./device-of";
import { type Fleet, textOf } from "./fleet";
import { Headings } from "./headings";
import { fitted, hit, laidOut, nextPitch, spotOf } from "./layout";
import { MEANINGS, type Mode, told } from "./modes";
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
  pitch: number | null; // of devices, CSS pixels; null: as large as fits
  shownPitch: { current: number }; // told what it is
  since: () => number | null; // when the reader did what is shown next
  onPitch: (pitch: number | null) => void;
}

interface Pointed {
  device: Named;
  place: number; // on the map, when it was pointed at
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
      pitch === null ? fitted(arrangement, size.width, size.height) : laidOut(arrangement, size.width, pitch),
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

  // What is pointed at may be elsewhere in a new answer, or gone.
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
    return hit(layout, event.clientX - box.left, event.clientY - box.top + scroller.current.scrollTop);
  };
  const pointAt = (next: number | null, by: Pointed["by"]) => {
    const row = next === null ? undefined : arrangement.rows[next];
    setPointed(row === undefined || next === null ? null : { device: named(fleet, row), place: next, by });
  };
  const open = async (row: number, wantsNode: boolean) => {
    const of = named(fleet, row);
    if (wantsNode) return go(nodeLink(of));
    try {
      go(await whereabouts(of));
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
      const next = place === null ? 0 : moved(layout, place, step);
      painter.current?.answer(event.timeStamp);
      painter.current?.point(next);
      pointAt(next, "keys");
      reveal(scroller.current, spotOf(layout, next), layout.pitch);
    } else if (event.key === "Enter" && row !== null) void open(row, event.shiftKey);
    else if (event.key === "Escape" && pointed) setPointed(null);
    else if (event.key === "+" || event.key === "=") onPitch(nextPitch(layout.pitch, 1));
    else if (event.key === "-") onPitch(nextPitch(layout.pitch, -1));
    else if (event.key === "0") onPitch(null);
    else return;
    event.preventDefault();
  };

  const spot = place === null || !pointed ? null : spotOf(layout, place);
  const row = place === null || !pointed ? null : (arrangement.rows[place] as number);
  const tip = row === null ? null : toldOf(fleet, mode, row);
  return (
    <div class="map-frame">
      <div
        ref={scroller}
        class="map-scroll"
        role="application"
        aria-roledescription="map of devices"
        aria-label={`${howMany(arrangement.rows.length, "device")} by ${MEANINGS[mode].title.toLowerCase()}`}
        aria-describedby={hint}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it has a cursor of its own
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
          told={tip}
          x={spot.x}
          y={spot.y - (scroller.current?.scrollTop ?? 0)}
          size={layout.size}
          frame={size}
          links={pointed?.by === "touch"}
        />
      ) : null}
      <p id={hint} class="unseen">
        Arrow keys move between devices, Page Up and Page Down between groups. Enter opens the device,
        Shift+Enter its node. Plus, minus and 0 change the size.
      </p>
      <p class="unseen" role="status">
        {trouble || (tip && pointed?.by === "keys" ? spoken(tip, mode) : "")}
      </p>
    </div>
  );
}

function toldOf(fleet: Fleet, mode: Mode, row: number) {
  const value = told(mode, fleet, row);
  return {
    named: named(fleet, row),
    model: textOf(fleet, "model", row),
    health: textOf(fleet, "health", row) ?? "unknown",
    stale: textOf(fleet, "state", row) === "stale",
    value: value === "" ? "" : `${MEANINGS[mode].title} ${value}`,
  };
}

function spoken(tip: ReturnType<typeof toldOf>, mode: Mode): string {
  const value = mode === "health" ? "" : `, ${tip.value.replace(ABSENT, "not known")}`;
  const index = tip.named.index === null ? "" : ` device ${tip.named.index}`;
  return `${tip.named.node}${index}, ${tip.named.cluster}${value}, ${tip.health}${tip.stale ? ", stale" : ""}`;
}

function reveal(scroller: HTMLElement | null, { y }: { y: number }, pitch: number): void {
  if (!scroller) return;
  const room = 48; // below the heading that stays
  if (y - room < scroller.scrollTop) scroller.scrollTop = Math.max(0, y - room);
  else if (y + pitch + 8 > scroller.scrollTop + scroller.clientHeight)
    scroller.scrollTop = y + pitch + 8 - scroller.clientHeight;
}
